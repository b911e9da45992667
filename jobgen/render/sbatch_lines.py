"""The #SBATCH lines: values as sbatch's own parser reads them, each with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.model.components import ComponentPlan
from jobgen.model.decision import SelfEvident, Setting
from jobgen.model.plan import Plan
from jobgen.render.setup_lines import format_comment
from jobgen.shell import Raw

_SAFE = re.compile(r"[A-Za-z0-9_.,:;/@%+=~^*?!|&<>(){}\[\]-]*", re.ASCII)
_WIDTH = 34


def list_directives(plan: Plan) -> list[Raw]:
    """One line each, with its source: Slurm takes an unquoted # as the start of a comment."""
    return _format_lines(plan.directives, plan.extra)


def list_component_directives(component: ComponentPlan) -> list[Raw]:
    """The lines that one component of a heterogeneous job has of its own."""
    return _format_lines(component.directives, component.extra)


def _format_lines(directives: Mapping[str, Setting], extra: tuple[Setting, ...]) -> list[Raw]:
    lines = []
    for name, setting in directives.items():
        text = f"#SBATCH --{name}" + (f"={_directive(setting.value)}" if setting.value else "")
        lines.append(Raw(f"{text.ljust(_WIDTH)} # {_source(setting)}"))
    for setting in extra:
        text = f"#SBATCH {setting.value}"
        lines += [Raw(f"{text.ljust(_WIDTH)} # {setting.place}")]
    return lines


def _source(setting: Setting) -> Raw:
    """The place of the setting, and its reason if it adds something."""
    if setting.place.kind == "rule":
        return format_comment(setting.why)
    alone = isinstance(setting.why, SelfEvident)
    return format_comment(str(setting.place) if alone else f"{setting.place}: {setting.why}")


def _directive(value: str) -> str:
    """A value as sbatch's own parser reads it: quotes group, a backslash escapes, no shell."""
    if _SAFE.fullmatch(value):
        return value
    return "'" + value + "'" if "'" not in value else '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
