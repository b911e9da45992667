"""What the templates see of a heterogeneous job: each component's lines, nodes and checks."""

from __future__ import annotations

from jobgen.model.components import FILE
from jobgen.model.part_plans import PreflightPlan
from jobgen.model.plan import Plan
from jobgen.render.sbatch_lines import list_component_directives
from jobgen.render.setup_lines import explain_setting, format_comment
from jobgen.shell import Raw, quote

_NODES = "SLURM_JOB_NODELIST_HET_GROUP_{}"
_CPUS = "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_{}"


def list_files(plan: Plan) -> list[str]:
    """The files that only such a job has."""
    return [FILE] if plan.components else []


def view_components(plan: Plan) -> dict[str, object]:
    """What all components share; empty values for a job whose nodes are of one kind."""
    lists = [f"${_NODES.format(number)}" for number, _ in enumerate(plan.components)]
    views = [_view(plan, number) for number, _ in enumerate(plan.components)]
    return {
        "components": views,
        "later_components": views[1:],
        "job_nodes": Raw(f'"{",".join(lists) or "$SLURM_JOB_NODELIST"}"'),
    }


def _view(plan: Plan, number: int) -> dict[str, object]:
    component = plan.components[number]
    gpus = " ".join(quote(word) for word in component.gpus)
    shared = Raw(f"${{gpus:+{gpus}}} " if gpus else "")
    groups = [p.name for p in plan.programs if p.group and p.group.component == number]
    return {
        "number": number,
        "groups": format_comment(", ".join(groups)),
        "directives": list_component_directives(component),
        "first": component.first,
        "nodes": component.shape.nodes,
        "head": Raw(component.head.value),
        "gpus": shared,
        "expect": list_checks(component.preflight),
    }


def list_checks(preflight: PreflightPlan | None) -> list[dict[str, Raw]]:
    """What a node has to have, a word each, with its reason."""
    return [
        {"value": _quote_element(setting.value), "comment": explain_setting(setting)}
        for setting in (preflight.expect if preflight else ())
    ]


def _quote_element(value: str) -> Raw:
    """A word of an array; one with a bare comma reads as if it were several."""
    word = quote(value)
    return Raw(f"'{word}'" if word == value and "," in word else word)


def name_cpus(component: int) -> Raw:
    """The variable with the CPUs of a component's nodes."""
    return Raw(f"${_CPUS.format(component)}")
