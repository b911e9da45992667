"""Nothing is decided by what a sentence of ours says: a kind is a field, an enum or a type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jobgen

PACKAGE = Path(jobgen.__file__).parent
FOREIGN = ("payload/", "scheduler/", "shell/", "source/", "survey/", "transport/")
FOREIGN += ("app/answers", "submission/replies")
"""What reads the texts of other programs, which have no kinds."""
SENTENCE = re.compile(r"[A-Za-z']+ [A-Za-z']+")


def sentences(node: ast.AST) -> list[str]:
    """The sentences that stand in a literal, or in a tuple or set of them."""
    found = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return [text for text in found if isinstance(text, str) and SENTENCE.search(text)]


def decisions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and sentence of each comparison with a sentence."""
    for node in ast.walk(tree):
        compared: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            compared = node.args if node.func.attr in ("startswith", "endswith") else []
        elif isinstance(node, ast.match_case):
            compared = [v for v in ast.walk(node.pattern) if isinstance(v, ast.expr)]
        for text in (text for part in compared for text in sentences(part)):
            yield node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno, text


def test_a_sentence_that_decides_is_seen() -> None:
    source = 'if why.startswith("not a word") or text in {"one two"} or code == "J131": pass'
    assert {text for _, text in decisions(ast.parse(source))} == {"one two", "not a word"}


def test_no_sentence_decides() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith(FOREIGN):
            tree = ast.parse(path.read_text())
            found |= {f"{name}:{line}": text for line, text in decisions(tree)}
    assert found == {}
