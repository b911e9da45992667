"""Setup by scope, and data that is brought to the nodes before the program starts."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Diagnostic
from jobgen.model.components import choose_starter, count_tasks
from jobgen.model.container import BY_SRUN
from jobgen.model.decision import SelfEvident, Setting
from jobgen.model.launchers import name_starter
from jobgen.model.part_plans import Mount, PreparePlan
from jobgen.model.plan import Part, Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.container_command import list_outside
from jobgen.resolve.container_image import find_container
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.packing import place_step
from jobgen.resolve.start import Lines
from jobgen.shell import Raw

PREPARE = Raw('"$JOBGEN_BUNDLE_DIR/prepare.sh"')
_SETUP = "setup"


class ScopedSetup(NamedTuple):
    """The lines of ``setup``, by where they run."""

    launcher: tuple[Setting, ...] = ()
    """In the shell of the launcher."""
    node: tuple[Setting, ...] = ()
    """Once per node where each rank has a shell of its own."""
    rank: tuple[Setting, ...] = ()


def split_setup(look: Inputs, scope: str) -> ScopedSetup:
    """The lines by where they run, for a launcher that is started at this scope."""
    scopes = look.job.setup_scopes
    place = look.cite_job(_SETUP)
    plain = tuple(Setting(line, SelfEvident.AS_ASKED, place) for line in look.job.setup)
    node, rank = _cite(look, "node", scopes.node), _cite(look, "rank", scopes.rank)
    if scope == "rank":
        return ScopedSetup(plain, node, rank)
    return ScopedSetup((*plain, *node), (), rank)


def _cite(look: Inputs, key: str, lines: tuple[str, ...]) -> tuple[Setting, ...]:
    place = look.cite_job(_SETUP, key)
    return tuple(Setting(line, SelfEvident.AS_ASKED, place) for line in lines)


def check_scopes(look: Inputs) -> Iterator[Diagnostic]:
    """Scopes that the job does not have."""
    scopes = look.job.setup_scopes
    if scopes.outside and find_container(look)[0] is None:
        message = "setup.outside runs outside the container, but the job has no container"
        hint = "move its lines to setup.node, or set container"
        yield look.diagnose_job("J216", message, _SETUP, "outside", hint=hint)
    asked = look.job.launcher
    starter = name_starter(asked.type or "", asked.ssh)
    if scopes.node and starter and look.job.nodes > 1:
        message = f"setup.node runs on every node, but {starter} runs scripts on the first node "
        message += "alone"
        hint = f"remove ssh: pdsh; srun then starts {asked.type} on every node"
        if starter == asked.type:
            hint = "move its lines to setup, whose exports reach all ranks, or set launcher: srun"
        yield look.diagnose_job("J216", message, _SETUP, "node", hint=hint)


def plan_prepare(look: Inputs, shape: Shape) -> PreparePlan | None:
    """What runs once on each node before the program; None if nothing does."""
    container, _ = find_container(look)
    inside = container is not None and container.runtime in BY_SRUN
    outside = list_outside(look) if inside else ()
    staged = look.job.stage
    if not staged and not outside:
        return None
    place = look.cite_job("stage") if staged else look.cite_job(_SETUP, "outside")
    return PreparePlan(_build_start(shape), staged, outside, place)


def mount_staged(look: Inputs) -> Part:
    """What makes staged data visible in a container, at its own place."""
    mounts = dict.fromkeys(Mount(each.folder, each.folder) for each in look.job.stage)
    return Part("stage", mounts=tuple(mounts))


def _build_start(shape: Shape) -> Lines:
    return (
        (*choose_starter(shape), *count_tasks(shape), "--ntasks-per-node=1"),
        ("--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none"),
        place_step(shape),
        ("bash", PREPARE),
    )
