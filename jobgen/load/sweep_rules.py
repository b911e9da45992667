"""Rules of a sweep: its variables, and the keys that it does not go with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobgen.load.tree import Path, Tree

_TABLES: tuple[Path, ...] = (("sweep", "grid"), ("sweep", "zip"), ("sweep", "random", "values"))


def find_variables(tree: Tree) -> Mapping[str, Path]:
    """The variables of a sweep, each with the path of the key that names it first."""
    found: dict[str, Path] = {}
    for path, name in _list_names(tree):
        found.setdefault(name, path)
    return found


def _list_names(tree: Tree) -> Iterator[tuple[Path, str]]:
    for table in _TABLES:
        yield from (((*table, name), name) for name in tree.get_table(*table))
    rows = tree.get("sweep", "list")
    for index in range(len(rows) if isinstance(rows, list) else 0):
        path: Path = ("sweep", "list", index)
        yield from (((*path, name), name) for name in tree.get_table(*path))


def check(tree: Tree) -> None:
    """Say which names cannot vary, and what contradicts a sweep."""
    from jobgen.load.env_rules import check_name

    if tree.get("sweep") is None:
        return
    if tree.get("array") is not None:
        message = "array and sweep exclude each other: a sweep is a job array"
        tree.contradict(message, [("array",), ("sweep",)], "keep one of the two")
    if tree.get("sweep", "pack") is not None:
        _check_packed(tree)
    for name, path in find_variables(tree).items():
        check_name(tree, path, name)
        for other in (("vars", name), ("env", name), ("nccl", "env", name)):
            if tree.get(*other) is not None:
                message = f"'{name}' is set under {'.'.join(other[:-1])} and by the sweep"
                tree.contradict(message, [other, path], "keep one of the two")


_NOT_PACKED: tuple[Path, ...] = (
    ("monitor",),
    ("before",),
    ("finally",),
    ("steps",),
    ("groups",),
    ("checkpoint", "signal"),
    ("checkpoint", "to"),
    ("checkpoint", "grace"),
    ("checkpoint", "requeue"),
    ("checkpoint", "max_requeues"),
)
"""Keys of a job whose program has its nodes for itself."""


def _check_packed(tree: Tree) -> None:
    """Say which keys have no effect in a packed sweep."""
    for path in _NOT_PACKED:
        if tree.get(*path) not in (None, False, "off"):
            message = f"{'.'.join(map(str, path))} and sweep.pack exclude each other"
            tree.contradict(message, [path, ("sweep", "pack")], "remove one of the two")
    if tree.get("preflight") not in (None, False, "off", "auto"):
        message = f"preflight: {tree.get('preflight')} and sweep.pack exclude each other"
        hint = "remove one of the two: a packed sweep has no preflight"
        tree.contradict(message, [("preflight",), ("sweep", "pack")], hint)
