"""The short screen of a plan: shape, cost, memory, warnings, what is sent. At most 25 lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jobgen.app.plan_problems import judge
from jobgen.cli.call import Flags
from jobgen.cli.diagnostics import PLAIN
from jobgen.cli.layout import clip, fold, format_size
from jobgen.cli.output import Ink, defuse
from jobgen.cli.params import SECTIONS
from jobgen.cli.screens.plan_head import LABEL, draw_head, draw_label, draw_row, format_cost
from jobgen.errors import Diagnostic, Place
from jobgen.named_tuple import NamedTuple
from jobgen.shell import join
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.plan_extras import Planned
    from jobgen.cli.estimating import PlannerAnswer
    from jobgen.model.plan import Plan

HEIGHT = 25
"""Lines of the screen, next command included."""
_LEAST = 3
"""Lines that warnings get at least, whatever else there is."""
_MARKS = {
    "error": ("error", "[fail]"),
    "warning": ("warning", "[warn]"),
    "note": ("note", "[note]"),
}


class Invocation(NamedTuple):
    """How the person called it, for the commands that are shown."""

    job: str
    flags: Flags
    cluster: str | None = None
    """The name to repeat; None if the job file names it."""

    def command(self, verb: str, *more: str, sets: Sequence[str] = ()) -> str:
        """The command line of this call with another verb; ``sets`` replace those of these keys."""
        cluster = ("-c", self.cluster) if self.cluster else ()
        if verb == "submit" and self.flags.inside:
            cluster = (*cluster, "--in", self.flags.inside)
        again = {one.partition("=")[0] for one in sets}
        kept = (one for one in self.flags.sets if one.partition("=")[0] not in again)
        every = [word for one in (*kept, *sets) for word in ("--set", one)]
        return defuse(join(["jobgen", verb, self.job, *cluster, *every, *more]))


class Preview(NamedTuple):
    """What the screens of a plan are drawn from."""

    planned: Planned
    answer: PlannerAnswer
    call: Invocation

    @property
    def plan(self) -> Plan:
        """What was decided."""
        return self.planned.ready.plan


def draw(preview: Preview, ink: Ink, extras: str = "") -> str:
    """The screen of ``plan``: the summary, and at the end the next command."""
    details = draw_row("Details", f"-v, or --section {','.join(SECTIONS.KNOWN)}", ink)
    ending = "".join(f"{line}\n" for line in [*details, draw_next(preview)])
    return draw_top(preview, ink, extras, room=HEIGHT - len(details) - 1) + ending


def draw_top(preview: Preview, ink: Ink, extras: str = "", *, room: int = HEIGHT) -> str:
    """The summary alone, in as many lines as there is room for."""
    head = draw_head(preview, ink)
    memory = _draw_memory(preview, ink)
    sent = _list_sent(preview, ink)
    errors, others = list_problems(preview)
    middle = sum(map(bool, (memory, errors, others)))
    rest = room - len(head) - len(sent) - 1 - middle
    memory = memory[: max(rest - _LEAST * (bool(errors) + bool(others)), 0)]
    rest -= len(memory)
    fails = _fit(draw_problems(errors, ink), rest - _LEAST * bool(others), preview)
    notes = _fit(draw_problems(others, ink), rest - len(fails), preview)
    blocks = [head, fails, memory, notes]
    parts = ["".join(f"{line}\n" for line in block) for block in blocks if block]
    parts += [extras] if extras else []
    return "\n".join([*parts, "".join(f"{line}\n" for line in sent)])


def _draw_memory(preview: Preview, ink: Ink) -> list[str]:
    advised = preview.answer.advice
    if advised.advice is None:
        text = f"not estimated: {defuse(advised.missing)}"
        if not advised.missing:
            text = "not estimated; add train: {model: NAME} to the job"
        wanted = advised.missing or preview.plan.shape.gpus_per_node
        return draw_row("Memory", text, ink) if wanted else []
    from jobgen.cli.screens.memory_summary import draw_memory

    return draw_label("Memory", draw_memory(advised.advice, ink.width - LABEL, ink), ink)


def list_problems(
    preview: Preview, *, every: bool = False
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Errors; then warnings and notes. What does not fit, or is tight, stands at the memory, here
    only with ``every``."""
    from jobgen.resolve.planner_checks import UNFIT

    plan, advised = preview.plan, preview.answer.advice
    drawn = advised.advice is not None and not every
    checks = [*preview.answer.failed, *(c for c in plan.checks if c.status == "warn")]
    # the memory is that of the first entry of a race
    shown = [c for c in checks if c.entry or not (drawn and c.code == UNFIT)]
    found = [*map(judge, shown), *plan.notes]
    errors = [problem for problem in found if problem.severity == "error"]
    warnings = [problem for problem in found if problem.severity == "warning"]
    return errors, [*warnings, *(p for p in found if p.severity == "note")]


