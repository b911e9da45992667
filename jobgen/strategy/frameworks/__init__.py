"""One module a framework: a decided strategy in the words that its programs read.

Each has a function ``configure``. A new framework is a module with it, a line in ``MODULES`` and
its name in ``TRAITS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, cast

from jobgen.errors import Place
from jobgen.model.bundle import BundleFile
from jobgen.model.decision import NOWHERE, Setting
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Word
from jobgen.strategy.spec import Note, Strategy, TrainDiagnostic

if TYPE_CHECKING:
    from jobgen.strategy.shapes.architecture import Architecture

MODULES: Mapping[str, str] = {
    "torch": "jobgen.strategy.frameworks.torch",
    "accelerate": "jobgen.strategy.frameworks.accelerate",
    "hf-trainer": "jobgen.strategy.frameworks.hf_trainer",
    "deepspeed": "jobgen.strategy.frameworks.deepspeed",
    "megatron": "jobgen.strategy.frameworks.megatron",
    "torchtitan": "jobgen.strategy.frameworks.torchtitan",
    "lightning": "jobgen.strategy.frameworks.lightning",
}
"""Framework → its module, imported when it is used. ``none`` has none: nothing is rendered."""


class FrameworkRequest(NamedTuple):
    """What a framework is told beside the strategy."""

    strategy: Strategy
    nodes: int
    ranks_per_node: int
    gpus: bool = True
    """Whether the ranks have GPUs; without, the program computes on CPUs, over gloo."""
    place: Place = NOWHERE
    """The line of job.yaml that asks for it."""
    run_args: tuple[str, ...] = ()
    """What ``run`` says itself, word by word."""
    stops: bool = False
    """Whether the job is asked to save before its end (``checkpoint``)."""
    model: Architecture | None = None
    """The model that the planner counts; None where it is not known without doubt."""


class Configured(NamedTuple):
    """What the program is given. Paths in it begin with ``$JOBGEN_BUNDLE_DIR``."""

    files: tuple[BundleFile, ...] = ()
    env: Mapping[str, Setting] = {}
    args: tuple[Word, ...] = ()
    """Words behind the program's own, in order."""
    launcher: bytes | None = None
    """The launcher's configuration file, where the program gets it that way (accelerate)."""
    chosen: Mapping[str, Setting] = {}
    """What was chosen that the job does not say: key or option of the framework → its value."""
    notes: tuple[Note, ...] = ()
    """What a person should know."""
    faults: tuple[TrainDiagnostic, ...] = ()
    """What this framework cannot do."""
    saves: Literal["program", "wrapper", "signal", "interval"] = "program"
    """Who saves when the job is asked to stop: the program itself by the stop file, jobgen's
    wrapper of it, the framework at a signal, or nobody before its next interval."""
    signal: str = "TERM"
    """The signal at which the framework saves, where it does."""
    traces_itself: bool = False
    """Whether the options tell it which steps to trace, and nothing else has to."""


class _Module(Protocol):
    def configure(self, request: FrameworkRequest) -> Configured: ...


def configure(request: FrameworkRequest) -> Configured:
    """The strategy in the words of its framework; nothing where there is no framework.

    What it cannot do is said once for each key, and for each line of the user's own file.
    """
    name = MODULES.get(request.strategy.framework)
    if name is None:
        return Configured()
    made = cast(_Module, import_module(name)).configure(request)
    first: dict[tuple[str, ...], TrainDiagnostic] = {}
    for fault in made.faults:
        line = (fault.message,) if fault.path == ("config",) else ()
        first.setdefault((*fault.path, *line), fault)
    return made._replace(faults=tuple(first.values()))
