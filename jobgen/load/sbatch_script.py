"""A plain job script (.sbatch, .sh, .slurm) → what is wrong with its directives and variables.

How sbatch reads a script: src/sbatch/opt.c and sbatch.c of Slurm 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Place, Severity
from jobgen.load.judged import MOST, is_judged
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple
from jobgen.payload.localslurm.errors import CommandError
from jobgen.payload.localslurm.script import directives
from jobgen.shell.exports import Export, list_exports, read_runner_options
from jobgen.shell.lexer import ShellWord
from jobgen.shell.programs import read_started
from jobgen.shell.simple_commands import read_script

if TYPE_CHECKING:
    from jobgen.data import SbatchOption
    from jobgen.model.cluster import ClusterProfile

_DIRECTIVE = "#SBATCH"
_NEAR = re.compile(r"(?!#SBATCH)(\s+#SBATCH\b|#+\s*SBATCH\s+-|#sbatch\s+-)")
_COMMAND = re.compile(r"^[^\S\n]*[^\s#]", re.MULTILINE)
"""The beginning of the first line at which sbatch stops to read directives."""
_NODES = re.compile(r"(?:--nodes[= ]|-N\s*)(\d{1,6})(?!\S)")
_VARIABLE = re.compile(r"\$\(|\$\{?[A-Za-z_]|=~/|`")


class Comment(NamedTuple):
    """A line of the script that holds nothing but a comment."""

    number: int
    text: str
    start: int
    """Where it begins in the script."""
    late: bool
    """Whether a command stands above it."""
    words: list[str]
    """Of a directive that sbatch reads, split by Slurm's rules; none of another comment."""


def check(text: str, label: str, *, cluster: ClusterProfile | None = None) -> list[Diagnostic]:
    """Every problem of the script, in the order of its lines. Never raises."""
    lines = _list_comments(text)
    found = [*_whole(text, lines, label)]
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


def _list_comments(text: str) -> list[Comment]:
    """The lines that are comments; none of here-documents, which are other files' lines."""
    first, lines = _COMMAND.search(text), []
    end, number, counted = first.start() if first else len(text), 1, 0
    for comment in read_script(text).comments:
        start = text.rfind("\n", 0, comment.start) + 1
        if text[start : comment.start].strip():
            continue
        number += text.count("\n", counted, start)
        counted, line, late = start, text[start : comment.end], comment.start > end
        lines.append(Comment(number, line, start, late, [] if late else read_directive(line)))
    return lines


def read_directive(line: str) -> list[str]:
    """The words of a directive, which Slurm splits by its own rules; none of another comment."""
    try:
        return directives(line, "")
    except CommandError:
        return []


def _count_nodes(lines: list[Comment]) -> int | None:
    """What the last ``--nodes=2``, ``-N 2`` or ``-N2`` asks for, where it is one number."""
    count = None
    for line in lines:
        if match := _NODES.search(" ".join(line.words)):
            count = int(match.group(1))
    return count


def _whole(text: str, lines: list[Comment], label: str) -> Iterator[Diagnostic]:
    # what is sourced needs no first line, and nobody submits it
    sourced = label.endswith((".sh", ".bash"))
    submitted = not sourced or any(line.text.startswith(_DIRECTIVE) for line in lines)
    if submitted and not text.startswith("#!"):
        hint = "write #!/bin/bash on the first line"
        yield Diagnostic(
            "J328", "sbatch rejects a script without #!", Place(label, 1), hint, "error"
        )
    if "\r\n" in text:
        line = text[: text.index("\r\n")].count("\n") + 1
        message = "sbatch rejects a script with CR LF line endings"
        yield Diagnostic("J328", message, Place(label, line), "sed -i 's/\\r$//' FILE", "error")


def _late(line: Comment, label: str) -> Diagnostic | None:
    if not line.late or not line.text.startswith(_DIRECTIVE):
        return None
    message = f"'{clip(line.text)}' comes after the first command: sbatch ignores it"
    return _problem("J326", message, line, label, "move it above the first command")


def _almost(line: Comment, label: str) -> Diagnostic | None:
    if not _NEAR.match(line.text):
        return None
    # two signs are how people switch a directive off
    severity: Severity = "note" if line.text.startswith("##") else "warning"
    message = f"'{clip(line.text.strip())}' is only a comment to sbatch"
    hint = "start #SBATCH in the first column"
    return _problem("J327", message, line, label, hint, severity)


