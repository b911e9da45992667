"""Forms: frozen values with named keys, each with a check, a default and a description.

The mappings of job.yaml and cluster.yaml are forms. A form says everything that is wrong with a
mapping at once, each fault with its path; and it knows its JSON Schema. This is the part of
pydantic that the two files need, in one page, because importing pydantic and building its models
takes 150 ms of CPU in every command (measured with 2.14: more than all of ``render`` may take).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, overload

from jobgen.named_tuple import NamedTuple

T = TypeVar("T")
D = TypeVar("D")
F = TypeVar("F", bound="Form")

Path = tuple[str | int, ...]
_NONE = object()


class ValueDiagnostic(NamedTuple):
    """One thing wrong with a value: where below it, a code of the catalogue, what, and a hint."""

    code: str
    message: str
    hint: str = ""
    path: Path = ()
    about_key: bool = False
    """Whether the key itself is meant, not its value."""


class Refusal(ValueError):
    """A value does not pass: every fault in it."""

    def __init__(self, faults: Iterable[ValueDiagnostic]) -> None:
        self.faults = tuple(faults)
        lines = (f"{'.'.join(map(str, f.path))}: {f.message}".lstrip(": ") for f in self.faults)
        super().__init__("; ".join(lines))


def refuse(code: str, message: str, hint: str = "") -> Refusal:
    """The refusal of one value."""
    return Refusal([ValueDiagnostic(code, message, hint)])


class Check(NamedTuple, Generic[T]):
    """What a value must be: a function that gives the parsed value or raises Refusal."""

    parse: Callable[[object], T]
    schema: Mapping[str, Any] = {}
    """Its JSON Schema, of what may be written in the file."""

    def __call__(self, value: object) -> T:
        return self.parse(value)


class Key(NamedTuple):
    """A key of a form."""

    check: Check[Any]
    default: Any
    doc: str
    hidden: bool
    """Not a key of the file: it is written inside another one."""
    example: str = ""
    """What may be written, as YAML; at least for keys that are needed."""
    instead: tuple[str, ...] = ()
    """Keys that may stand in its place; its own value is empty then."""

    @property
    def needed(self) -> bool:
        """Whether the key has no default."""
        return self.default is _NONE


@overload
def key(
    check: Check[T],
    *,
    doc: str,
    hidden: bool = False,
    example: str = "",
    instead: tuple[str, ...] = (),
) -> T: ...
@overload
def key(
    check: Check[T], *, default: D, doc: str, hidden: bool = False, example: str = ""
) -> T | D: ...
def key(
    check: Check[Any],
    *,
    default: Any = _NONE,
    doc: str,
    hidden: bool = False,
    example: str = "",
    instead: tuple[str, ...] = (),
) -> Any:
    """A key with its check, its default (none: the key is needed) and its description."""
    return Key(check, default, doc, hidden, example, instead)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key,))
class Form:
    """The base of all forms. Construction checks every key, and raises Refusal with all faults."""

    keys: ClassVar[Mapping[str, Key]] = {}
    derived: ClassVar[frozenset[str]] = frozenset()
    """Needed keys that ``spread`` adds where they follow from others."""

    def __init_subclass__(cls) -> None:
        keys = {n: k for n, k in vars(cls).items() if isinstance(k, Key)}
        for name in keys:
            delattr(cls, name)
            if name.endswith("_"):  # a word of Python: the key is finally, the attribute finally_
                setattr(cls, name, property(partial(_read_value, name.rstrip("_"))))
        cls.keys = {name.rstrip("_"): k for name, k in keys.items()}

    def __init__(self, /, **values: Any) -> None:
        faults: list[ValueDiagnostic] = []
        parsed = self.__dict__
        data = self.spread(values)
        for name, one in self.keys.items():
            if name in data:
                parsed[name] = _parse(one, data[name], name, faults)
            elif one.needed and any(data.get(other) for other in one.instead):
                parsed[name] = ""
            elif one.needed:
                hint = f"add {name}: {one.example}" if one.example else one.doc
                faults.append(ValueDiagnostic("J116", "is missing", hint, (name,), about_key=True))
            else:
                parsed[name] = one.default
        unknown = (n for n in data if n not in self.keys)
        faults += [
            ValueDiagnostic("J102", "unknown key", "", (n,), about_key=True) for n in unknown
        ]
        if faults:
            raise Refusal(faults)

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The mapping with keys that mean several values taken apart; unchanged by default."""
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """The form of this mapping. Raises Refusal."""
        return cls(**data)

    def replace(self, /, **changes: Any) -> Self:
        """A copy with some keys changed, checked as at first."""
        keys = self.keys
        # a needed key in whose place another one stands is empty
        given = {n: v for n, v in self.items() if v != "" or not keys[n].instead}
        return type(self)(**{**given, **changes})

    def items(self) -> Iterator[tuple[str, Any]]:
        """Keys and values."""
        return iter(self.__dict__.items())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # it holds mappings

    def __repr__(self) -> str:
        shown = (f"{n}={v!r}" for n, v in self.__dict__.items() if v != self.keys[n].default)
        return f"{type(self).__name__}({', '.join(shown)})"


