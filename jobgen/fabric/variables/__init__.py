"""The judge of environment variables: (name, value, where it stands) → findings.

Pure. The rules stand in one table, each finding has its code (``jobgen explain J316``). What is
wrong is a warning, an error where the job cannot run; what is needless is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jobgen.data.env_variables import variable
from jobgen.fabric.variables import advice, conflicts, contents, names, network_rules
from jobgen.fabric.variables.judgement import Context, VariableCase, VariableDiagnostic

__all__ = ["CODES", "Context", "VariableDiagnostic", "judge"]

CODES = frozenset({"J303", "J304", "J308", *(f"J3{number}" for number in range(10, 26))})
"""Every code that a finding may have."""

Rule = Callable[[VariableCase], VariableDiagnostic | None]
_NAME_RULES: tuple[Rule, ...] = (
    names.check_moved, names.check_folklore, names.check_foreign, names.check_lower_case,
    names.check_unknown, names.check_obsolete, names.check_too_new,
)  # fmt: skip
"""Of these the first speaks, and ends the matter: the value of such a name means nothing."""
_RULES: tuple[Rule, ...] = (
    contents.list_syntax, contents.check_kind, contents.check_ucx_devices, contents.check_prefix,
    contents.check_value, contents.check_port, contents.check_sockets, contents.check_threads,
    network_rules.check_clash, network_rules.check_loopback, network_rules.check_peer_access,
    network_rules.check_devices, conflicts.check_pair, conflicts.check_bounds,
    conflicts.check_filters, conflicts.check_interfaces, advice.check_launchers,
)  # fmt: skip
"""Of these every one speaks."""
_ADVICE: tuple[Rule, ...] = (
    advice.check_debugging, advice.check_forced, advice.check_gid, names.check_needless,
    names.check_deprecated, advice.check_default, advice.check_tuning, advice.check_internal,
)  # fmt: skip
"""Of these the first speaks, where nothing else was said, and never of a site's own facts."""


def judge(name: str, value: str | None, context: Context) -> tuple[VariableDiagnostic, ...]:
    """What is to be said of a variable; nothing where it is right, or of another field.

    ``value`` is None where only the run knows it. ``context.others`` holds every variable that the
    ranks will find; without it, nothing is said of two that do not go together.
    """
    if context.kind == "job" and value is not None and context.defaults.get(name) == value:
        return ()  # jobgen would set the same
    case = VariableCase(name, value, variable(name), context)
    final = next(_said(_NAME_RULES, case), None)
    if final is not None:
        return (final._replace(about_name=True),)
    found = tuple(_said(_RULES, case))
    if found or context.kind == "cluster":
        return found
    return tuple(_said(_ADVICE, case))[:1]


def _said(rules: Iterable[Rule], case: VariableCase) -> Iterator[VariableDiagnostic]:
    return (finding for rule in rules if (finding := rule(case)) is not None)
