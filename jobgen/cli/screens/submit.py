"""The answers of ``submit``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.app.plan_problems import judge
from jobgen.cli.layout import align, format_size, write_hours
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens import plan_sections
from jobgen.cli.screens.plan_summary import Preview, draw_next, draw_top
from jobgen.cli.screens.race_rows import name_jobs
from jobgen.cli.screens.run_files import format_location
from jobgen.errors import Diagnostic
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.app.start_estimate import MissingModel
    from jobgen.model.decision import PlanCheck
    from jobgen.model.record import RunRecord
    from jobgen.scheduler.allowances import Allowance
    from jobgen.submission.dry_run import DryRun


def draw_missing_model(missing: MissingModel) -> str:
    """A warning, and the command that downloads the model."""
    name, cache = defuse(missing.name), defuse(missing.cache)
    return (
        f"warning: {name} is not in the Hugging Face cache {cache}, and the "
        f"nodes have no internet\n  = help: on a login node: {defuse(missing.command)}"
    )


def draw_allowances(allowances: Sequence[Allowance], hours: float, gpus: int) -> str:
    """A line for each limit on GPUs; ``hours`` GPU-hours on ``gpus`` GPUs are the job's."""
    lines = [
        f"{each.owner} {part}" for each in allowances for part in _list_limits(each, hours, gpus)
    ]
    return "limit: " + "\n       ".join(lines)


def _list_limits(allowance: Allowance, hours: float, gpus: int) -> Iterator[str]:
    if limit := allowance.hours:
        most = f"{write_hours(limit.left)} of {write_hours(limit.most)} GPU-hours left"
        yield f"has {most}; this job may use {write_hours(hours)}"
    if limit := allowance.gpus:
        yield f"uses {limit.used:.0f} of {limit.most:.0f} GPUs at a time; this job needs {gpus}"


def draw_dry_run(preview: Preview, dry: DryRun, ink: Ink, *, scripts: bool, last: str = "") -> str:
    """The short plan; then what would be run, in order, the environment and the files of the job;
    at the end the next commands, or ``last``."""
    manifest = preview.planned.ready.manifest
    render = f"Script: {preview.call.command('render')}\n" if not last else ""
    parts = [
        draw_top(preview, ink),
        _steps(dry, ink, scripts=scripts),
        plan_sections.draw_environment(preview, ink),
        _files(dry, ink),
        plan_sections.draw_upload(manifest, ink) if manifest else "",
        last or f"{render}{draw_next(preview)}\n",
    ]
    return "\n".join(part for part in parts if part)


def _steps(dry: DryRun, ink: Ink, *, scripts: bool) -> str:
    lines = [f"{ink('strong', 'WOULD RUN')}  in this order; nothing was sent"]
    for number, step in enumerate(dry.steps, start=1):
        lines.append(f"  {number} {defuse(step.title):8} {defuse(step.command)}")
        if scripts and step.script:
            lines += [f"      | {defuse(line)}".rstrip() for line in step.script.split("\n")]
    if not scripts and any(step.script for step in dry.steps):
        lines.append(ink("faint", "  (-v shows the script of each step)"))
    return "\n".join(lines) + "\n"


def _files(dry: DryRun, ink: Ink) -> str:
    rows = [(defuse(path), format_size(length)) for path, length in dry.files]
    title = ink("strong", "Files of the run directory")
    ours = sum(path.startswith("bundle/") for path, _ in dry.files)
    said = f"{count(ours, 'rendered file')} and {len(rows) - ours} for submitting, beside src/"
    return f"{title}  {said}\n{align(rows, indent='  ')}"


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
    job = f"   {_scheduler(record)} {name_jobs(record)}" if record.job else ""
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
    from jobgen.cli.screens.job_data import dump_job

    name = record.alias
    return {
        "job": dump_job(record),
        "next": {
            "follow": ["jobgen", "logs", name, "-f"],
            "status": ["jobgen", "show", name],
            "cancel": ["jobgen", "cancel", name],
        },
    }
