"""``extends``: a profile's keys completed by those of another, which may extend one more."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jobgen.errors import Place
from jobgen.load.tree import Path, Tree
from jobgen.source import scan

if TYPE_CHECKING:
    from jobgen.catalog import Parent


# many profiles of a site extend the same few
_scan = lru_cache(maxsize=8)(scan)


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
    above = Tree(_scan(parent[0], parent[1]))
    extend_tree(above, parent[2] if len(parent) == 3 else None)
    tree.above = {above.label: above.digest} | above.above
    tree.problems += above.problems
    tree.spoiled |= {path for path in above.spoiled if path not in above.places}
    for name in ("name", "extends"):
        above.data.pop(name, None)
    adopted = frozenset(_join(tree.data, above.data, ()))
    for path in adopted:
        tree.overrides[path] = above.find_place(path, of_key=True) or Place(above.label)
    for ours, theirs in ((tree.places, above.places), (tree.values, above.values)):
        ours |= {path: place for path, place in theirs.items() if _is_below(path, adopted)}
    tree.spoiled |= {path for path in above.spoiled if _is_below(path, adopted)}


def _join(ours: Any, theirs: Any, path: Path) -> Iterator[Path]:
    """Complete our mappings with theirs; the paths of what was added."""
    for name, value in theirs.items():
        here = (*path, name)
        if name not in ours:
            ours[name] = value
            yield here
        elif isinstance(ours[name], dict) and isinstance(value, dict):
            yield from _join(ours[name], value, here)


def _is_below(path: Path, parents: Container[Path]) -> bool:
    """Whether a path is one of these, or below one."""
    return any(path[:length] in parents for length in range(1, len(path) + 1))
