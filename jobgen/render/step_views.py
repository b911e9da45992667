"""What the templates see of ``before``, ``finally`` and several programs; lines that all share."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.model.decision import Setting
from jobgen.model.part_plans import PreparePlan
from jobgen.model.plan import Plan, ProgramPlan, Step
from jobgen.named_tuple import NamedTuple
from jobgen.render.group_views import view_group, view_groups
from jobgen.render.setup_lines import (
    explain_setting,
    format_comment,
    format_setup,
    format_site_setup,
    quote_value,
)
from jobgen.shell import Raw, Word, list_names, quote, quote_expandable
from jobgen.wording import count

_WIDEST = 118
_READ_ALL = 'cat "$events".*[0-9]'
_READ_STEP = 'grep -h " step=$JOBGEN_STEP\\$" "$events".*[0-9]'
"""Bash that prints the events of all ranks, or of those of one step."""


class ExportLine(NamedTuple):
    """One exported variable, as the template writes it."""

    name: Raw
    value: Raw
    comment: Raw

    @property
    def line(self) -> Raw:
        """Its export with the reason behind it, or above it if the line would be long."""
        return self._write("")

    @property
    def inner_line(self) -> Raw:
        """Its export with the reason, inside a function."""
        return self._write("    ")

    def _write(self, indent: str) -> Raw:
        text = f"export {self.name}={self.value}"
        line = f"{text} # {self.comment}"
        fits = len(line) <= _WIDEST and "\n" not in text
        return Raw(line if fits else f"# {self.comment}\n{indent}{text}")


def list_once(plan: Plan) -> list[Step]:
    """What runs once on the first node beside the program."""
    return [step for step in plan.steps if step.name in ("before", "finally")]


def view_once(plan: Plan) -> dict[str, object]:
    """``before`` and ``finally``, which are no part of a container but have its setup outside."""
    once = {step.name: step for step in list_once(plan)}
    site = plan.container.setup if plan.container else plan.site_setup
    setup = [*format_site_setup(site, plan.precedence)]
    view: dict[str, object] = {
        "has_once": bool(once),
        "setup_once": setup if plan.container else [*setup, *format_setup(plan.setup)],
    }
    for name in ("before", "finally"):
        step = once.get(name)
        view[f"{name}_once"] = step and {
            "commands": Raw(step.text),
            "place": format_comment(str(step.place)),
            "failed": Raw(f'"{name} failed: $BASH_COMMAND"'),
        }
    return view


def view_code(folder: str) -> dict[str, object]:
    """The directory of code that stays on the cluster: a variable that is not set is empty."""
    return {
        "folder": Raw(re.sub(r"(?<!\\)\$\{(\w+)\}", r"${\1:-}", quote_expandable(folder))),
        "needs": [
            {"name": Raw(f"${name}"), "value": Raw(f"${{{name}:-}}")}
            for name in dict.fromkeys(list_names(folder))
        ],
    }


def view_prepare(prepare: PreparePlan) -> dict[str, object]:
    """What runs once on each node before the program."""
    names = dict.fromkeys(name for each in prepare.staged for name in sorted(each.names))
    return {
        "start": format_command(prepare.start),
        "why": format_comment(str(prepare.place)),
        "needs": [{"name": Raw(f"${name}"), "value": Raw(f"${{{name}:-}}")} for name in names],
        "staged": [
            {
                "source": Raw(quote_expandable(each.source)),
                "folder": Raw(quote_expandable(each.folder)),
            }
            for each in prepare.staged
        ],
        "outside": format_setup(prepare.outside),
    }


def list_first(plan: Plan) -> list[Step]:
    """What the batch shell does right before it starts the launcher."""
    other = ("launch", "before", "finally")
    return [step for step in plan.steps if step.scope == "once" and step.name not in other]


def view_steps(plan: Plan) -> dict[str, object]:
    """What differs where there are several programs."""
    first, events = "rank.sh", _READ_ALL
    if plan.has_groups:
        first, events = "groups.sh", "read_group_events"
    elif plan.programs:
        first, events = "step.sh", _READ_STEP
    return {
        "first_file": Raw(first),
        "programs": [_view_program(plan, each) for each in plan.programs],
        "rounds": plan.rounds if plan.rounds > 1 else None,
        "read_events": Raw(events),
        "step_name": Raw(""),
        "ready_once": None,
        **view_groups(plan),
    }


def _view_program(plan: Plan, program: ProgramPlan) -> dict[str, object]:
    """One of several programs: its own environment, and what starts it."""
    own, shape = program.plan, program.plan.shape
    launch = next(step for step in own.steps if step.name == "launch")
    env = {name: s for name, s in own.env.items() if name not in plan.env}
    size = f"{count(shape.nodes, 'node')}, {count(shape.world, 'rank')}"
    kind, role = "Step", ""
    if program.group:
        kind, role = "Group", program.group.describe()
    title = f"{kind} {program.name}: {size}{role} ({program.place})"
    return {
        "name": Raw(program.name),
        "title": format_comment(title),
        "launcher": explain_setting(Setting(own.launcher.value, launch.why, own.launcher.place)),
        "nodes": shape.nodes,
        "fewer": shape.nodes < plan.shape.nodes,
        "world": shape.world,
        "ranks": shape.ranks_per_node,
        "all_cpus": shape.whole_nodes and shape.cpus_per_task is None,
        "env": list_exports(env),
        "before": [{"text": Raw(step.text)} for step in list_first(own)],
        "start": Raw(format_command(own.start).replace("\\\n    ", "\\\n        ")),
        **view_group(program),
    }


def list_exports(env: Mapping[str, Setting]) -> list[ExportLine]:
    return [
        ExportLine(Raw(name), Raw(quote_value(s.value)), explain_setting(s))
        for name, s in env.items()
    ]


def format_command(lines: tuple[tuple[Word, ...], ...]) -> Raw:
    return Raw(" \\\n    ".join(" ".join(quote(w) for w in line) for line in lines if line))
