"""One name for one thing: modules, classes and functions of the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import jobgen

PACKAGE = Path(jobgen.__file__).parent
SIBLINGS = ("cli/verbs/", "cli/screens/", "launch/", "strategy/frameworks/", "payload/")
"""Folders whose modules are named after what they serve."""
VAGUE = {
    *("found", "told", "said", "asked", "shown", "held", "look", "way", "words", "whole", "own"),
    *("mine", "one", "each", "made", "given", "taken", "these", "some", "rest", "wide", "by"),
}
"""What says nothing as the name of a public function, class or module."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def paths() -> list[str]:
    """Every module, from the package on."""
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """The classes and functions with public names, those inside others too."""
    for node in ast.walk(tree):
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def find_vague(path: str, text: str) -> list[str]:
    """The vague names of one module: its own, and those of its classes and functions."""
    names = [Path(path).stem, *(node.name for node in definitions(ast.parse(text)))]
    return [f"{path}: {name}" for name in names if name.lower() in VAGUE]


def find_shared(names: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand in several places, of pairs of a name and a place."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_a_vague_name_is_seen() -> None:
    text = "class Found:\n    def told(self): pass\ndef find(): pass\ndef _said(): pass\n"
    assert find_vague("a/words.py", text) == [
        "a/words.py: words",
        "a/words.py: Found",
        "a/words.py: told",
    ]
    assert find_shared(iter([("a", "x"), ("b", "x"), ("a", "y")])) == {"a": ["x", "y"]}


def test_no_public_name_is_vague() -> None:
    assert not [name for path in paths() for name in find_vague(path, (PACKAGE / path).read_text())]


def test_no_two_modules_share_a_name() -> None:
    own = (path for path in paths() if not path.startswith(SIBLINGS))
    names = ((Path(path).stem, path) for path in own)
    assert not find_shared((name, path) for name, path in names if not name.startswith("__"))


def test_no_two_public_classes_share_a_name() -> None:
    assert not find_shared(
        (node.name, path)
        for path in paths()
        for node in definitions(ast.parse((PACKAGE / path).read_text()))
        if isinstance(node, ast.ClassDef)
    )
