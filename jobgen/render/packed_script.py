"""What the template of a packed sweep's job.sbatch sees beside the values of element.sh."""

from __future__ import annotations

from jobgen.model.plan import Plan, Shape
from jobgen.render.sbatch_lines import list_directives
from jobgen.render.setup_lines import format_comment
from jobgen.shell import Raw
from jobgen.wording import count


def view_packed(plan: Plan, remove_caches: Raw) -> dict[str, object] | None:
    """The job whose workers run the elements; None for any other job."""
    packing = plan.shape.packing
    if packing is None:
        return None
    each = count(plan.shape.gpus_per_node, "GPU") if plan.shape.gpus_per_node else ""
    each = each or count(plan.shape.ranks_per_node, "rank")
    return {
        "title": format_comment(f"{plan.name} on {plan.cluster}: {_describe(plan.shape)}"),
        "directives": list_directives(plan),
        "workers": packing.workers,
        "world": plan.shape.world,
        "indexes": Raw(packing.indexes),
        "why": format_comment(
            f"{packing.workers} per node, each with {each} ({plan.other['pack'].place})"
        ),
        "remove_caches": Raw(remove_caches.replace("\n" + " " * 12, "\n    ")),
    }


def _describe(shape: Shape) -> str:
    job = shape.allocated
    nodes = count(job.nodes, "node")
    if job.gpus_per_node:
        nodes += f" x {job.gpus_per_node} {job.gpu or 'GPU'}"
    workers = count(shape.packing.slots if shape.packing else 0, "worker")
    return f"{nodes}, {workers} for {count(shape.elements or 0, 'element')}"
