"""Whether the nodes and their GPUs are watched while the program runs, and how often."""

from __future__ import annotations

from jobgen.errors import Diagnostic
from jobgen.model.part_plans import MonitorPlan
from jobgen.model.plan import Part, Shape
from jobgen.monitor import NO_GPUS, SHARES_GPUS
from jobgen.resolve.allocation import name_gpus
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.shell import Word

_NOTHING = Part("monitor")


def configure_monitor(look: Inputs, shape: Shape, sized: Sized) -> tuple[MonitorPlan | None, Part]:
    """The monitor that the job asks for, with its script; None where it asks for none."""
    every = look.job.monitor
    if every is None:
        return None, _NOTHING
    from jobgen.monitor import build_file, plan_monitor

    place = look.cite_job("monitor")
    sized.decide("monitor", str(every), "sampling interval for nodes and GPUs", place)
    gpus = _share_gpus(look, shape)
    notes = (_too_old(look),) if gpus == NO_GPUS else ()
    several = shape.components > 1  # each has GPUs of its own
    plan = plan_monitor(shape, every.seconds, place, () if several else gpus)
    return plan, Part("monitor", files=(build_file(),), notes=notes)


def share_gpus(look: Inputs, shape: Shape) -> tuple[Word, ...]:
    """The GPUs of a step beside the program's, and that no task is bound to some of them."""
    gpus = _share_gpus(look, shape)
    return (*gpus, "--gpu-bind=none") if gpus and gpus != NO_GPUS else gpus


def _share_gpus(look: Inputs, shape: Shape) -> tuple[Word, ...]:
    """The GPUs of such a step; none before the release that shares them."""
    old = look.has_older_slurm(SHARES_GPUS) and shape.gpus_per_node > 0
    return NO_GPUS if old else name_gpus(look, shape)


def _too_old(look: Inputs) -> Diagnostic:
    message = f"Slurm {look.cluster.slurm_version} cannot share GPUs between steps"
    hint = "if Slurm hides the GPUs, only CPU load, memory and network are sampled"
    return Diagnostic("J266", message, look.spec.find_place("monitor"), hint, severity="note")
