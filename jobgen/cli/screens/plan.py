"""The answer of ``plan``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from jobgen.cli.call import Flags
from jobgen.cli.diagnostics import format_problem
from jobgen.cli.layout import align, clip, count, fold, fold_rows, format_size, measure, write_hours
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.cli.screens.render import draw_differences, dump_differences
from jobgen.errors import Place
from jobgen.model.units import Walltime
from jobgen.shell import join, split_lines

if TYPE_CHECKING:
    from jobgen.app.plan_extras import Cost, Planned
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.plan import Decision, Plan, PlanCheck
    from jobgen.upload import Manifest

MARKS = {"ok": ("good", "[ok]  "), "warn": ("warning", "[warn]"), "fail": ("error", "[fail]")}


class Invocation(NamedTuple):
    """How the person called it, for the commands that are shown."""

    job: str
    flags: Flags

    def command(self, verb: str) -> str:
        """The command line of this call with another verb."""
        cluster = ("-c", self.flags.cluster) if self.flags.cluster else ()
        sets = [word for one in self.flags.sets for word in ("--set", one)]
        return defuse(join(["jobgen", verb, self.job, *cluster, *sets]))


def screen(
    planned: Planned,
    words: Invocation,
    ink: Ink,
    estimates: str = "",
    failed: Sequence[PlanCheck] = (),
) -> str:
    """Everything that was decided, with the planner's estimates, and what to do next."""
    ready = planned.ready
    plan = ready.plan
    parts = [
        draw_headline(plan, planned.cost, ink),
        estimates,
        _section("Decisions", _decisions(plan), ink),
        _section("Chosen for the program", _rows(plan.configured, ""), ink),
        _steps(plan, ink),
        _section("Options of sbatch", _rows(plan.directives, "--"), ink),
        _section("Environment", _environment(plan, ready.facts.secrets), ink),
        _files(ready, words, ink),
        draw_upload(ready.manifest, ink) if ready.manifest else "",
        _since(planned, ink),
        draw_checks([check for check in plan.checks if check.status != "fail"], ink),
        "\n".join(format_problem(note, {}, ink) for note in plan.notes),
        draw_checks(failed, ink, "Fix this first") or f"Next: {words.command('submit')}\n",
    ]
    return "\n".join(part for part in parts if part)


def draw_headline(plan: Plan, cost: Cost, ink: Ink) -> str:
    """The first lines of a plan: what runs, where, how large, and the most that it can use up."""
    shape = plan.shape
    nodes = count(shape.nodes, "node")
    if shape.min_nodes is not None:
        nodes = f"{shape.min_nodes} to {nodes}"
    if shape.elements is not None:
        nodes = f"{count(shape.elements, 'element')} of {nodes}"
    kind = defuse(shape.gpu) or "GPU"
    each = (
        f"{shape.gpus_per_node} {kind}" if shape.gpus_per_node else f"{shape.ranks_per_node} ranks"
    )
    total = count(shape.nodes * shape.gpus_per_node, "GPU") if shape.gpus_per_node else ""
    total = total or count(shape.world, "rank")
    line = f"{nodes} {TIMES} {each} = {total}, {Walltime(shape.seconds).human()}"
    name = ink("strong", f"{defuse(plan.name)} on {defuse(plan.cluster)}:")
    most = _cost(cost)
    used = measure(f"{plan.name} on {plan.cluster}: {line}")
    return f"{name} {line}{_beside(used, most, ink)}\n"


def _beside(used: int, most: str, ink: Ink) -> str:
    """The cost: beside the headline where there is room, else below."""
    if not most:
        return ""
    return f"  ({most})" if used + measure(most) + 4 <= ink.width else f"\n  {most}"


def _cost(cost: Cost) -> str:
    if not cost.gpu_hours:
        return ""
    money = f", {cost.amount:.0f} {defuse(cost.currency)}" if cost.amount is not None else ""
    total = f"{write_hours(cost.gpu_hours)} GPU-hours{money}"
    if cost.starts == 1:
        return f"at most {total}"
    each = write_hours(cost.gpu_hours / cost.starts)
    return f"at most {each} GPU-hours a start, up to {cost.starts} starts: {total}"


