"""Products of cases, of which ``make test`` runs one of each kind and ``--full`` all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def one_of_each(cases: Iterable[Case], kept: Collection[Case]) -> list[object]:
    """All cases as parameters; those that are not kept are exhaustive."""
    every = list(cases)
    unknown = [case for case in kept if case not in every]
    assert not unknown, f"no such case: {unknown}"
    return [case if case in kept else _exhaustive(case) for case in every]


def _exhaustive(case: object) -> object:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.exhaustive)
