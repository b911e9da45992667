"""A plain job script (.sbatch, .sh, .slurm) → what is wrong with its directives and variables.

How sbatch reads a script: src/sbatch/opt.c and sbatch.c of Slurm 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from jobgen.errors import Place, Problem, Severity
from jobgen.load.judged import MOST, concerns
from jobgen.model.units import clip

if TYPE_CHECKING:
    from jobgen.fabric.variables.shelltext import Assigned
    from jobgen.model.cluster import ClusterProfile

_DIRECTIVE = "#SBATCH"
_NEAR = re.compile(r"(?!#SBATCH)(\s+#SBATCH\b|#+\s*SBATCH\s+-|#sbatch\s+-)")
_HERE = re.compile(r"(?<!<)<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_ASKED = re.compile(r"^#SBATCH\b", re.MULTILINE)
_OPTION = re.compile(r"--([A-Za-z][\w-]*)")
_EXPORT = re.compile(r"\s--export[= ]")
_NODES = re.compile(r"(?:--nodes[= ]|-N\s*)(\d{1,6})(?!\S)")


class Line(NamedTuple):
    """A line of the script."""

    number: int
    text: str
    late: bool
    """Whether a command stands above it."""


def check(text: str, label: str, *, cluster: ClusterProfile | None = None) -> list[Problem]:
    """Every problem of the script, in the order of its lines. Never raises."""
    found = [*_whole(text, label)]
    lines = [*_lines(text)]
    for line in lines:
        for rule in _RULES:
            said = rule(line, label)
            if said is not None:
                found.append(said)
                break
        if len(found) >= MOST:
            break
    found += _variables(text, label, lines, cluster)
    return sorted(found, key=lambda p: (p.place.line, p.place.col) if p.place else (0, 0))


def _lines(text: str) -> Iterator[Line]:
    """The lines, without those of here-documents, which are other files' lines."""
    late, mark = False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if mark:
            mark = "" if line.strip() == mark else mark
            continue
        yield Line(number, line, late)
        command = bool(line.strip() and not line.lstrip().startswith("#"))
        late = late or command
        here = _HERE.search(line) if command else None
        mark = here.group(2) if here else ""


def _nodes(lines: list[Line]) -> int | None:
    asked = [_NODES.search(line.text) for line in lines if _real(line)]
    counts = [int(match.group(1)) for match in asked if match]
    return counts[-1] if counts else None


def _real(line: Line) -> bool:
    return line.text.startswith(_DIRECTIVE) and not line.late


def _whole(text: str, label: str) -> Iterator[Problem]:
    # what is sourced needs no first line, and nobody submits it
    submitted = _ASKED.search(text) or not label.endswith((".sh", ".bash"))
    if submitted and not text.startswith("#!"):
        hint = "write #!/bin/bash on the first line"
        yield Problem("J328", "sbatch refuses a script without #!", Place(label, 1), hint, "error")
    if "\r\n" in text:
        line = text[: text.index("\r\n")].count("\n") + 1
        message = "sbatch refuses a script with lines that end in CR LF"
        yield Problem("J328", message, Place(label, line), "sed -i 's/\\r$//' FILE", "error")


def _late(line: Line, label: str) -> Problem | None:
    if not line.late or not line.text.startswith(_DIRECTIVE):
        return None
    message = f"'{clip(line.text)}' stands below the first command: sbatch does not read it"
    return _problem("J326", message, line, label, "move it up, before the first command")


def _almost(line: Line, label: str) -> Problem | None:
    if not _NEAR.match(line.text):
        return None
    # two signs are how people switch a directive off
    severity: Severity = "note" if line.text.startswith("##") else "warning"
    message = f"'{clip(line.text.strip())}' is a comment to sbatch"
    hint = "write #SBATCH in the first column"
    return _problem("J327", message, line, label, hint, severity)


def _literal(line: Line, label: str) -> Problem | None:
    found = _real(line) and re.search(r"\$\(|\$\{?[A-Za-z_]|=~/|`", _uncommented(line.text))
    if not found:
        return None
    message = f"'{clip(line.text)}': sbatch expands no variables, so this stays as it is"
    return _problem("J328", message, line, label, "write the value, or a pattern such as %x-%j")


def _unknown(line: Line, label: str) -> Problem | None:
    if not _real(line):
        return None
    from jobgen.data import sbatch_options
    from jobgen.model.fields import close

    known = sbatch_options()
    for match in _OPTION.finditer(_uncommented(line.text)):
        name = match.group(1)
        if line.text[match.start() - 1] not in " \t" or any(k.startswith(name) for k in known):
            continue  # sbatch takes unique beginnings, as getopt does
        near = close(name, list(known), 0.85)
        if not near or name.startswith("container-"):
            return None  # of a plug-in of the site, perhaps: pyxis has --container-image
        place = Place(label, line.number, match.start() + 1, match.end() + 1)
        message = f"sbatch has no option --{clip(name)}"
        return Problem("J329", message, place, f"did you mean --{near}?")
    return None


def _uncommented(text: str) -> str:
    """A directive without the comment behind it."""
    return _DIRECTIVE + re.split(r"(?<=\s)#", text[len(_DIRECTIVE) :], maxsplit=1)[0]


def _problem(
    code: str, message: str, line: Line, label: str, hint: str, severity: Severity = "warning"
) -> Problem:
    start = len(line.text) - len(line.text.lstrip())
    place = Place(label, line.number, start + 1, len(line.text.rstrip()) + 1)
    return Problem(code, message, place, hint, severity)


_RULES: tuple[Callable[[Line, str], Problem | None], ...] = (_late, _almost, _literal, _unknown)


def _variables(
    text: str, label: str, lines: list[Line], cluster: ClusterProfile | None
) -> Iterator[Problem]:
    from jobgen.fabric.variables.shelltext import exported

    found = [one for one in (*_asked(text, lines), *exported(text)) if concerns(one.name)][:MOST]
    if not found:
        return
    from jobgen.fabric.variables import Context, judge, where

    nodes = _nodes(lines)
    others = {one.name: one.value for one in found}
    context = Context(nodes=nodes, fabric=where.guessed(others))
    if cluster is not None:
        context = where.on(cluster, nodes=nodes)
    context = context._replace(kind="script", setup=True, others=others)
    for one in found:
        before = text[: one.start]
        number, col = before.count("\n") + 1, one.start - before.rfind("\n")
        place = Place(label, number, col, col + one.end - one.start)
        for said in judge(one.name, one.value, context):
            message, hint = clip(said.message, 400), clip(said.hint, 400)
            yield Problem(said.code, message, place, hint, said.severity)


def _asked(text: str, lines: list[Line]) -> Iterator[Assigned]:
    """The variables of ``#SBATCH --export=ALL,A=1``; of several such lines the last holds."""
    asked = [line for line in lines if _real(line) and _EXPORT.search(line.text)]
    for line in asked[-1:]:
        from jobgen.fabric.variables.shelltext import exported

        start = sum(len(before) + 1 for before in text.split("\n")[: line.number - 1])
        skip = len(_DIRECTIVE)
        for one in exported("sbatch" + _uncommented(line.text)[skip:]):
            shift = start + skip - len("sbatch")
            yield one._replace(start=one.start + shift, end=one.end + shift)
