"""The planner's part of ``jobgen plan``: its section, its data, its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.cli.call import Call, Flags
from jobgen.cli.layout import fold
from jobgen.cli.output import Ink, defuse, write_page
from jobgen.cli.screens.measurement_rows import draw_measurements, dump_measurements
from jobgen.errors import Diagnostic, Exit, Missing
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.advising import Advised, Compared
    from jobgen.app.plan_extras import Planned
    from jobgen.app.prepare import PreparedJob
    from jobgen.cli.screens.plan_summary import Preview
    from jobgen.model.decision import PlanCheck


class PlanOptions(NamedTuple):
    """The options of ``plan``."""

    diff: bool
    against: str | None
    context: int
    exit_code: bool
    section: tuple[tuple[str, ...], ...]
    why: bool
    nodes: tuple[int, ...]
    compare: str | None
    html: Path | None
    calibrated: bool
    exact: bool
    measure: bool
    on_cluster: bool
    dry_run: bool
    force: bool

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of --section, each once."""
        return tuple(dict.fromkeys(name for names in self.section for name in names))

    @property
    def earlier(self) -> str | None:
        """The run that --diff compares with."""
        return self.against or ("last" if self.diff or self.exit_code else None)


class PlannerAnswer(NamedTuple):
    """The planner's answer, and what of it was asked for."""

    advice: Advised
    compared: Compared | None = None
    why: bool = False
    counted: str = ""
    """The exact count of the model's parameters, where it was asked for."""
    failed: tuple[PlanCheck, ...] = ()
    """The failed checks; of memory as it is estimated here, calibrated or not."""
    forced: bool = False
    """Whether they are overruled."""
    nodes: tuple[int, ...] = ()
    """The numbers of nodes of the scaling table."""


def prepare_preview(call: Call, job: Path, options: PlanOptions) -> Preview:
    """What the screens of ``plan`` are drawn from. Raises like ``prepare`` and ``plan``."""
    from jobgen.app.plan_extras import plan
    from jobgen.app.prepare import prepare
    from jobgen.cli.screens.plan_summary import Invocation, Preview

    cluster = choose_cluster(call, job, options)
    ready = prepare(call.world, job, cluster, call.flags.sets)
    planned = plan(call.world, ready, diff=options.earlier, context=options.context)
    answer = answer_planner(call, ready, job, options)
    invocation = Invocation(str(job), call.flags, cluster)
    return Preview(planned, answer, invocation)


def list_hidden_errors(preview: Preview, flags: Flags, options: PlanOptions) -> list[Diagnostic]:
    """The failed checks that no section on the screen shows."""
    from jobgen.app.plan_problems import judge
    from jobgen.resolve.planner_checks import UNFIT

    if flags.json or not options.sections or "checks" in options.sections:
        return []
    verdict = "memory" in options.sections
    failed = preview.answer.failed
    return [judge(c) for c in failed if c.entry or not (verdict and c.code == UNFIT)]


def choose_cluster(call: Call, job: Path, options: PlanOptions) -> str | None:
    """The cluster of the plan: the one of ``-c``, None if the job names it, else the first that is
    compared."""
    from jobgen.app.prepare import read_cluster_name

    names = _names(options)
    if call.flags.cluster or not names or read_cluster_name(call.world, job, call.flags.sets):
        return call.flags.cluster
    return names[0]


def _names(options: PlanOptions) -> list[str]:
    return [name for name in (options.compare or "").split(",") if name]


def answer_planner(
    call: Call, ready: PreparedJob, job: Path, options: PlanOptions
) -> PlannerAnswer:
    """The answer to everything that was asked for, its files written. Raises like ``prepare``, and
    Usage where there is nothing to draw."""
    from jobgen.app.advising import advise_job, compare_clusters, describe_count
    from jobgen.app.calibrating import find_cluster_measurements

    known = find_cluster_measurements(call.world, ready)
    if options.calibrated and not known.calibration.runs and not known.links:
        runs = next((run.alias for run in known.runs if run.is_useful()), "ID")
        raise Missing(
            f"nothing is calibrated on {ready.plan.cluster}: no run of yours is kept, and no bench "
            "has measured the links",
            hint=f"jobgen calibrate {runs}; "
            f"or measure the links: jobgen bench allreduce -c {ready.plan.cluster}",
        )
    found = advise_job(
        ready,
        options.nodes,
        why=options.why or options.html is not None,
        known=known,
        calibrated=options.calibrated,
    )
    names = _names(options)
    first = call.flags.cluster or ready.job.value.cluster
    names = [first, *names] if first and names else names
    beside = compare_clusters(call.world, job, names, call.flags.sets) if names else None
    exact = describe_count(ready) if options.exact else ""
    failed = tuple(_failing(found, ready))
    answer = PlannerAnswer(found, beside, options.why, exact, failed, options.force, options.nodes)
    if options.html is not None:
        _write_page(answer, ready, options.html)
    return answer


def estimate_job(ready: PreparedJob) -> PlannerAnswer:
    """The answer to no question in particular, for the short screen."""
    from jobgen.app.advising import advise_job

    found = advise_job(ready)
    return PlannerAnswer(found, failed=tuple(_failing(found, ready)))


