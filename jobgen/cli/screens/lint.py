"""The answer of ``lint``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.app.plan_problems import choose_error
from jobgen.cli import diagnostics
from jobgen.cli.output import Ink, defuse
from jobgen.errors import Diagnostic, Exit, Place
from jobgen.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobgen.app.linting import LintedFile

    Drawing = Callable[[Sequence[LintedFile], Mapping[str, str], Ink], str]


def screen(files: Sequence[LintedFile], texts: Mapping[str, str], ink: Ink) -> str:
    """Every problem with its line, and how many there are."""
    found = _placed(files)
    if not found:
        lines = [f"{count(len(files), 'file')} checked: {ink('good', 'no problems')}\n"]
        if any(f.partial for f in files):
            lines.append("Checked without a cluster; add -c NAME for all checks of submit.\n")
        return "".join(lines)
    return diagnostics.screen(found, {**texts, **{f.label: f.text for f in files}}, ink)


def draw_passed(files: Sequence[LintedFile], texts: Mapping[str, str], ink: Ink) -> str:
    """What passed, or was not checked, before every problem."""
    lines = [f"{ink('good', '[ok]')} {defuse(text)}\n" for file in files for text in file.passed]
    return "".join([*lines, screen(files, texts, ink)])


def choose_drawing(form: str, *, verbose: bool) -> Drawing:
    """How linted files are shown."""
    if form == "github":
        return draw_github
    return draw_passed if verbose else screen


def draw_github(files: Sequence[LintedFile], _: Mapping[str, str], __: Ink) -> str:
    """Linted files as annotations of a GitHub workflow."""
    return diagnostics.format_github(_placed(files))


def data(files: Sequence[LintedFile]) -> dict[str, Any]:
    """Linted files as plain data."""
    return {
        "files": [{"file": f.label, "kind": f.kind, "valid": f.valid} for f in files],
        "diagnostics": [diagnostics.dump_problem(p) for p in _all(files)],
    }


def choose_exit(files: Sequence[LintedFile]) -> Exit:
    """3 for an error on a line of a file, 1 for another, 6 for memory alone, else 0."""
    if not all(f.valid for f in files):
        return Exit.INVALID
    kind = choose_error(_all(files))
    return kind.exit if kind else Exit.DONE


def _placed(files: Sequence[LintedFile]) -> list[Diagnostic]:
    """Every problem; one that stands on no line, with the file that has it."""
    return [p._replace(place=p.place or Place(f.label)) for f in files for p in f.problems]


def _all(files: Sequence[LintedFile]) -> list[Diagnostic]:
    return [problem for file in files for problem in file.problems]
