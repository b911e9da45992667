"""What is to be said of variables, once job and cluster are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobgen.errors import Diagnostic
from jobgen.model.decision import Setting
from jobgen.model.plan import Shape
from jobgen.resolve.inputs import Inputs
from jobgen.shell import list_names


def list_rule_notes(look: Inputs) -> list[Diagnostic]:
    """What rules found in both files, without the judge, who speaks again with more."""
    warnings = [*look.spec.warnings, *look.profile.warnings]
    if not warnings:
        return []
    from jobgen.fabric.variables import CODES

    return [warning for warning in warnings if warning.code not in CODES]


def judge_variables(look: Inputs, shape: Shape, env: Mapping[str, Setting]) -> Iterator[Diagnostic]:
    """What the judge says of the variables of both files; jobgen's own are not judged."""
    mine, site = look.spec.variables, look.profile.variables
    if not mine and not site:
        return
    from jobgen.fabric.variables import judge, profile_context

    found = {name: None if list_names(s.value) else s.value for name, s in env.items()}
    found |= {one.name: one.value for one in (*site, *mine) if one.setup}
    context = profile_context.build_context(
        look.cluster,
        nodes=look.widen_network(shape).nodes,
        gpus=shape.gpus_per_node or None,
        ranks=shape.ranks_per_node,
        others=found,
    )
    named = {one.name for one in mine}
    facts = tuple(one for one in site if one.name not in named)
    for assigned, here in ((mine, context), (facts, context._replace(kind="cluster"))):
        for one in assigned:
            for said in judge(one.name, one.value, here._replace(setup=one.setup)):
                yield Diagnostic(said.code, said.message, one.place, said.hint, said.severity)
