"""The sections of a plan, which ``-v`` shows after the summary and ``--section`` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, clip, fold, fold_rows, format_size, measure
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.plan_head import draw_head, format_cpus
from jobgen.cli.screens.plan_summary import (
    Preview,
    draw_next,
    draw_problems,
    list_problems,
)
from jobgen.errors import Place
from jobgen.model.decision import SelfEvident
from jobgen.shell import split_lines
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.model.decision import Decision
    from jobgen.upload import Manifest


def draw_all(preview: Preview, ink: Ink) -> str:
    """The summary's head, every warning in full, every section, the next command."""
    errors, others = list_problems(preview)
    parts = [
        "".join(f"{line}\n" for line in draw_head(preview, ink)),
        *(_join_lines(draw_problems(problems, ink)) for problems in (errors, others)),
        *(
            text
            for name, draw in SECTIONS.items()
            if (text := draw(preview, ink)) and name != "checks"
        ),
        _passed(preview, ink),
        draw_since(preview, ink),
        f"{draw_next(preview)}\n",
    ]
    return "\n".join(part for part in parts if part)


def draw_sections(preview: Preview, names: Sequence[str], ink: Ink) -> str:
    """Exactly these sections, in this order."""
    return "\n".join(SECTIONS[name](preview, ink) or f"{_EMPTY[name]}\n" for name in names)


_EMPTY = {
    "memory": "No memory estimate: the job has no train: section",
    "steps": "No steps",
    "sbatch": "No sbatch options: the job runs without Slurm",
    "env": "No environment variables: neither the job nor the cluster sets any",
    "checks": "No problems, and no checks that apply to this job",
}
"""What stands for a section that has nothing in it."""


def _join_lines(blocks: Iterable[Sequence[str]]) -> str:
    return "".join(f"{line}\n" for block in blocks for line in block)


def _titled(title: str, text: str, ink: Ink) -> str:
    return f"{ink('strong', title)}\n{text}" if text else ""


def _draw_memory(preview: Preview, ink: Ink) -> str:
    from jobgen.cli.estimating import draw_section

    return draw_section(preview.answer, ink, every=bool(preview.call.flags.verbose))


def _draw_decisions(preview: Preview, ink: Ink) -> str:
    from jobgen.app.plan_extras import count_cpus

    plan, cpus = preview.plan, count_cpus(preview.planned.ready)
    rows = _list_rows(plan.other)
    if cpus.node:
        text = format_cpus(cpus, "element" if plan.shape.packing else "node")
        rows = [(k, text if k == "cpus_per_task" else v, why) for k, v, why in rows]
    rows.insert(0, ("launcher", defuse(plan.launcher.value), draw_reason(plan.launcher)))
    if plan.container is not None:
        inside = plan.container
        rows.append(
            ("container", defuse(inside.image), f"{inside.runtime} ({defuse(inside.place)})")
        )
    setup = (*plan.site_setup, *plan.setup, *plan.node_setup, *plan.rank_setup)
    rows += [("setup", defuse(line.value), draw_reason(line)) for line in setup]
    decided = _titled("Decisions", fold_rows(rows, ink.width), ink)
    configured = fold_rows(_list_rows(plan.configured), ink.width)
    return "\n".join(
        part for part in (decided, _titled("Training configuration", configured, ink)) if part
    )


def _list_rows(
    decisions: Mapping[str, Decision[Any]], dashes: str = ""
) -> list[tuple[str, str, str]]:
    return [(f"{dashes}{defuse(k)}", defuse(d.value), draw_reason(d)) for k, d in decisions.items()]


def draw_reason(decision: Decision[Any]) -> str:
    """Why, and its place; the place alone if the reason adds nothing to it."""
    plain = isinstance(decision.why, SelfEvident) and decision.place.file
    return _join_reason("" if plain else decision.why, decision.place)


def _join_reason(why: str, place: Place) -> str:
    named = place.file and place.kind != "rule"  # the name of a rule is for --json
    return defuse(f"{why} ({place})" if why and named else why or place)


def _draw_steps(preview: Preview, ink: Ink) -> str:
    """What the job does, in order, as the bash that does it."""
    lines = []
    for step in preview.plan.list_all_steps():
        why = fold(_join_reason(step.why, step.place), ink.width - 6 - len(step.name), "    ")
        lines.append(f"  {defuse(step.name)}: {why}")
        lines += [f"    | {defuse(line)}" for line in split_lines(step.text)]
    return _titled("Steps", _join_lines([lines]), ink)


