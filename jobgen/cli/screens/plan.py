"""The answer of ``plan``: the screen that was asked for, and the plain data."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from jobgen.cli.output import Ink
from jobgen.cli.screens.plan_summary import Preview, draw, draw_verdict
from jobgen.cli.screens.render import dump_differences

if TYPE_CHECKING:
    from jobgen.app.plan_extras import Planned
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.decision import PlanCheck
    from jobgen.model.plan import Plan
    from jobgen.upload import Manifest


def screen(preview: Preview, ink: Ink, sections: Sequence[str] = ()) -> str:
    """The short screen; with ``-q`` a line, with ``-v`` everything, else what was asked for."""
    from jobgen.cli import estimating
    from jobgen.cli.screens import plan_sections

    flags = preview.call.flags
    if sections:
        return plan_sections.draw_sections(preview, sections, ink)
    if flags.quiet:
        return draw_verdict(preview)
    if flags.verbose:
        return plan_sections.draw_all(preview, ink)
    if preview.planned.differences is not None:
        return f"{plan_sections.draw_since(preview, ink)}\n{draw_verdict(preview)}"
    return draw(preview, ink, estimating.draw_extras(preview.answer, ink))


def data(planned: Planned) -> dict[str, Any]:
    """Everything that was decided, as plain data."""
    from jobgen.app.plan_extras import count_cpus

    ready, plan, cost = planned.ready, planned.ready.plan, planned.cost
    shape, cpus = plan.shape, count_cpus(ready)
    elements = {"elements": shape.elements} if shape.elements else {}
    if shape.packing:
        elements["workers"] = shape.packing.slots
    changes = {} if planned.differences is None else dump_differences(planned.differences)
    return {
        "name": plan.name,
        "cluster": plan.cluster,
        "resources": {
            "nodes": shape.allocated.nodes,
            "min_nodes": shape.min_nodes,
            "gpus_per_node": shape.allocated.gpus_per_node,
            "gpu": shape.gpu,
            "ranks_per_node": shape.ranks_per_node,
            "world_size": plan.world,
            "cpus_per_task": shape.cpus_per_task,
            "cpus_per_rank": cpus.rank,
            "cpus_per_node": cpus.node,
            "seconds": shape.seconds,
            **elements,
        },
        "cost": {
            "gpu_hours": cost.gpu_hours,
            "starts": cost.starts,
            "amount": cost.amount,
            "currency": cost.currency or None,
        },
        "launcher": plan.launcher.dump(),
        "decisions": {k: d.dump() for k, d in plan.other.items()},
        "sbatch": {k: d.dump() for k, d in plan.directives.items()},
        **_list_components(plan),
        "environment": {k: d.dump() for k, d in plan.env.items()},
        "secrets": {name: ready.facts.secrets.get(name) for name in plan.secrets},
        "setup": [line.dump() for line in (*plan.site_setup, *plan.setup)],
        "steps": [
            {"name": s.name, "scope": s.scope, "text": s.text} for s in plan.list_all_steps()
        ],
        "files": dump_files(ready),
        "upload": ready.manifest and _upload_data(ready.manifest),
        "checks": [_check_data(check) for check in plan.checks],
        "sweep": [dict(element) for element in plan.elements],
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


def _list_components(plan: Plan) -> dict[str, Any]:
    """What each component of a heterogeneous job requests; nothing of another job."""
    listed = [
        {
            "nodes": each.shape.nodes,
            "gpus_per_node": each.shape.gpus_per_node,
            "sbatch": {name: setting.dump() for name, setting in each.directives.items()},
        }
        for each in plan.components
    ]
    return {"components": listed} if listed else {}


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
