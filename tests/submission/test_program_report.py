"""What a program reports of itself is hostile until it is parsed."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.submission.program_report import read_report


def test_numbers_are_taken() -> None:
    told = read_report(['{"peak_allocated_bytes": 58000000000, "tokens_per_second": 7314.5}'])
    assert told == {"peak_allocated_bytes": 58000000000, "tokens_per_second": 7314.5}


def test_of_several_tasks_the_largest_counts() -> None:
    assert read_report(['{"peak": 3}', '{"peak": 5, "other": 1}', '{"peak": 4}']) == {
        "peak": 5,
        "other": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "peak: 3",
        "[1, 2]",
        '{"peak": "3"}',
        '{"peak": true}',
        '{"peak": NaN}',
        '{"peak": Infinity}',
        '{"Peak of me": 3}',
        '{"peak\\u001b[2J": 3}',
        '{"peak": 3',
        "[" * 5000,
    ],
)
def test_everything_else_is_passed_over(text: str) -> None:
    assert read_report([text]) == {}


@given(st.lists(st.text() | st.builds(json.dumps, st.dictionaries(st.text(), st.floats()))))
def test_whatever_comes_gives_finite_numbers(texts: list[str]) -> None:
    told = read_report(texts)
    assert all(key.isascii() and math.isfinite(value) for key, value in told.items())


def test_a_list_of_steps_becomes_its_median_and_its_spread() -> None:
    told = {"step_s": [1.0, 9.0, 2.0, 3.0, True, "x"], "data_s": [], "other": [1.0]}
    assert read_report([json.dumps(told)]) == {"step_s": 2.5, "step_p10_s": 1.0, "step_p90_s": 9.0}


def test_a_number_too_long_for_a_float_is_passed_over() -> None:
    long = "9" * 1000
    assert read_report([f'{{"step_s": [1, {long}], "peak": {long}}}'])["step_s"] == 1
    assert "peak" not in read_report([f'{{"peak": {long}}}'])
