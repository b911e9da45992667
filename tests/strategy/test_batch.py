"""Batches: what is left out follows from the rest, and what is said comes out exactly."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.train import Train
from jobgen.strategy.batch import check_batch, compute_batch
from jobgen.strategy.spec import Batch

RANKS = 4


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, None),
        ({"micro_batch": 2}, Batch(2, 1, RANKS)),
        ({"gradient_accumulation": 3}, Batch(1, 3, RANKS)),
        ({"global_batch": 16}, Batch(4, 1, RANKS)),
        ({"global_batch": 16, "micro_batch": 2}, Batch(2, 2, RANKS)),
        ({"global_batch": 16, "gradient_accumulation": 2}, Batch(2, 2, RANKS)),
        (
            {"global_batch": 24, "micro_batch": 2, "gradient_accumulation": 3},
            Batch(2, 3, RANKS),
        ),
    ],
)
def test_what_is_left_out_follows(keys: dict[str, Any], wanted: Batch | None) -> None:
    train = Train(**keys)
    assert compute_batch(train, RANKS) == wanted
    assert list(check_batch(train, RANKS)) == []


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({"global_batch": 3}, "set global_batch: 4"),
        ({"global_batch": 18}, "set global_batch: 16 or 20"),
        ({"global_batch": 18, "micro_batch": 2}, "set global_batch: 16 or 24"),
        ({"global_batch": 3, "gradient_accumulation": 2}, "set global_batch: 8"),
        (
            {"global_batch": 16, "micro_batch": 2, "gradient_accumulation": 3},
            "set gradient_accumulation: 2, or global_batch: 24",
        ),
        (
            {"global_batch": 17, "micro_batch": 2, "gradient_accumulation": 3},
            "set global_batch: 24",
        ),
        (
            {"global_batch": 12, "micro_batch": 2, "gradient_accumulation": 3},
            "set micro_batch: 1, or global_batch: 24",
        ),
    ],
)
def test_what_does_not_come_out_even_is_refused(keys: dict[str, Any], hint: str) -> None:
    (fault,) = check_batch(Train(**keys), RANKS)
    assert (fault.code, fault.path, fault.hint) == ("J230", ("global_batch",), hint)
    assert "data-parallel ranks" in fault.message