def _section(title: str, rows: Iterable[tuple[str, str, str]], ink: Ink) -> str:
    text = fold_rows(rows, ink.width)
    return f"{ink('strong', title)}\n{text}" if text else ""


def _decisions(plan: Plan) -> list[tuple[str, str, str]]:
    rows = _rows(plan.other, "")
    rows.insert(0, ("launcher", defuse(plan.launcher.value), draw_reason(plan.launcher)))
    if plan.container is not None:
        inside = plan.container
        rows.append(
            ("container", defuse(inside.image), f"{inside.runtime} ({defuse(inside.place)})")
        )
    rows += [
        ("setup", defuse(line.value), draw_reason(line)) for line in (*plan.site_setup, *plan.setup)
    ]
    return rows


def _steps(plan: Plan, ink: Ink) -> str:
    """What the job does, in order, as the bash that does it."""
    lines = [ink("strong", "Steps")]
    for step in plan.steps:
        why = fold(_joined(step.why, step.place), ink.width - 6 - len(step.name), "    ")
        lines.append(f"  {defuse(step.name)}: {why}")
        lines += [f"    | {defuse(line)}" for line in split_lines(step.text)]
    return "\n".join(lines) + "\n" if plan.steps else ""


def _rows(decisions: Mapping[str, Decision[Any]], dashes: str) -> list[tuple[str, str, str]]:
    return [(f"{dashes}{defuse(k)}", defuse(d.value), draw_reason(d)) for k, d in decisions.items()]


def _environment(plan: Plan, origins: Mapping[str, str]) -> list[tuple[str, str, str]]:
    secrets = ((name, defuse(origins.get(name) or "NOT FOUND")) for name in plan.secrets)
    told = [(name, "***", f"a secret, never shown, from {origin}") for name, origin in secrets]
    return _rows(plan.env, "") + told


def draw_reason(decision: Decision[Any]) -> str:
    """Why, and the place; the place alone for a reason that adds nothing to it."""
    from jobgen.model.plan import SelfEvident

    alone = isinstance(decision.why, SelfEvident) and decision.place.file
    return _joined("" if alone else decision.why, decision.place)


def _joined(why: str, place: Place) -> str:
    return defuse(f"{why} ({place})" if why and place.file else why or place)


def _files(ready: PreparedJob, words: Invocation, ink: Ink) -> str:
    rows = [
        (f.path, count(f.content.count(b"\n"), "line"), format_size(len(f.content)))
        for f in ready.bundle.files
    ]
    text = align(rows, indent="  ")
    return f"{ink('strong', 'Files')}  (print them: {words.command('render')})\n{text}"


def draw_upload(manifest: Manifest, ink: Ink) -> str:
    """What would be sent, what not and why, and the biggest files."""
    files = count(len(manifest.files), "file")
    lines = [f"{ink('strong', 'Upload')}  {files}, {format_size(manifest.total)}"]
    biggest = [f"{defuse(e.path)} {format_size(e.size)}" for e in manifest.list_largest(5)]
    if biggest:
        lines.append(_folded("largest", ", ".join(biggest), ink))
    if manifest.ignored:
        total = format_size(sum(i.size for i in manifest.ignored))
        shown = [
            f"{defuse(i.path)} {'over ' if i.at_least else ''}{format_size(i.size)}"
            for i in manifest.ignored[:5]
        ]
        rest = len(manifest.ignored) - len(shown)
        more = f" and {rest} more" if rest else ""
        rules = f", by {defuse(manifest.rules_from)}" if manifest.rules_from else ""
        lines.append(_folded("left out", f"{total}{rules}: {', '.join(shown)}{more}", ink))
    if manifest.withheld:
        names = ", ".join(clip(defuse(name), 40) for name in manifest.withheld[:5])
        lines.append(_folded("withheld", f"these look like secrets: {names}", ink))
    return "\n".join(lines) + "\n"


def _folded(key: str, text: str, ink: Ink) -> str:
    head = f"  {key:9} "
    return head + fold(text, ink.width - measure(head), " " * measure(head))