def _failing(found: Advised, ready: PreparedJob) -> Iterator[PlanCheck]:
    from jobgen.model.decision import PlanCheck
    from jobgen.resolve.planner_checks import UNFIT

    shown = found.advice.first_option if found.advice else None
    calibrated = shown if found.calibrated else None
    for check in ready.plan.checks:
        judged = calibrated and check.code == UNFIT and not check.entry
        if check.status == "fail" and not judged:
            yield check
    if calibrated and calibrated.verdict == "no":
        yield PlanCheck("fail", "calibrated: it does not fit", UNFIT, calibrated.note)


def choose_exit(said: PlannerAnswer, planned: Planned, options: PlanOptions) -> Exit:
    """The exit code: of failed checks, unless forced, and of differences with --exit-code."""
    from jobgen.app.plan_problems import choose_error, judge

    kind = choose_error([judge(check) for check in said.failed])
    if kind is not None and not options.force:
        return kind.exit
    return Exit.DIFFERENT if options.exit_code and planned.differences else Exit.DONE


def draw_section(said: PlannerAnswer, ink: Ink, *, every: bool = False) -> str:
    """The memory section in full; a line if something is missing, nothing without ``train``. With
    ``every`` also the changes that would not help."""
    found = said.advice
    if found.advice is None and not found.missing:
        return ""
    if found.advice is None:
        missing = defuse(f"not estimated: {found.missing}")
        parts = [f"Memory  {fold(missing, ink.width - 8, '  ')}\n"]
    else:
        from jobgen.cli.screens import advice

        parts = [advice.screen(found.advice, ink, reasons=said.why, every=every, nodes=said.nodes)]
    measured = draw_measurements(found, ink)
    return "\n".join([*_draw_counted(said, ink), *parts, *measured, *_draw_compared(said, ink)])


def draw_extras(said: PlannerAnswer, ink: Ink) -> str:
    """What the options of ``plan`` ask for beside the summary, and what was measured."""
    from jobgen.app.advising import NO_TRAIN

    found = said.advice
    parts = _draw_counted(said, ink)
    parts += draw_measurements(found, ink, brief=True)
    if found.advice is not None:
        from jobgen.cli.screens import advice, scaling

        parts.append(scaling.screen(found.advice, said.nodes, ink))
        parts.append(advice.draw_why(found.advice, ink) if said.why else "")
    elif said.nodes:
        missing = found.missing or NO_TRAIN
        text = fold(defuse(missing), ink.width - 2, "  ")
        parts.append(f"{ink('strong', 'How it scales')}\n  not estimated: {text}\n")
    return "\n".join(part for part in [*parts, *_draw_compared(said, ink)] if part)


def _draw_counted(said: PlannerAnswer, ink: Ink) -> list[str]:
    return [f"Model  {fold(defuse(said.counted), ink.width - 7, '  ')}\n"] if said.counted else []


def _draw_compared(said: PlannerAnswer, ink: Ink) -> list[str]:
    if said.compared is None:
        return []
    from jobgen.cli.screens import offers

    table = offers.screen(said.compared.offers, said.compared.tokens, ink)
    return [part for part in (table, _draw_unknown(said.compared.unknown, ink)) if part]


def _draw_unknown(unknown: Mapping[str, str], ink: Ink) -> str:
    """Why clusters are not compared; a reason that all share stands once."""
    reasons = dict.fromkeys(unknown.values())
    if len(reasons) == 1 and len(unknown) > 1:
        text = f"Nothing to compare: {defuse(next(iter(reasons)))}"
        return f"{fold(text, ink.width, '  ')}\n"
    return "".join(f"  {defuse(name)}: {defuse(why)}\n" for name, why in unknown.items())


def data(said: PlannerAnswer) -> dict[str, Any]:
    """The planner's answer as plain data."""
    from jobgen.cli.screens import advice, offers

    found = said.advice
    told: dict[str, Any] = {"estimate": advice.data(found.advice) if found.advice else None}
    if found.missing:
        told["estimate_missing"] = found.missing
    told |= dump_measurements(found)
    if said.counted:
        told["counted"] = said.counted
    if said.compared is not None:
        told["compare"] = offers.data(said.compared.offers, said.compared.tokens)
    return told


def _write_page(said: PlannerAnswer, ready: PreparedJob, path: Path) -> None:
    """Write the estimates as a page. Raises Usage where there are none."""
    from jobgen.app.advising import NO_TRAIN
    from jobgen.cli.page.plan_page import write_plan_page
    from jobgen.errors import Usage

    advice = said.advice.advice
    if advice is None:
        missing = said.advice.missing or NO_TRAIN
        hint = (
            "jobgen explain J250" if said.advice.missing else "add train: {model: NAME} to the job"
        )
        raise Usage(f"nothing to draw: {missing}", hint=hint)
    title = f"{ready.plan.name} on {ready.plan.cluster}"
    compared = said.compared
    offers, tokens = (compared.offers, compared.tokens) if compared else ((), 0.0)
    write_page(path, write_plan_page(advice, title, offers=offers, tokens=tokens))
