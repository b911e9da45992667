"""What the templates see of a job's end: its markers, the pre-timeout signal, requeue and chain."""

from __future__ import annotations

from jobgen.model.part_plans import StopPlan
from jobgen.model.plan import Plan
from jobgen.render.rank_blocks import list_blocks
from jobgen.render.step_views import format_command, list_once
from jobgen.shell import Raw


def view_end(plan: Plan, *, standalone: bool) -> dict[str, object]:
    """Markers and exit handling. A ``standalone`` job has neither a claim nor a chain."""
    stop, once = plan.stop, bool(list_once(plan))
    marked = not standalone or _is_guarded(plan)
    marked = marked or bool(plan.secrets or plan.notify or plan.shape.packing)
    explains = plan.preflight or stop or once or plan.code_folder or plan.prepare
    requeue = bool(stop and stop.requeue)
    chain = stop.chain if stop and not standalone else 0
    resumes = requeue or bool(chain)
    unless_over = " && -z $grace_over" if resumes else ""
    why = ' ${why:+"why=$why"}' if explains else ""
    return {
        "claim": Raw(_name_claim(plan)),
        "exit_marker": marked,
        "has_end": marked or once or bool(plan.caches and plan.caches.remove),
        "silence": _may_fall_silent(plan) and not standalone,
        "requeue": requeue,
        "chain": chain,
        "resumes": resumes,
        "stop": stop and _view_stop(stop, several=bool(plan.programs), resumes=resumes),
        "unless_over": Raw(unless_over),
        "why": Raw(why),
    }


def _name_claim(plan: Plan) -> str:
    """The claim of the job; of each array or job of a chain, with its number."""
    arrays = plan.elements and not plan.shape.packing
    if not arrays and not (plan.stop and plan.stop.chain):
        return "state/0/claim"
    number = 3 if arrays else 2
    return f'"state/0/claim${{{number}:+.${number}}}"'


def _view_stop(stop: StopPlan, *, several: bool, resumes: bool) -> dict[str, object]:
    return {
        "signal": Raw(stop.signal),
        "ranks": Raw(f"SIG{stop.ranks}"),
        "step": Raw(format_command(stop.step).replace("\n", "\n        ")),
        "over": Raw(_join_ends(stop, several=several, resumes=resumes)),
        "grace": stop.grace,
        "max_requeues": stop.max_requeues,
    }


def _join_ends(stop: StopPlan, *, several: bool, resumes: bool) -> str:
    """The condition for an early end: it has saved, has ended well by a signal, or is too slow."""
    reasons = "-e $JOBGEN_STOPPED_FILE"
    if several:
        reasons += " || -n $unfinished"
    if resumes:
        reasons += " || -n $grace_over"
    if stop.step:
        reasons += " ||\n    $rc == 0 && -e $JOBGEN_STATE_DIR/signaled.$JOBGEN_RESTART"
    return f"({reasons})" if "||" in reasons else reasons


def _list_plans(plan: Plan) -> list[Plan]:
    """The plan of each program."""
    return [program.plan for program in plan.programs] or [plan]


def _may_fall_silent(plan: Plan) -> bool:
    """Whether ranks may wait for one that has left; a group may end long before the others."""
    return not plan.has_groups and any(each.shape.world > 1 for each in _list_plans(plan))


def _is_guarded(plan: Plan) -> bool:
    """Whether ranks look for the end of the job themselves."""
    return any("guard" in list_blocks(each) for each in _list_plans(plan))