def _since(planned: Planned, ink: Ink) -> str:
    if planned.differences is not None:
        title = ink("strong", f"Since {defuse(planned.against)}")
        return f"{title}\n{draw_differences(planned.differences, ink)}"
    if planned.last is None:
        return ""
    same = planned.last.digest == planned.ready.bundle.digest
    found = "the same files" if same else "other files; see --diff"
    return f"{ink('strong', 'Last run')}  {defuse(planned.last.alias)}: {found}\n"


def draw_checks(found: Iterable[PlanCheck], ink: Ink, title: str = "Checks") -> str:
    """Each check with its result, its line, and what to do."""
    lines = []
    for check in found:
        style, mark = MARKS[check.status]
        place = check.place
        where = f" ({place.file}:{place.line})" if place and place.line else ""
        text = f"{check.message}{where}" + (f"; {check.hint}" if check.hint else "")
        lines.append(f"  {ink(style, mark)} {fold(defuse(text), ink.width - 9, ' ' * 9)}")
    return f"{ink('strong', title)}\n" + "\n".join(lines) + "\n" if lines else ""


def data(planned: Planned) -> dict[str, Any]:
    """Everything that was decided, as plain data."""
    ready, plan, cost = planned.ready, planned.ready.plan, planned.cost
    shape = plan.shape
    elements = {"elements": shape.elements} if shape.elements else {}
    changes = {} if planned.differences is None else dump_differences(planned.differences)
    return {
        "name": plan.name,
        "cluster": plan.cluster,
        "resources": {
            "nodes": shape.nodes,
            "min_nodes": shape.min_nodes,
            "gpus_per_node": shape.gpus_per_node,
            "gpu": shape.gpu,
            "ranks_per_node": shape.ranks_per_node,
            "world_size": shape.world,
            "cpus_per_task": shape.cpus_per_task,
            "seconds": shape.seconds,
            **elements,
        },
        "cost": {
            "gpu_hours": cost.gpu_hours,
            "starts": cost.starts,
            "amount": cost.amount,
            "currency": cost.currency or None,
        },
        "launcher": _decision(plan.launcher),
        "decisions": {k: _decision(d) for k, d in plan.other.items()},
        "sbatch": {k: _decision(d) for k, d in plan.directives.items()},
        "environment": {k: _decision(d) for k, d in plan.env.items()},
        "secrets": {name: ready.facts.secrets.get(name) for name in plan.secrets},
        "setup": [_decision(line) for line in (*plan.site_setup, *plan.setup)],
        "steps": [{"name": s.name, "scope": s.scope, "text": s.text} for s in plan.steps],
        "files": dump_files(ready),
        "upload": ready.manifest and _upload_data(ready.manifest),
        "checks": [_check_data(check) for check in plan.checks],
        "last": planned.last.alias if planned.last else None,
        "digest": f"sha256:{ready.bundle.digest}",
        **changes,
    }


def dump_files(ready: PreparedJob) -> list[dict[str, Any]]:
    """The rendered files: path, sum and length."""
    return [
        {"path": f.path, "sha256": sha256(f.content).hexdigest(), "bytes": len(f.content)}
        for f in ready.bundle.files
    ]


def _decision(decision: Decision[Any]) -> dict[str, Any]:
    return {"value": decision.value, "why": decision.why, "place": str(decision.place)}


def _check_data(check: PlanCheck) -> dict[str, Any]:
    return {
        "status": check.status,
        "code": check.code,
        "message": check.message,
        "hint": check.hint,
        "file": check.place and check.place.file,
        "line": check.place.line if check.place else 0,
    }


def _upload_data(manifest: Manifest) -> dict[str, Any]:
    return {
        "files": [{"path": e.path, "bytes": e.size} for e in manifest.files],
        "bytes": manifest.total,
        "rules": manifest.rules_from or None,
        "ignored": [
            {"path": i.path, "files": i.files, "bytes": i.size, "at_least": i.at_least}
            for i in manifest.ignored
        ],
        "withheld": list(manifest.withheld),
    }