def _draw_sbatch(preview: Preview, ink: Ink) -> str:
    plan = preview.plan
    tables = [each.directives for each in plan.components] or [plan.directives]
    shown = [fold_rows(_list_rows(table, "--"), ink.width) for table in tables]
    titles = ["sbatch options", *(f"Component {n}" for n in range(1, len(tables)))]
    return "\n".join(_titled(*each, ink) for each in zip(titles, shown, strict=True))


def draw_environment(preview: Preview, ink: Ink) -> str:
    """Every variable of a rank with its origin; of secrets only where their values come from."""
    plan, origins = preview.plan, preview.planned.ready.facts.secrets
    rows = _list_rows(plan.env)
    rows += [(name, "***", defuse(origins.get(name) or "not set")) for name in plan.secrets]
    return _titled("Environment of every rank", fold_rows(rows, ink.width), ink)


def _draw_files(preview: Preview, ink: Ink) -> str:
    ready = preview.planned.ready
    rows = [
        (f.path, count(f.content.count(b"\n"), "line"), format_size(len(f.content)))
        for f in ready.bundle.files
    ]
    command = preview.call.command("render")
    files = f"{ink('strong', 'Rendered files')}  ({command})\n{align(rows, indent='  ')}"
    return f"{files}\n{draw_upload(ready.manifest, ink)}" if ready.manifest else files


def draw_upload(manifest: Manifest, ink: Ink) -> str:
    """What is sent, what is left out and why, and the largest files."""
    files = count(len(manifest.files), "file")
    lines = [f"{ink('strong', 'Upload')}  {files}, {format_size(manifest.total)}"]
    biggest = [f"{defuse(e.path)} {format_size(e.size)}" for e in manifest.list_largest(5)]
    if biggest:
        lines.append(_fold_row("largest", ", ".join(biggest), ink))
    if manifest.ignored:
        total = format_size(sum(i.size for i in manifest.ignored))
        shown = [
            f"{defuse(i.path)} {'over ' if i.at_least else ''}{format_size(i.size)}"
            for i in manifest.ignored[:5]
        ]
        rest = len(manifest.ignored) - len(shown)
        more = f" and {rest} more" if rest else ""
        rules = f", by {defuse(manifest.rules_from)}" if manifest.rules_from else ""
        lines.append(_fold_row("left out", f"{total}{rules}: {', '.join(shown)}{more}", ink))
    if manifest.withheld:
        names = ", ".join(clip(defuse(name), 40) for name in manifest.withheld[:5])
        lines.append(_fold_row("withheld", f"may hold secrets: {names}", ink))
    return "\n".join(lines) + "\n"


def _fold_row(key: str, text: str, ink: Ink) -> str:
    head = f"  {key:9} "
    return head + fold(text, ink.width - measure(head), " " * measure(head))


def _draw_checks(preview: Preview, ink: Ink) -> str:
    """Errors, warnings, notes, and what passed."""
    errors, others = list_problems(preview, every=True)
    problems = _join_lines(draw_problems([*errors, *others], ink))
    return "\n".join(part for part in (problems, _passed(preview, ink)) if part)


def _passed(preview: Preview, ink: Ink) -> str:
    lines = [
        f"  {ink('good', '[ok]')} {fold(defuse(check.message), ink.width - 7, ' ' * 7)}"
        for check in preview.plan.checks
        if check.status == "ok"
    ]
    return _titled("Passed checks", _join_lines([lines]), ink)


def draw_since(preview: Preview, ink: Ink) -> str:
    """What changed since the run that was asked for, or whether the last one was the same."""
    from jobgen.cli.screens.render import draw_differences

    planned = preview.planned
    if planned.differences is not None:
        title = ink("strong", f"Since {defuse(planned.against)}")
        return f"{title}\n{draw_differences(planned.differences, ink)}"
    if planned.last is None:
        return ""
    same = planned.last.digest == planned.ready.bundle.digest
    what = "rendered files are the same" if same else "rendered files differ: --diff shows how"
    return f"{ink('strong', 'Last run')}  {defuse(planned.last.alias)}: {what}\n"


SECTIONS: Mapping[str, Callable[[Preview, Ink], str]] = {
    "memory": _draw_memory,
    "decisions": _draw_decisions,
    "steps": _draw_steps,
    "sbatch": _draw_sbatch,
    "env": draw_environment,
    "files": _draw_files,
    "checks": _draw_checks,
}
"""Each section by its name, in the order of the screen."""
