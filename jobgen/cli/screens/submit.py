"""The answers of ``submit``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jobgen.app.prepare import judge
from jobgen.cli.diagnostics import format_problem
from jobgen.cli.layout import align, count, fold_rows, format_size
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens import plan as plans
from jobgen.cli.screens.run_files import format_location
from jobgen.errors import Diagnostic

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.plan import Plan, PlanCheck
    from jobgen.model.record import RunRecord
    from jobgen.submission.exchange import DryRun


def draw_dry_run(
    ready: PreparedJob,
    dry: DryRun,
    words: plans.Invocation,
    ink: Ink,
    *,
    scripts: bool,
    last: str = "",
) -> str:
    """What would be run, in order, and the environment and files of the job; at the end the next
    commands, or ``last``."""
    plan = ready.plan
    commands = f"Script: {words.command('render')}\nSubmit: {words.command('submit')}\n"
    cost = _cost(plan)
    parts = [
        plans.draw_headline(plan, cost, ink),
        _steps(dry, ink, scripts=scripts),
        _environment(ready, ink),
        _files(dry, ink),
        plans.draw_upload(ready.manifest, ink) if ready.manifest else "",
        plans.draw_checks(plan.checks, ink),
        "\n".join(format_problem(note, {}, ink) for note in plan.notes),
        last or commands,
    ]
    return "\n".join(part for part in parts if part)


def _cost(plan: Plan) -> Any:
    from jobgen.app.plan_extras import Cost

    return Cost(plan.gpu_hours, starts=plan.starts)


def _steps(dry: DryRun, ink: Ink, *, scripts: bool) -> str:
    lines = [f"{ink('strong', 'WOULD RUN')}  in this order; nothing has been sent"]
    for number, step in enumerate(dry.steps, start=1):
        lines.append(f"  {number} {defuse(step.title):8} {defuse(step.command)}")
        if scripts and step.script:
            lines += [f"      | {defuse(line)}".rstrip() for line in step.script.split("\n")]
    if not scripts and any(step.script for step in dry.steps):
        lines.append(ink("faint", "  (-v shows the script that carries each step)"))
    return "\n".join(lines) + "\n"


def _environment(ready: PreparedJob, ink: Ink) -> str:
    plan, origins = ready.plan, ready.facts.secrets
    rows = [(defuse(name), defuse(d.value), plans.draw_reason(d)) for name, d in plan.env.items()]
    rows += [(name, "***", defuse(origins.get(name) or "NOT FOUND")) for name in plan.secrets]
    text = fold_rows(rows, ink.width)
    return f"{ink('strong', 'Environment of the job')}\n{text}" if text else ""


def _files(dry: DryRun, ink: Ink) -> str:
    rows = [(defuse(path), format_size(length)) for path, length in dry.files]
    title = ink("strong", "Files")
    return f"{title}  {count(len(rows), 'file')} beside src/\n{align(rows, indent='  ')}"


def dump_dry_run(ready: PreparedJob, dry: DryRun) -> dict[str, Any]:
    """The dry run as plain data."""
    plan, sent = ready.plan, ready.manifest
    files, size = (len(sent.files), sent.total) if sent else (0, 0)
    return {
        "dry_run": True,
        "name": plan.name,
        "cluster": plan.cluster,
        "steps": [
            {"title": s.title, "command": s.command, "script": s.script or None} for s in dry.steps
        ],
        "environment": {
            name: {"value": d.value, "why": d.why, "place": str(d.place)}
            for name, d in plan.env.items()
        },
        "secrets": {name: ready.facts.secrets.get(name) or None for name in plan.secrets},
        "files": [{"path": path, "bytes": length} for path, length in dry.files],
        "upload": {"files": files, "bytes": size},
        "digest": f"sha256:{ready.bundle.digest}",
    }


def list_failing(checks: Iterable[PlanCheck]) -> list[Diagnostic]:
    """Checks that are not ok, as warnings: --force has overruled them."""
    return [judge(c)._replace(severity="warning") for c in checks if c.status != "ok"]


def screen(record: RunRecord, ink: Ink) -> str:
    """The job's name and ids, and how to follow, look, cancel and find its files."""
    name = defuse(record.alias)
    job = f"   {_scheduler(record)} {record.job}" if record.job else ""
    rows = [
        ("follow", f"jobgen logs {name} -f"),
        ("status", f"jobgen show {name}"),
        ("cancel", f"jobgen cancel {name}"),
        ("files", format_location(record)),
    ]
    head = f"{ink('strong', name)}{job}   {defuse(record.site.cluster)}\n"
    return head + align(rows, indent="  ", gap="    ")


def _scheduler(record: RunRecord) -> str:
    return "Slurm" if record.site.scheduler == "slurm" else "job"


def data(record: RunRecord) -> dict[str, Any]:
    """A submitted run as plain data."""
    from jobgen.cli.screens.jobs import dump_job

    name = record.alias
    return {
        "job": dump_job(record),
        "next": {
            "follow": ["jobgen", "logs", name, "-f"],
            "status": ["jobgen", "show", name],
            "cancel": ["jobgen", "cancel", name],
        },
    }
