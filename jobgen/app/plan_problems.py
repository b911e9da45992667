"""What is wrong with a prepared job: problems once and in order, and the error that they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import CheckFailed, Diagnostic, Invalid, JobgenError, Severity, Unfit

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.decision import PlanCheck
    from jobgen.model.plan import Plan

_DECIDED_AGAIN = frozenset({"J208", "J215", "J217"})
"""Codes of decisions that repeat J138, the check of two keys of the job against each other."""


def drop_known(found: Sequence[Diagnostic], known: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """What is not known already, in these words or of this very place."""
    places = {(problem.code, problem.place) for problem in known}
    texts = {(problem.code, problem.message) for problem in known}
    for problem in found:
        again = {problem.code, "J138" if problem.code in _DECIDED_AGAIN else problem.code}
        same = (problem.code, problem.message) in texts
        if not same and not places & {(code, problem.place) for code in again}:
            yield problem


def arrange(problems: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Each once, file by file and line by line; at the end those that stand on no line."""
    files = list(dict.fromkeys(p.place.file for p in problems if p.place))

    def key(problem: Diagnostic) -> tuple[int, int, int]:
        place = problem.place
        return (files.index(place.file), place.line, place.col) if place else (len(files), 0, 0)

    once: dict[object, Diagnostic] = {}
    for problem in problems:
        once.setdefault((problem.code, problem.place, problem.message), problem)
    return tuple(sorted(once.values(), key=key))


def choose_error(problems: Sequence[Diagnostic]) -> type[JobgenError] | None:
    """What to raise for these problems, and so the exit code; None if none is an error.

    An error on a line of a file comes first, a plan that only needs too much memory last.
    """
    from jobgen.resolve.planner_checks import UNFIT

    errors = [problem for problem in problems if problem.severity == "error"]
    others = [problem for problem in errors if problem.code != UNFIT]
    if any(problem.place for problem in others):
        return Invalid
    if others:
        return CheckFailed
    return Unfit if errors else None


def refuse_failing(ready: PreparedJob, *, force: bool = False) -> None:
    """Raise the error of the failed checks of the plan, if any, with the warnings behind them.

    ``force`` overrules judgements; nothing can be submitted without the value of a secret.
    """
    from jobgen.resolve.checks import UNSET

    failed = [judge(check) for check in ready.plan.checks if check.status == "fail"]
    failed = [problem for problem in failed if problem.code == UNSET or not force]
    kind = choose_error(failed)
    if kind is None:
        return
    if all(problem.code != UNSET for problem in failed):
        failed = [p._replace(hint=f"{p.hint} (--force submits anyway)") for p in failed]
    raise kind(*failed, *list_check_warnings(ready.plan))


def list_warnings(plan: Plan) -> list[Diagnostic]:
    """What a plan says that stops nothing: warnings, also of its checks; then notes."""
    found = [*list_check_warnings(plan), *plan.notes]
    return sorted(found, key=lambda problem: problem.severity == "note")


def list_check_warnings(plan: Plan) -> list[Diagnostic]:
    """The checks of a plan that warn."""
    return [judge(check) for check in plan.checks if check.status == "warn"]


def judge(check: PlanCheck) -> Diagnostic:
    """A check that is not ok as a problem."""
    severity: Severity = "error" if check.status == "fail" else "warning"
    return Diagnostic(check.code, check.message, check.place, check.hint, severity)