def check_form(
    kind: type[F], *, short: str = "", shortly: Mapping[str, Any] | None = None
) -> Check[F]:
    """The check for a mapping that is a form; ``short`` is the key that a lone word stands for."""

    def parse(value: object) -> F:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            if short and value is not None and not isinstance(value, (list, tuple)):
                return _shortened(kind, short, value)
            keys = ", ".join(n for n, k in kind.keys.items() if not k.hidden)
            raise refuse("J120", "expected a mapping", f"keys: {keys}")
        return kind.read(value)

    schema: dict[str, Any] = {"form": kind}
    if short:
        schema["expand"] = lambda value: {short: value}
    return Check(
        parse, {"anyOf": [dict(shortly or {"type": "string"}), schema]} if short else schema
    )


def expand_short(kind: type[Form], path: Path, value: object) -> dict[str, Any]:
    """The mapping that a value in its short form stands for at this path; empty if it has none."""
    schema: Mapping[str, Any] = {"form": kind}
    for step in path:
        schema = _find_schema(schema, step)
    expands = (each["expand"] for each in schema.get("anyOf", (schema,)) if "expand" in each)
    return next((dict(expand(value)) for expand in expands), {})


def _find_schema(schema: Mapping[str, Any], step: str | int) -> Mapping[str, Any]:
    """The schema of what stands at this key, or index, of a value; empty if nothing may."""
    name = "items" if isinstance(step, int) else "additionalProperties"
    for each in schema.get("anyOf", (schema,)):
        kind = each.get("form")
        if isinstance(kind, type) and issubclass(kind, Form) and step in kind.keys:
            return kind.keys[str(step)].check.schema
        if isinstance(each.get(name), Mapping):
            inner: Mapping[str, Any] = each[name]
            return inner
    return {}


def check_list(item: Check[T], *, alone: bool = True) -> Check[tuple[T, ...]]:
    """The check for a list; a lone value is a list of one."""

    def parse(value: object) -> tuple[T, ...]:
        if isinstance(value, Mapping) or (value is None) or (not alone and isinstance(value, str)):
            raise refuse("J120", "expected a list", "write [one, two]")
        items = value if isinstance(value, (list, tuple)) else [value]
        return tuple(v for _, v in _all(item, enumerate(items)))

    many = {"type": "array", "items": dict(item.schema)}
    return Check(parse, {"anyOf": [dict(item.schema), many]} if alone else many)


def check_table(name: Check[str], value: Check[T]) -> Check[Mapping[str, T]]:
    """The check for a mapping of names to values."""

    def parse(mapping: object) -> Mapping[str, T]:
        if not isinstance(mapping, Mapping):
            raise refuse("J120", "expected a mapping", "write NAME: value, one per line")
        faults: list[ValueDiagnostic] = []
        for key_ in mapping:
            try:
                name(key_)
            except Refusal as refusal:
                faults += [nest_fault(f, str(key_), about_key=True) for f in refusal.faults]
        try:
            found = dict(_all(value, mapping.items()))
        except Refusal as refusal:
            faults += refusal.faults
        if faults:
            raise Refusal(faults)
        return found

    return Check(parse, {"type": "object", "additionalProperties": dict(value.schema)})


def nest_fault(
    fault: ValueDiagnostic, step: str | int, *, about_key: bool = False
) -> ValueDiagnostic:
    """A fault as seen from one step above: ``step`` leads its path."""
    path = (step, *fault.path)
    return ValueDiagnostic(
        fault.code, fault.message, fault.hint, path, fault.about_key or about_key
    )


def _all(check: Check[T], items: Iterable[tuple[Any, object]]) -> Iterator[tuple[Any, T]]:
    found: list[tuple[Any, T]] = []
    faults: list[ValueDiagnostic] = []
    for step, item in items:
        try:
            found.append((step, check(item)))
        except Refusal as refusal:
            faults += [nest_fault(f, step) for f in refusal.faults]
    if faults:
        raise Refusal(faults)
    return iter(found)


def _read_value(name: str, form: Form) -> Any:
    return form.__dict__[name]


def _parse(one: Key, value: object, name: str, faults: list[ValueDiagnostic]) -> Any:
    """The parsed value; a default that is given back (as None) is right too."""
    if not one.needed and (value is one.default):
        return value
    try:
        return one.check(value)
    except Refusal as refusal:
        faults += [nest_fault(f, name) for f in refusal.faults]
        return None


def _shortened(kind: type[F], short: str, value: object) -> F:
    try:
        return kind.read({short: value})
    except Refusal as refusal:
        faults = (f for f in refusal.faults if f.path[:1] == (short,))
        raise Refusal(ValueDiagnostic(f.code, f.message, f.hint) for f in faults) from None