def _literal(line: Comment, label: str) -> Diagnostic | None:
    if not any(map(_VARIABLE.search, line.words)):
        return None
    message = f"'{clip(line.text)}': sbatch does not expand variables"
    return _problem("J328", message, line, label, "write the value, or a pattern such as %x-%j")


def _unknown(line: Comment, label: str) -> Diagnostic | None:
    options = [word for word in line.words if re.match("--[A-Za-z]", word)]
    if not options:
        return None
    from jobgen.data import sbatch_options
    from jobgen.model.fields import find_nearest

    known = sbatch_options()
    for word in options:
        name = word[2:].partition("=")[0]
        begun = [k for k in known if k.startswith(name)]
        if name not in known and (several := [k for k in begun if _is_certain(known[k])])[1:]:
            return _ambiguous(line, label, name, several)
        if begun:
            continue  # sbatch takes unique beginnings, as getopt does
        near = find_nearest(name, list(known), 0.85)
        if not near or name.startswith("container-"):
            return None  # of a plug-in of the site, perhaps: pyxis has --container-image
        message = f"sbatch has no option --{clip(name)}"
        place = _locate_option(line, label, name)
        return Diagnostic("J329", message, place, f"did you mean --{near}?")
    return None


def _is_certain(option: SbatchOption) -> bool:
    """Whether each release of Slurm that is in use has the option."""
    return option.old and not option.removed


def _ambiguous(line: Comment, label: str, name: str, several: list[str]) -> Diagnostic:
    """A beginning of several options, which sbatch rejects."""
    shortest = sorted(several, key=lambda each: (len(each), each))[:3]
    message = f"--{clip(name)} is ambiguous: sbatch has {len(several)} options that start so"
    hint = f"write the full name: {', '.join(f'--{each}' for each in shortest)}"
    hint += ", …" if len(several) > len(shortest) else ""
    return Diagnostic("J329", message, _locate_option(line, label, name), hint)


def _locate_option(line: Comment, label: str, name: str) -> Place:
    col = line.text.find(f"--{name}") + 1
    return Place(label, line.number, col, col + 2 + len(name))


def _problem(
    code: str, message: str, line: Comment, label: str, hint: str, severity: Severity = "warning"
) -> Diagnostic:
    start = len(line.text) - len(line.text.lstrip())
    place = Place(label, line.number, start + 1, len(line.text.rstrip()) + 1)
    return Diagnostic(code, message, place, hint, severity)


_RULES: tuple[Callable[[Comment, str], Diagnostic | None], ...] = (
    _late,
    _almost,
    _literal,
    _unknown,
)


def _variables(
    text: str, label: str, lines: list[Comment], cluster: ClusterProfile | None
) -> Iterator[Diagnostic]:
    exports = (*_list_passed(lines), *list_exports(read_started(text)))
    found = [export for export in exports if is_judged(export.name)][:MOST]
    if not found:
        return
    from jobgen.fabric.variables import Context, judge, profile_context

    nodes = _count_nodes(lines)
    others = {one.name: one.value for one in found}
    context = Context(nodes=nodes, fabric=profile_context.guess_network(others))
    if cluster is not None:
        context = profile_context.build_context(cluster, nodes=nodes)
    context = context._replace(kind="script", setup=True, others=others)
    for one in found:
        before = text[: one.start]
        number, col = before.count("\n") + 1, one.start - before.rfind("\n")
        place = Place(label, number, col, col + one.end - one.start)
        for said in judge(one.name, one.value, context):
            message, hint = clip(said.message, 400), clip(said.hint, 400)
            yield Diagnostic(said.code, message, place, hint, said.severity)


def _list_passed(lines: list[Comment]) -> Iterator[Export]:
    """The variables of ``#SBATCH --export=ALL,A=1``; of several such lines the last holds."""
    passing = [line for line in lines if any(w.startswith("--export") for w in line.words)]
    for line in passing[-1:]:
        start = line.start + line.text.find("--export")
        words = [ShellWord(word, start, start + len(word)) for word in line.words]
        yield from read_runner_options(words)
