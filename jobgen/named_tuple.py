"""``NamedTuple`` as in typing, made in half of the time.

typing compiles the annotation of every field, a thousand of them before a job is rendered. Nothing
reads the compiled form: a type checker reads the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        """Turns the body of a class into a tuple with these fields, and its methods."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = [body.pop(field) for field in fields if field in body]
            base = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024
            others = tuple(other for other in bases if other is not NamedTuple)
            return type(name, (base, *others), {"__slots__": (), **body})

    class NamedTuple(metaclass=_Maker):
        """A tuple whose items have names, types and defaults."""