def draw_problems(problems: Iterable[Diagnostic], ink: Ink) -> list[list[str]]:
    """The lines of each: ``[warn] what (job.yaml:4, J227); what to do``."""
    return [_draw_problem(problem, ink) for problem in problems]


def _draw_problem(problem: Diagnostic, ink: Ink) -> list[str]:
    style, mark = _MARKS[problem.severity]
    place = problem.place
    where = [f"{place.file}:{place.line}".removesuffix(":0")] if place and place.file else []
    where += [problem.code] if problem.code != PLAIN else []
    text = problem.message.strip("\n").partition("\n")[0]
    text += f" ({', '.join(where)})" if where else ""
    text += f"; {problem.hint}" if problem.hint else ""
    first, *more = fold(defuse(text), ink.width - 7, " " * 7).split("\n")
    return [f"{ink(style, mark)} {first}", *more]


def _fit(blocks: Sequence[list[str]], room: int, preview: Preview) -> list[str]:
    """Whole problems while there is room, at least the beginning of one; then how many are left."""
    if sum(map(len, blocks)) <= room:
        return [line for block in blocks for line in block]
    kept = 0
    while sum(map(len, blocks[: kept + 1])) < room:
        kept += 1
    lines = [line for block in blocks[:kept] for line in block] or blocks[0][: room - 1]
    command = preview.call.command("plan", "--section", "checks") if preview.call.job else ""
    left = len(blocks) - max(kept, 1)
    more = f"and {left} more" if left else ""
    what = more if kept else f"… {more or 'in full'}"
    return [*lines, f"       {what}{': ' * bool(command)}{command}"]


def _list_sent(preview: Preview, ink: Ink) -> list[str]:
    """What is uploaded; what became of the last run of that name."""
    ready, last = preview.planned.ready, preview.planned.last
    size = format_size(sum(len(file.content) for file in ready.bundle.files))
    rendered = f"{count(len(ready.bundle.files), 'rendered file')}, {size}"
    manifest, text = ready.manifest, rendered
    if manifest is not None:
        text = f"{count(len(manifest.files), 'file')}, {format_size(manifest.total)}"
        left = sum(ignored.size for ignored in manifest.ignored)
        text += f" (left out: {format_size(left)})" if left else ""
        text += f"; {rendered}"
        if manifest.withheld:
            text += f"; withheld as secrets: {clip(defuse(', '.join(manifest.withheld)), 40)}"
    if ready.plan.code_folder:
        text = f"no code: it stays at {defuse(ready.plan.code_folder)}; {rendered}"
    lines = draw_row("Uploads", text, ink)
    if last is not None and preview.planned.differences is None:
        same = last.digest == ready.bundle.digest
        what = "scripts differ: --diff shows how"
        what = "scripts unchanged (your own files are not compared)" if same else what
        lines += draw_row("Last run", f"{defuse(last.alias)}: {what}", ink)
    return lines


def draw_next(preview: Preview) -> str:
    """The command that comes next: submit, or what leads to a plan that can be submitted."""
    from jobgen.resolve.checks import UNSET
    from jobgen.resolve.planner_checks import UNFIT

    failed, call = preview.answer.failed, preview.call
    if not failed:
        return f"Next: {_lead_to_estimate(preview) or call.command('submit')}"
    codes = {check.code for check in failed}
    if preview.answer.forced and UNSET not in codes:
        return f"Next: {call.command('submit', '--force')}"
    if codes == {UNFIT} and not any(check.entry for check in failed):
        changes = _find_changes(preview)
        more = _measure_again(preview, changes) if changes else ("--section", "memory")
        return f"Next: {call.command('plan', *more, sets=changes)}"
    if codes == {UNSET}:
        return f"Next: {call.command('plan')}"
    if edit := _edit_first(preview, (check.place for check in failed)):
        return f"Next: {edit}"
    # that it does not fit, the memory above shows
    known = sorted(codes - {PLAIN}, key=lambda code: (code == UNFIT, code))
    return f"Next: jobgen explain {known[0]}" if known else f"Next: {call.command('plan')}"


