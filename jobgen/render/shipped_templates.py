"""jobgen's own templates → text, without Jinja: its import and compiler took a fifth of a render.

They hold names, ``if``, ``for``, ``with`` and ``include``, no more; tests compare each with what
Jinja reads and writes. Templates of the user are laid out by Jinja alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from jobgen.named_tuple import NamedTuple
from jobgen.shell import quote

_TAG = re.compile(r"\{(?:% (.+?) (?:\+%\}|%\}\n?)|\{ (\S+) \}\})")
"""A statement, with the newline behind it, or a value."""


class _Value(NamedTuple):
    path: str


class _If(NamedTuple):
    path: str
    body: Sequence[_Node]
    otherwise: Sequence[_Node]


class _For(NamedTuple):
    name: str
    path: str
    body: Sequence[_Node]


class _With(NamedTuple):
    name: str
    path: str
    body: Sequence[_Node]


class _Include(NamedTuple):
    template: str


_Statement = _If | _For | _With | _Include
_Node = str | _Value | _Statement
_Scope = Mapping[str, object]


def fill_shipped(
    templates: Mapping[str, str], names: Sequence[str], view: _Scope
) -> Mapping[str, str]:
    """The text of each of these files, of the shipped templates. Raises KeyError, ValueError."""
    return {
        name: "".join(_write(templates, parse_template(templates[f"{name}.j2"]), view))
        for name in names
    }


def _write(templates: Mapping[str, str], nodes: Sequence[_Node], scope: _Scope) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, _Value):
            yield _format(_look_up(scope, node.path))
        else:
            for body, inner in _choose(templates, node, scope):
                yield from _write(templates, body, inner)


def _choose(
    templates: Mapping[str, str], node: _Statement, scope: _Scope
) -> Iterator[tuple[Sequence[_Node], _Scope]]:
    """The nodes that a statement writes, each time with the names that they see."""
    match node:
        case _If(path, body, otherwise):
            yield (body if _look_up(scope, path) else otherwise), scope
        case _For(name, path, body):
            for item in _list_items(_look_up(scope, path)):
                yield body, {**scope, name: item}
        case _With(name, path, body):
            yield body, {**scope, name: _look_up(scope, path)}
        case _Include(template):
            yield parse_template(templates[template]), scope


def _look_up(scope: _Scope, path: str) -> object:
    name, *parts = path.split(".")
    value = scope[name]
    for part in parts:
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


def _list_items(value: object) -> Sequence[object]:
    if isinstance(value, (list, tuple)):
        return value
    raise ValueError(f"{type(value).__name__} is no list")


def _format(value: object) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return str(value)
    raise ValueError(f"{type(value).__name__} is not text")


@cache
def parse_template(text: str) -> Sequence[_Node]:
    """The parts of a template. Raises ValueError for a statement that shipped templates lack."""
    nodes, end = _parse(_split(text))
    _expect("", end)
    return nodes


def _split(text: str) -> Iterator[tuple[str, str, str]]:
    """Text, and the statement or the value behind it; the rest of the text at last."""
    at = 0
    for tag in _TAG.finditer(text):
        before = text[at : tag.start()]
        if tag[1]:
            lines, newline, indentation = before.rpartition("\n")
            begins_line = newline or at == 0 or text[at - 1] == "\n"
            if begins_line and not indentation.strip(" \t"):
                before = lines + newline
        yield before, tag[1], tag[2]
        at = tag.end()
    yield text[at:], "", ""


def _parse(parts: Iterator[tuple[str, str, str]]) -> tuple[list[_Node], str]:
    """The nodes up to the statement that ends them, and that statement."""
    nodes: list[_Node] = []
    for text, statement, value in parts:
        if text:
            nodes.append(text)
        if value:
            nodes.append(_Value(value))
        elif statement in ("else", "endif", "endfor", "endwith") or statement[:5] == "elif ":
            return nodes, statement
        elif statement:
            nodes.append(_parse_statement(statement, parts))
    return nodes, ""


def _parse_statement(statement: str, parts: Iterator[tuple[str, str, str]]) -> _Node:
    match statement.split():
        case ["if", path]:
            return _parse_if(path, parts)
        case ["for", name, "in", path]:
            return _For(name, path, _parse_block("endfor", parts))
        case ["with", name, "=", path]:
            return _With(name, path, _parse_block("endwith", parts))
        case ["include", template]:
            return _Include(template.strip('"'))
    raise ValueError(f"{statement}: no statement of a shipped template")


def _parse_if(path: str, parts: Iterator[tuple[str, str, str]]) -> _If:
    body, end = _parse(parts)
    otherwise: list[_Node] = []
    if end.startswith("elif "):
        # it ends with the same endif
        return _If(path, body, [_parse_if(end.removeprefix("elif "), parts)])
    if end == "else":
        otherwise, end = _parse(parts)
    _expect("endif", end)
    return _If(path, body, otherwise)


def _parse_block(closing: str, parts: Iterator[tuple[str, str, str]]) -> list[_Node]:
    nodes, end = _parse(parts)
    _expect(closing, end)
    return nodes


def _expect(closing: str, end: str) -> None:
    if end != closing:
        raise ValueError(f"{end or 'the end of a template'} instead of {closing or 'its end'}")
