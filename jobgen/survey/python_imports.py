"""The modules that Python files import, and which of them must be there when a program starts."""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Collection, Iterator, Mapping

from jobgen.named_tuple import NamedTuple

_FALLBACK = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_MOST_BYTES = 1 << 20


class ImportedModule(NamedTuple):
    """A top-level module, and where it is imported first."""

    name: str
    place: str
    """``train.py:3``."""
    required: bool
    """Whether the file fails without it as soon as it is imported itself."""


def parse_python(text: str) -> ast.Module | None:
    """The syntax tree of a file's text; None if Python cannot parse it. Never raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's own string literals
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_imports(sources: Mapping[str, str]) -> dict[str, ImportedModule]:
    """The modules that these Python files import, by name; relative imports are left out."""
    found: dict[str, ImportedModule] = {}
    for path, text in sources.items():
        if path.endswith(".py"):
            for each in _read_file(path, text):
                old = found.get(each.name)
                if old is None or (each.required and not old.required):
                    found[each.name] = each
    return found


def select_foreign(
    modules: Mapping[str, ImportedModule], sources: Collection[str], uploaded: Collection[str]
) -> list[ImportedModule]:
    """The modules that no uploaded file provides, as Python would look for them."""
    folders = {"", "src", *(posixpath.dirname(path) for path in sources)}
    provided = set()
    for path in uploaded:
        for folder in folders:
            if not folder or path.startswith(f"{folder}/"):
                first, slash, _ = path[len(folder) :].lstrip("/").partition("/")
                provided.add(first if slash else first.partition(".")[0])
    return [module for name, module in sorted(modules.items()) if name not in provided]


def _read_file(path: str, text: str) -> list[ImportedModule]:
    tree = parse_python(text) if len(text) <= _MOST_BYTES else None
    if tree is None:
        return []
    return [
        ImportedModule(name, f"{path}:{node.lineno}", required)
        for node, required in _walk(tree.body, required=True)
        for name in _list_names(node)
    ]


def _list_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _walk(body: list[ast.stmt], *, required: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """The import statements of a block; those in functions and behind conditions may not run."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node, required
            case ast.Try() | ast.TryStar():
                needed = required and not any(map(_is_fallback, node.handlers))
                yield from _walk(node.body, required=needed)
                for handler in node.handlers:
                    yield from _walk(handler.body, required=False)
                yield from _walk([*node.orelse, *node.finalbody], required=required)
            case ast.If():
                yield from _walk_if(node, required=required)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.For() | ast.While():
                yield from _walk(node.body, required=False)
            case ast.ClassDef() | ast.With():
                yield from _walk(node.body, required=required)
            case _:
                pass


def _walk_if(node: ast.If, *, required: bool) -> Iterator[tuple[ast.stmt, bool]]:
    condition = ast.unparse(node.test)
    if condition.rpartition(".")[2] == "TYPE_CHECKING":
        yield from _walk(node.orelse, required=required)
        return
    main = condition.startswith("__name__ ==")
    yield from _walk(node.body, required=required and main)
    yield from _walk(node.orelse, required=False)


def _is_fallback(handler: ast.ExceptHandler) -> bool:
    """Whether this handler goes on without a module that is not there."""
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    raised = any(isinstance(node, ast.Raise) for node in handler.body)
    return not raised and any(ast.unparse(name).rpartition(".")[2] in _FALLBACK for name in names)