def _lead_to_estimate(preview: Preview) -> str:
    """What is to be done if memory could not be estimated: measure the user's own model, or correct
    the line that prevents it; empty if nothing shows what."""
    from jobgen.load.train_rules import UNKNOWN_MODEL
    from jobgen.resolve.measured import UNMEASURED
    from jobgen.resolve.planner_checks import UNSIZED

    if preview.answer.advice.advice is not None:
        return ""
    checks = [check for check in preview.plan.checks if check.code == UNMEASURED]
    if any(check.hint for check in checks):
        return preview.call.command("plan", "--measure")
    named = [p for p in preview.plan.notes if (p.code, p.severity) == (UNKNOWN_MODEL, "warning")]
    unsized = [check for check in preview.plan.checks if check.code == UNSIZED]
    problems = [*map(judge, (*checks, *unsized)), *named]
    edit = _edit_first(preview, (problem.place for problem in problems))
    return edit or (f"jobgen explain {problems[0].code}" if problems else "")


def _edit_first(preview: Preview, places: Iterable[Place | None]) -> str:
    """``edit job.yaml:8, then: jobgen plan job.yaml`` of the first line of a file; empty if there
    is none."""
    for place in places:
        if place and place.kind == "file" and place.line:
            return f"edit {defuse(place.file)}:{place.line}, then: {preview.call.command('plan')}"
    return ""


def _find_changes(preview: Preview) -> tuple[str, ...]:
    """The cheapest changes of the job file that make it fit, as ``--set`` takes them; nothing where
    the cluster lacks the nodes, or several changes take more nodes."""
    advice = preview.answer.advice.advice
    able = (lever for lever in (advice.levers if advice else ()) if lever.fits and lever.possible)
    first = next(able, None)
    if first is None or (len(first.changes) > 1 and first.needs == "nodes"):
        return ()
    return tuple(change.replace(": ", "=", 1) for change in first.changes)


def _measure_again(preview: Preview, changes: Iterable[str]) -> tuple[str, ...]:
    """The option that the plan with these changes needs: a measurement holds for its own sizes."""
    request = preview.planned.ready.planner_request
    own = request is not None and request.ask is not None and request.ask.measured is not None
    resized = any(change.startswith("train.micro_batch=") for change in changes)
    return ("--measure",) if own and resized else ()


def draw_verdict(preview: Preview) -> str:
    """One line: whether it can be submitted, what it may cost, how many warnings there are."""
    plan, failed = preview.plan, preview.answer.failed
    name = f"{defuse(plan.name)} on {defuse(plan.cluster)}"
    if failed:
        message = defuse(failed[0].message.partition("\n")[0])
        more = f" (and {count(len(failed) - 1, 'more error')})" if len(failed) > 1 else ""
        return f"{name}: not ready: {message}{more}\n"
    parts = [format_cost(preview.planned.cost), _describe_fit(preview)]
    others = list_problems(preview)[1]
    for severity in ("warning", "note"):
        number = sum(problem.severity == severity for problem in others)
        parts.append(count(number, severity) if number else "")
    return f"{name}: {', '.join(['ready', *(part for part in parts if part)])}\n"


def _describe_fit(preview: Preview) -> str:
    """``memory fits (62.1 of 79.2 GiB)``; nothing where it is not estimated."""
    advice = preview.answer.advice.advice
    option = advice.first_option if advice else None
    if advice is None or option is None:
        return ""
    from jobgen.cli.screens.memory_parts import to_gib

    amount = f"{to_gib(option.memory.needed)} of {to_gib(advice.limit)} GiB"
    return f"memory {option.verdict} ({amount})"
