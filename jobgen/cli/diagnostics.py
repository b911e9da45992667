"""Problems as people read them: where, what, the line with a caret, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobgen.cli.layout import clip, fold, measure
from jobgen.cli.output import Ink, defuse
from jobgen.data.secret_rules import mask_tokens
from jobgen.errors import Diagnostic, Place
from jobgen.wording import count, join_words

PLAIN = "J000"
"""The code of problems that ``explain`` has nothing to say about."""
LEAK = "J150"
"""The code of a secret in a file; its line is not shown whole."""
_SHOWN_TAB = "    "


def screen(problems: Sequence[Diagnostic], texts: Mapping[str, str], ink: Ink) -> str:
    """All problems, each with its line from ``texts`` (label → text), and how many they are."""
    texts = mask_secrets(problems, texts)
    parts = [format_problem(problem, texts, ink) for problem in problems]
    placed = [p for p in problems if p.place is not None]
    if placed:
        parts.append(summarize(problems, ink))
    return "\n".join(parts)


def mask_secrets(problems: Iterable[Diagnostic], texts: Mapping[str, str]) -> Mapping[str, str]:
    """The texts without the rest of each line that holds a secret."""
    shown = dict(texts)
    for place in (p.place for p in problems if p.code == LEAK):
        if place is not None and place.line and place.file in shown:
            lines = shown[place.file].split("\n")
            lines[place.line - 1] = lines[place.line - 1][: place.end_col or place.col] + " ***"
            shown[place.file] = "\n".join(lines)
    return shown


def format_problem(problem: Diagnostic, texts: Mapping[str, str], ink: Ink) -> str:
    """One problem on as many lines as it takes, with a newline at its end."""
    code = "" if problem.code == PLAIN else f"[{problem.code}]"
    place = f"{defuse(mask_tokens(str(problem.place)))}: " if problem.place else ""
    label = ink(problem.severity, f"{problem.severity}{code}:")
    first, *more = mask_tokens(problem.message).strip("\n").split("\n")
    text = defuse(first)
    if not place:  # with a place it stays on one line, which other programs look for
        text = fold(text, ink.width - measure(f"{problem.severity}{code}: "), "  ")
    shown = "\n".join(ink("strong", line) for line in text.split("\n"))
    lines = [f"{ink('strong', place)}{label} {shown}"]
    # what another program said, line by line: behind a bar, so that it cannot pass for ours
    lines += [f"  | {defuse(line)}" for line in more]
    excerpt = _excerpt(problem, texts, ink) if problem.place else []
    lines += excerpt
    if problem.hint and not excerpt:
        lines += _below("help", mask_tokens(problem.hint), ink)
    for place_too in problem.also:
        line = _line(place_too, texts)
        lines += _below("also", f"{place_too}: {line.strip()}" if line else str(place_too), ink)
    return "".join(line + "\n" for line in lines)


def summarize(problems: Sequence[Diagnostic], ink: Ink) -> str:
    """``Found 2 errors in 1 file. More: jobgen explain J131``."""
    kinds = [
        (word, sum(p.severity == word for p in problems)) for word in ("error", "warning", "note")
    ]
    found = join_words([count(number, word) for word, number in kinds if number], "and")
    places = {p.place for p in problems if p.place}
    files = len({place.file for place in places if place.kind == "file"})
    where = [count(files, "file")] if files else []
    where += sorted({place.file.split(" ")[0] for place in places if place.kind == "option"})
    known = sorted((p for p in problems if p.code != PLAIN), key=lambda p: p.severity != "error")
    more = f" More: jobgen explain {known[0].code}" if known else ""
    total = f"Found {found} in {join_words(where or ['0 files'], 'and')}."
    return f"{ink('strong', total)}{more}\n"


def _excerpt(problem: Diagnostic, texts: Mapping[str, str], ink: Ink) -> list[str]:
    """The line, a caret under its columns, and the hint beside the caret where it fits."""
    place = problem.place
    text = _line(place, texts) if place else None
    if place is None or text is None:
        return []
    text = mask_tokens(text)
    gutter = " " * len(str(place.line))
    room = max(ink.width - len(gutter) - 3, 30)
    shown, start, length = _windowed(text, place, room)
    bar = ink("faint", f"{gutter} |")
    caret = ink(problem.severity, "^" * length)
    lines = [bar, f"{ink('faint', f'{place.line} |')} {shown}".rstrip()]
    hint = defuse(problem.hint)
    if start + length + 1 + measure(hint) <= room:
        return [*lines, f"{bar} {' ' * start}{caret} {hint}".rstrip()]
    return [*lines, f"{bar} {' ' * start}{caret}", *_below("help", hint, ink, gutter)]


def _below(word: str, text: str, ink: Ink, gutter: str = " ") -> list[str]:
    head = f"{gutter} = {word}: "
    return [ink("faint", head) + fold(defuse(text), ink.width - len(head), " " * len(head))]


def _line(place: Place, texts: Mapping[str, str]) -> str | None:
    """The text of the line, where it is known."""
    lines = texts.get(place.file, "").split("\n") if place.line else []
    return lines[place.line - 1].rstrip("\r") if 0 < place.line <= len(lines) else None


def _windowed(text: str, place: Place, room: int) -> tuple[str, int, int]:
    """As much of the line as fits round the columns, and where the caret starts, how long it is.

    A tab becomes blanks and a control character its number, so columns are counted anew. Without
    columns the caret is under the first word.
    """
    indent = len(text) - len(text.lstrip())
    at = min(place.col - 1 if place.col else indent, len(text))
    end = place.end_col - 1 if place.end_col > place.col else at + 1
    first = max(at - room // 2, 0) if len(text) > room else 0
    before, under = _cells(text[first:at]), _cells(text[at : min(max(end, at + 1), len(text))])
    after = _cells(text[at + len(text[at:end]) : first + 2 * room])
    mark = "…" if first else ""
    shown = mark + before + under + after
    shown = clip(shown, room)
    start = measure(mark + before)
    return shown, start, max(min(measure(under), room - start), 1)


def _cells(text: str) -> str:
    return "".join(_SHOWN_TAB if c == "\t" else defuse(c) for c in text)


def dump_problem(problem: Diagnostic) -> dict[str, Any]:
    """One problem as plain data."""
    place = problem.place or Place("")
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": mask_tokens(problem.message),
        "file": mask_tokens(place.file) or None,
        "line": place.line,
        "col": place.col,
        "end_col": place.end_col,
        "hint": mask_tokens(problem.hint),
        "also": [{"file": p.file, "line": p.line, "col": p.col} for p in problem.also],
    }


_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def format_github(problems: Iterable[Diagnostic]) -> str:
    """The problems as workflow commands, which GitHub shows beside the lines."""
    return "".join(_annotation(problem) for problem in problems)


def _annotation(problem: Diagnostic) -> str:
    place = problem.place or Place("")
    facts = {"file": place.file, "line": place.line, "col": place.col, "endColumn": place.end_col}
    facts["title"] = "" if problem.code == PLAIN else problem.code
    words = ",".join(f"{k}={_escaped(str(v), ':,')}" for k, v in facts.items() if v)
    text = _escaped("\n".join(t for t in (problem.message, problem.hint) if t))
    return f"::{_LEVELS[problem.severity]} {words}::{text}\n"


def _escaped(text: str, also: str = "") -> str:
    """A workflow command ends at its line, so what could end it is written as a number."""
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + also else defuse(c) for c in text)
