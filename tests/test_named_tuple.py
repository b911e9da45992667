"""jobgen's NamedTuple is that of typing, and what starts jobgen uses no other."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Generic, TypeVar

import pytest

import jobgen
from jobgen.named_tuple import NamedTuple

T = TypeVar("T")
PACKAGE = Path(jobgen.__file__).parent


class Pair(NamedTuple, Generic[T]):
    """Two of a kind."""

    first: T
    second: T | None = None

    @property
    def both(self) -> tuple[T, T | None]:
        return (self.first, self.second)

    def __len__(self) -> int:
        return 1 if self.second is None else super().__len__()


def test_it_is_a_tuple_with_names_and_defaults() -> None:
    pair = Pair("a")
    assert pair == ("a", None)
    assert pair._replace(second="b").both == ("a", "b")
    assert (Pair._fields, Pair._field_defaults) == (("first", "second"), {"second": None})
    assert repr(pair) == "Pair(first='a', second=None)"
    assert (Pair.__doc__, Pair.__module__) == ("Two of a kind.", __name__)


def test_it_may_be_generic_and_call_the_methods_it_replaces() -> None:
    assert Pair[int](1, 2) == (1, 2)
    assert (len(Pair(1)), len(Pair(1, 2))) == (1, 2)


def test_it_holds_nothing_else() -> None:
    assert not hasattr(Pair(1), "__dict__")
    with pytest.raises(AttributeError):
        Pair(1).third = 3  # type: ignore[attr-defined]


def test_it_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(Pair("a", "b")))  # noqa: S301
    assert (type(again), again) == (Pair, ("a", "b"))


def test_no_module_that_jobgen_starts_with_uses_the_slower_one() -> None:
    slower = re.compile(r"^from typing import [^)\n]*?(?:\([^)]*)?\bNamedTuple\b", re.M)
    modules = [path for path in PACKAGE.rglob("*.py") if "payload" not in path.parts]
    assert [path for path in modules if slower.search(path.read_text())] == []


@pytest.mark.parametrize("made", [0, 100])
def test_a_wrong_call_is_refused_and_a_right_one_is_not(made: int) -> None:
    class Point(NamedTuple):
        x: int
        y: int = 2
        z: int = 3

    class Named(Point):
        """A subclass, made by the same constructor."""

    for at in range(made):
        assert Point(at) == (at, 2, 3)
    assert Point(1, z=4) == (1, 2, 4)
    assert Point(y=4, x=1) == Point(1, 4) == (1, 4, 3)
    assert (type(Named(1)), Named(1)) == (Named, (1, 2, 3))
    for values, named in [((), {}), ((1, 2, 3, 4), {}), ((1,), {"x": 1}), ((1,), {"w": 1})]:
        with pytest.raises(TypeError):
            Point(*values, **named)
    with pytest.raises(ValueError, match="unexpected field names"):
        Point(1)._replace(w=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Expected 3 arguments, got 2"):
        Point._make([1, 2])


def test_a_field_without_a_default_cannot_follow_one_that_has_one() -> None:
    with pytest.raises(TypeError, match="Bad: a field without a default follows"):

        class Bad(NamedTuple):
            x: int = 1
            y: int  # type: ignore[misc]
