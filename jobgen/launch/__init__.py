"""One module a launcher: how the ranks of a job are started, as steps of plain bash.

Every launcher starts every rank as ``bash rank.sh bash program.sh``. What else depends on it stands
in its row of ``jobgen/model/launchers.py``. A new one is a module here, of the launcher's name and
with a function ``launch``, and a row there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from jobgen.errors import Place
from jobgen.model.decision import NOWHERE
from jobgen.model.launchers import name_agent
from jobgen.model.plan import Part, Shape, Step
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Raw, Word, quote, quote_expandable

if TYPE_CHECKING:
    from jobgen.model.job import Launcher

BUNDLE = "$JOBGEN_BUNDLE_DIR"
RANK: tuple[Word, ...] = (
    "bash",
    Raw(f'"{BUNDLE}/rank.sh"'),
    "bash",
    Raw(f'"{BUNDLE}/program.sh"'),
)
"""One rank: the checks, the logs, then the program."""


class LaunchRequest(NamedTuple):
    """What a launcher is told: the job's wish, and what has been decided before."""

    launcher: Launcher
    shape: Shape
    address: str
    """This node's address for the others, as bash that is evaluated on the node."""
    config: bytes | None = None
    """The launcher's configuration: what the strategy made, or ``launcher.config`` where app has
    read it."""
    place: Place = NOWHERE
    hostfile: str = "hostfile"
    """The name of DeepSpeed's list of nodes in the directory of the job's state."""


class Launch(NamedTuple):
    """How the ranks start: the steps before the program, and how ``node.sh`` is started."""

    node: Step
    """The end of ``node.sh``: it starts the launcher, or the rank itself. Its scope says what
    srun starts ``node.sh`` for; ``once``: the batch shell starts it on the head, without srun."""
    before: tuple[Step, ...] = ()
    """What the batch shell does first, such as writing a hostfile."""
    srun: tuple[Word, ...] = ()
    """Words for srun beside the usual ones."""
    part: Part = Part("launcher")


def launch(name: str, request: LaunchRequest) -> Launch:
    """How this launcher starts the ranks of such a job. Raises Invalid where it cannot."""
    made: Launch = import_module(f"{__name__}.{name_agent(name)}").launch(request)
    return made._replace(srun=(*made.srun, *expand_args(request.launcher.srun_args)))


def name_program(request: LaunchRequest, program: str) -> tuple[Word, ...]:
    """The words that stand for a launcher's name: ``launcher.command``, else the name."""
    return expand_args(request.launcher.command) or (program,)


def require_program(program: str, request: LaunchRequest | None = None) -> str:
    """Bash that stops with a clear word where the setup did not bring this program, or the first
    word of ``launcher.command`` in its place."""
    own = request.launcher.command[:1] if request else ()
    (word,) = expand_args(own) or (program,)
    shown = re.sub(r'([\\"$`])', r"\\\1", own[0] if own else program)
    return (
        f'command -v {quote(word)} >/dev/null || die 127 "{shown} is not on PATH; '
        "activate its environment in the job's setup key\""
    )


def join_lines(*groups: tuple[Word, ...]) -> str:
    """One command over several lines, a group of words on each."""
    return " \\\n  ".join(" ".join(quote(word) for word in group) for group in groups if group)


def expand_args(args: Sequence[str]) -> tuple[Raw, ...]:
    """Words of the user's for a command line: $NAME is expanded where the command runs."""
    return tuple(Raw(quote_expandable(arg)) for arg in args)


def export_ranks(local: str, *, world: str, rank: str, index: str) -> str:
    """Bash that exports what torch.distributed reads from the environment (env://)."""
    pairs = {"RANK": rank, "LOCAL_RANK": index, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": local}
    return "export " + " ".join(f"{name}={value}" for name, value in pairs.items())
