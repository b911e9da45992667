"""Plain statements: at most one conditional expression in each, in all of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jobgen

PACKAGE = Path(jobgen.__file__).parent
Statement = ast.stmt | ast.excepthandler | ast.match_case
"""What counts for itself: a statement, and a clause of one with a block of its own."""


def walk_expressions(node: ast.AST) -> Iterator[ast.AST]:
    """What belongs to a statement itself: not the statements that stand in its blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Statement):
            continue
        yield child
        yield from walk_expressions(child)


def find_crowded(path: str, text: str) -> list[str]:
    """Where a statement of one module has several conditional expressions: ``path:line``."""
    crowded = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Statement):
            lines = [e.lineno for e in walk_expressions(node) if isinstance(e, ast.IfExp)]
            crowded += [f"{path}:{min(lines)}"] if len(lines) > 1 else []
    return crowded


def test_a_crowded_statement_is_seen() -> None:
    nested = "a = 1 if b else 2 if c else 3\n"
    beside = "def f():\n    return ([1 if b else 2 for b in c], lambda: 3 if c else 4)\n"
    header = "if (1 if b else 2) == (3 if c else 4):\n    d = 5 if b else 6\n"
    guard = "match a:\n    case 1 if (b if c else d if e else f):\n        pass\n"
    found = [find_crowded("m.py", text) for text in (nested, beside, header, guard)]
    assert found == [["m.py:1"], ["m.py:2"], ["m.py:1"], ["m.py:2"]]


def test_statements_in_a_block_count_each_for_itself() -> None:
    block = "with a if b else c:\n    d = 1 if b else 2\n    e = 3 if b else 4\n"
    handled = "try:\n    a = 1 if b else 2\nexcept (C if d else E):\n    f = 3 if b else 4\n"
    matched = "match a if b else c:\n    case 1:\n        d = 1 if b else 2\n"
    assert not [line for text in (block, handled, matched) for line in find_crowded("m.py", text)]


def test_every_statement_has_at_most_one_conditional_expression() -> None:
    paths = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    assert not [line for path in paths for line in find_crowded(path, (PACKAGE / path).read_text())]
