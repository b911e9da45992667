"""What a job writes down of its GPUs while its program runs.

One monitor runs on each node, as a step of its own beside the program's: whatever the launcher is,
there is one a node and not one a rank; the container is not in its way; and it ends with the job,
because Slurm ends every step of a job.
"""

from __future__ import annotations

from jobgen import payload
from jobgen.errors import Place
from jobgen.model.bundle import BundleFile
from jobgen.model.components import choose_gpu_sharer, count_tasks
from jobgen.model.part_plans import MonitorPlan
from jobgen.model.plan import Shape
from jobgen.shell import Raw, Word

FILE = "monitor.sh"
FOLDER = Raw('"$monitored"')
NO_GPUS = ("--gres=none",)
"""Words of a step that leaves all GPUs to another."""
SHARES_GPUS = (22, 5)
"""The release of Slurm since which ``--overlap`` shares GPUs too."""


def plan_monitor(shape: Shape, every: int, place: Place, gpus: tuple[Word, ...]) -> MonitorPlan:
    """The step that samples every node once in ``every`` seconds; ``gpus`` name its GPUs."""
    bind = ("--gpu-bind=none",) if gpus and gpus != NO_GPUS else ()
    start: tuple[tuple[Word, ...], ...] = (
        (*choose_gpu_sharer(shape), "--overlap", *count_tasks(shape)),
        ("--ntasks-per-node=1", "--cpus-per-task=1", *gpus, "--cpu-bind=none", *bind),
        # a node that is lost, or a monitor that fails, ends nothing
        ("--kill-on-bad-exit=0", "--wait=0", "--no-kill", "--mpi=none", "--job-name=monitor"),
        ("nice", "-n", "19", "bash", Raw(f'"$JOBGEN_BUNDLE_DIR/{FILE}"'), str(every), FOLDER),
    )
    return MonitorPlan(every, start, place)


def build_file() -> BundleFile:
    """The script that every node runs."""
    return BundleFile(FILE, payload.text(FILE).encode())
