"""``extends``: a profile's keys completed by those of another, which may extend one more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.errors import Place
from jobgen.load.tree import Path, Tree
from jobgen.source import scan

if TYPE_CHECKING:
    from jobgen.catalog import Parent


def extend_tree(tree: Tree, parent: Parent | tuple[str, str] | None) -> None:
    """Put into the tree what only its parent says. Mappings are joined, all else is replaced."""
    if "extends" not in tree.data:
        return
    if parent is None:
        name = tree.get_text("extends")
        message = f"extends: unknown profile '{name[:64]}'"
        tree.say("J177", message, ("extends",), "list profiles with: jobgen cluster ls --all")
        tree.spoiled |= {("nodes",), ("paths",), ("scheduler",), ("network",), ("gpu_type",)}
        return
    above = Tree(scan(parent[0], parent[1]))
    extend_tree(above, parent[2] if len(parent) == 3 else None)
    tree.above = {above.label: above.digest} | above.above
    tree.problems += above.problems
    tree.spoiled |= {path for path in above.spoiled if path not in above.places}
    for name in ("name", "extends"):
        above.data.pop(name, None)
    _join(tree, above, tree.data, above.data, ())


def _join(tree: Tree, above: Tree, ours: Any, theirs: Any, path: Path) -> None:
    for name, value in theirs.items():
        here = (*path, name)
        if name not in ours:
            ours[name] = value
            _adopt(tree, above, here)
        elif isinstance(ours[name], dict) and isinstance(value, dict):
            _join(tree, above, ours[name], value, here)


def _adopt(tree: Tree, above: Tree, path: Path) -> None:
    """Take over the places of all that stands at or below this path."""
    tree.overrides[path] = above.find_place(path, of_key=True) or Place(above.label)
    for ours, theirs in ((tree.places, above.places), (tree.values, above.values)):
        ours |= {p: place for p, place in theirs.items() if p[: len(path)] == path}
    tree.spoiled |= {p for p in above.spoiled if p[: len(path)] == path}
