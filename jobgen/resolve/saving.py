"""How a job that is asked to stop gets its program to save: by a file, a wrapper or a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen import payload
from jobgen.model.components import choose_gpu_sharer, count_tasks
from jobgen.model.decision import PlanCheck, SelfEvident
from jobgen.model.part_plans import StopPlan
from jobgen.model.plan import Part, Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import program
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.monitor_settings import share_gpus
from jobgen.resolve.shape import Sized
from jobgen.shell import Raw, Word

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.resolve.training import Saves

WRAPPER = "save_on_stop.py"
SENDER = "signal_ranks.sh"
VARIABLE = "JOBGEN_STOP_FILE"


class SavingInputs(NamedTuple):
    """What has been decided: when the job stops, what it runs, what its framework can do."""

    stop: StopPlan | None
    runs: program.Program
    saves: Saves


class Saving(NamedTuple):
    """What the stop adds to a job."""

    stop: StopPlan | None
    runs: program.Program
    part: Part


def plan_saving(look: Inputs, shape: Shape, asked_to: SavingInputs, sized: Sized) -> Saving:
    """The stop with what the program needs to save; nothing for a job without ``checkpoint``."""
    stop, runs, saves = asked_to
    if stop is None or look.job.checkpoint is None:
        return Saving(stop, runs, Part("checkpoint"))
    place = look.cite_job("checkpoint", "to")
    asked = look.job.checkpoint.to
    if asked == "ranks" or (asked is None and saves.how == "signal"):
        number = stop.signal if asked else saves.signal
        who = SelfEvident.AS_ASKED if asked else f"{saves.framework} saves and exits on SIG{number}"
        sized.decide("saving", f"SIG{number} to each rank", who, place)
        return Saving(_signal(look, stop, number, shape), runs, _with_files(SENDER))
    wrapped = program.wrap(runs, WRAPPER) if saves.how == "wrapper" and asked is None else None
    if wrapped is not None:
        why = f"{WRAPPER} watches the stop file and saves a {saves.framework} checkpoint"
        sized.decide("saving", "the stop file", why, place)
        return Saving(stop, wrapped, _with_files(WRAPPER, payload.WRAPPED))
    if saves.how == "interval":
        return Saving(stop, runs, Part("checkpoint"))
    return Saving(
        stop, runs, Part("checkpoint", checks=check_mention(look.spec, look.facts.stop_file_named))
    )


def _with_files(*names: str) -> Part:
    return Part("checkpoint", files=tuple(program.bundle_script(name) for name in names))


def _signal(look: Inputs, stop: StopPlan, number: str, shape: Shape) -> StopPlan:
    """The step that sends the signal on each node; whether it succeeds or not, it ends nothing."""
    nodes: Word | None = None
    only: tuple[Word, ...] = ()
    gpus = () if shape.components > 1 else share_gpus(look, shape)
    if look.group:  # the signal goes to the groups that the job waits for
        nodes, only = Raw('"${#HOSTS[@]}"'), (Raw('"${lasting[@]}"'),)
    elif look.step:  # the signal goes to the step that runs
        nodes = Raw('"$step_nodes"')
    step: tuple[tuple[Word, ...], ...] = (
        (*choose_gpu_sharer(shape), "--overlap", *count_tasks(shape, nodes)),
        ("--ntasks-per-node=1", "--cpus-per-task=1", "--cpu-bind=none", "--mpi=none"),
        ("--no-kill", "--wait=0", "--kill-on-bad-exit=0", *gpus),
        ("bash", Raw(f'"$JOBGEN_BUNDLE_DIR/{SENDER}"'), number, str(stop.grace), *only),
    )
    return stop._replace(ranks=number, step=step)


def check_mention(spec: Loaded[JobSpec], named: bool | None) -> tuple[PlanCheck, ...]:
    """A warning if neither a file (``named``) nor the job's own text names the stop file."""
    job = spec.value
    texts = (job.run, *job.list_setup(), *job.env.values())
    if named is not False or any(VARIABLE in text for text in texts):
        return ()
    asked, repeats = job.checkpoint, "repeats everything since its last checkpoint"
    lost = f"; after a requeue it {repeats}" if asked is not None and asked.requeue else ""
    lost = f"; the next job {repeats}" if asked is not None and asked.chain else lost
    message = (
        f"no file in the workdir uses ${VARIABLE}: the program does not notice when it should save"
    )
    hint = "check for that file between steps, or set checkpoint.to: ranks if the program saves on"
    hint += " a signal, or train.framework: hf-trainer or lightning"
    return (PlanCheck("warn", message + lost, "J257", hint, spec.find_place("checkpoint")),)
