"""``train.profile``: the program is started by a script that traces some of its steps."""

from __future__ import annotations

from jobgen import payload
from jobgen.model.decision import PlanCheck, Setting
from jobgen.model.plan import Part, Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import program
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.resolve.training import Trained

SCRIPT = "profile_steps.py"


class Profiled(NamedTuple):
    """What the traces add to a job."""

    runs: program.Program
    part: Part = Part("profile")


def plan_profile(
    look: Inputs, shape: Shape, runs: program.Program, trained: Trained, sized: Sized
) -> Profiled:
    """The program with the script before it; a failed check where that cannot be."""
    asked = look.job.train.profile if look.job.train else None
    if asked is None:
        return Profiled(runs)
    place = look.cite_job("train", "profile")
    where = look.spec.find_place("train", "profile")
    beyond = [rank for rank in asked.ranks if rank >= shape.world]
    if beyond:
        message = f"train.profile.ranks: there is no rank {beyond[0]}, only 0 to "
        message += f"{shape.world - 1}"
        check = PlanCheck("fail", message, "J236", "use ranks of the job", where)
        return Profiled(runs, Part("profile", checks=(check,)))
    ranks = ",".join(map(str, asked.ranks))
    sized.decide("profile", f"steps {asked.steps} of ranks {ranks}", "torch.profiler traces", place)
    if trained.traces_itself:
        return Profiled(runs)
    wrapped = program.wrap(runs, SCRIPT)
    if wrapped is None:
        message = "train.profile needs a single Python program in run:"
        hint = "write run: train.py, and what precedes it in setup:"
        check = PlanCheck("fail", message, "J236", hint, where)
        return Profiled(runs, Part("profile", checks=(check,)))
    env = {
        "JOBGEN_PROFILE_STEPS": Setting(str(asked.steps), f"steps that {SCRIPT} traces", place),
        "JOBGEN_PROFILE_RANKS": Setting(ranks, f"ranks that {SCRIPT} traces", place),
    }
    files = (program.bundle_script(SCRIPT), program.bundle_script(payload.WRAPPED))
    return Profiled(wrapped, Part("profile", env=env, files=files))
