"""The answer of ``explain``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, clip, fold
from jobgen.cli.output import Ink, defuse
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.explaining import Explained
    from jobgen.data import EnvVariable
    from jobgen.data.env_variables import Hearsay
    from jobgen.fabric.variables import VariableDiagnostic

_WIDEST = 100
_HUNDREDS = {
    "J1": "job files, profiles, secrets, templates, upload",
    "J2": "what the job asks for and the cluster has; the planner",
    "J3": "lint: programs, environment variables",
    "J4": "SSH, cluster add, doctor, this machine",
    "J5": "why jobs die: what diagnose finds",
}
_FACTS = (
    ("Read by", "owner"),
    ("Values", "values"),
    ("Default", "default"),
    ("Since", "since"),
    ("Until", "until"),
    ("Instead", "successor"),
    ("Safe to set", "safe"),
    ("Source", "source"),
)
"""The lines of a variable: label → field."""


def screen(found: Explained, ink: Ink) -> str:
    """One code or variable in full, or a list where there are several."""
    if found.codes:
        return _codes(found, ink)
    if len(found.variables) + len(found.hearsay) > 1 and "*" in found.variable:
        return _family(found, ink)
    parts = [_variable(row, found.variable, ink) for row in found.variables]
    parts += [_hearsay(said, found, ink) for said in found.hearsay]
    parts += [_finding(said, ink) for said in found.findings if said.code != "J304"]
    return "\n".join(parts)


def data(found: Explained) -> list[dict[str, Any]]:
    """The explained codes or variables as plain data."""
    return [
        *(code._asdict() for code in found.codes),
        *({"kind": "variable", **row._asdict()} for row in found.variables),
        *({"kind": "hearsay", **said._asdict()} for said in found.hearsay),
        *({"kind": "finding", **said._asdict()} for said in found.findings),
    ]


def _codes(found: Explained, ink: Ink) -> str:
    if found.family:
        return align((c.code, c.title) for c in found.codes)
    if len(found.codes) > 1:
        return _overview(found)
    code = found.codes[0]
    parts = [ink("strong", f"{code.code}: {code.title}") + "\n"]
    parts += [
        fold(p.replace("\n", " "), min(ink.width, _WIDEST)) + "\n" for p in code.why.split("\n\n")
    ]
    for label, text in code.examples:
        if text:
            parts.append(f"{label}:\n{textwrap.indent(text, '    ')}\n")
    return "\n".join(parts)


def _overview(found: Explained) -> str:
    """What can be explained: a line for each hundred codes, with the command that lists them."""
    rows = []
    for hundred, subject in _HUNDREDS.items():
        number = sum(code.code.startswith(hundred) for code in found.codes)
        rows.append((f"jobgen explain '{hundred}*'", f"{count(number, 'code')}: {subject}"))
    others = f"some of {count(found.more, 'variable')}: NCCL, PyTorch, libfabric, UCX, CUDA"
    rows += [("jobgen explain 'NCCL_IB_*'", others), ("jobgen explain J131", "one in full")]
    return align(rows)


def _variable(row: EnvVariable, asked: str, ink: Ink) -> str:
    """Meaning first, then a line for each fact that is known."""
    width = min(ink.width, _WIDEST)
    title = row.name if row.name == asked else f"{asked}, of {row.name}"
    meaning = row.meaning[:1].upper() + row.meaning[1:]
    parts = [ink("strong", title) + "\n", fold(meaning.rstrip(".") + ".", width) + "\n"]
    facts = [(label, str(getattr(row, field))) for label, field in _FACTS]
    wide = max(len(label) for label, _ in facts) + 2
    lines = [
        f"{label + ':':<{wide}}" + fold(text, width - wide, " " * wide) + "\n"
        for label, text in facts
        if text and text != "-"
    ]
    return "\n".join([*parts, "".join(lines)])


def _hearsay(said: Hearsay, found: Explained, ink: Ink) -> str:
    """What is wrong with a name or a value, and what to write."""
    width = min(ink.width, _WIDEST)
    name = said.entry if "=" in said.entry or not found.variable else found.variable
    verdict = fold(f"Nothing reads {name}: {said.why}.", width)
    instead = "Write nothing." if said.instead == "none" else f"Write instead: {said.instead}"
    source = "Source: absent from every release of NCCL from 2.3.5 and of PyTorch from 1.13."
    if "renamed" in said.why:
        verdict = fold(f"{name}: {said.why}.", width)
        source = "Source: PyTorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp."
    if "=" in said.entry:
        verdict, source = fold(f"{name}: {said.why}.", width), "Source: NCCL's user guide, env.rst."
    parts = [ink("strong", name), verdict, fold(instead, width), source]
    return "\n\n".join(parts) + "\n"


def _finding(said: VariableDiagnostic, ink: Ink) -> str:
    """What the judge says of a value."""
    width = min(ink.width, _WIDEST)
    label = ink(said.severity, f"{said.severity}[{said.code}]:")
    parts = [fold(f"{label} {defuse(said.message)}", width)]
    if said.hint:
        parts.append(fold(f"  = help: {defuse(said.hint)}", width, " " * 10))
    return "\n".join(parts) + "\n"


_LONG = 32
"""A longer name has a line of its own, so that meanings have room beside the others."""


def _family(found: Explained, ink: Ink) -> str:
    """A line for each: its name and what it does."""
    rows = [(row.name, row.meaning) for row in found.variables]
    rows += [(said.entry, f"nothing reads it: {said.why}") for said in found.hearsay]
    first = min(max(len(name) for name, _ in rows), _LONG)
    room = max(20, ink.width - first - 2)
    lines = []
    for name, text in rows:
        above = f"{name}\n{'':{first}}" if len(name) > first else f"{name:{first}}"
        lines.append(f"{above}  {clip(text, room)}\n")
    return "".join(lines)
