"""``NamedTuple`` as in typing, made in a fifth of the time.

typing compiles the annotation of every field, a thousand of them before a job is rendered, and
collections compiles a constructor for every class. Nothing reads the former: a type checker reads
the source. The constructor is compiled only for a class that makes many tuples: most make a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from operator import itemgetter

    _FEW = 20
    """So many tuples take less time without a compiled constructor than its compilation."""

    try:
        from _collections import _tuplegetter as get_item
    except ImportError:

        def get_item(index, doc):
            """The property of a field."""
            return property(itemgetter(index), doc=doc)

    class _Fields(tuple):
        """What all named tuples can do, as collections.namedtuple documents it."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if tuple.__len__(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {tuple.__len__(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, tuple(self)))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, tuple(self), strict=True))

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({fields})"

        def __getnewargs__(self):
            return tuple(self)

    def _compile_new(name, fields, defaults):
        """The constructor of a class, with its fields as parameters."""
        words = ", ".join(fields)
        known = {"make": tuple.__new__, "__builtins__": {}, "__name__": f"namedtuple_{name}"}
        new = eval(f"lambda cls, {words}: make(cls, ({words},))", known)  # noqa: S307
        new.__name__ = "__new__"
        new.__qualname__ = f"{name}.__new__"
        new.__defaults__ = tuple(defaults.values())
        return new

    def _fill(fields, defaults, values, named):
        """The values of all fields in their order; None for a call that does not fit them."""
        rest, known = fields[len(values) :], {**defaults, **named}
        if len(values) > len(fields) or not named.keys() <= set(rest) <= known.keys():
            return None
        return (*values, *(known[field] for field in rest))

    def _delay_new(name, fields, defaults):
        """A constructor that is compiled when it is worth it, or to explain a wrong call."""
        left = _FEW

        def __new__(cls, /, *values, **named):  # noqa: N807
            nonlocal left
            left -= 1
            filled = _fill(fields, defaults, values, named) if left > 0 else None
            if filled is not None:
                return tuple.__new__(cls, filled)
            new = _compile_new(name, fields, defaults)
            for owner in cls.__mro__:
                if owner.__dict__.get("__new__") is delayed:
                    owner.__new__ = staticmethod(new)
            return new(cls, *values, **named)

        delayed = staticmethod(__new__)
        return delayed

    class _Maker(type):
        """Turns the body of a class into a tuple with these fields, and its methods."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one that has a default")
            others = tuple(other for other in bases if other is not NamedTuple)
            made = {
                "__slots__": (),
                "__match_args__": fields,
                "__new__": _delay_new(name, fields, defaults),
                "_fields": fields,
                "_field_defaults": defaults,
                **{field: get_item(at, field) for at, field in enumerate(fields)},
                **body,
            }
            return type(name, (_Fields, *others), made)

    class NamedTuple(metaclass=_Maker):
        """A tuple whose items have names, types and defaults."""
