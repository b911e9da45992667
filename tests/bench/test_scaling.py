"""The same program on more nodes: efficiency, and what holds it back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.bench.scaling import ScalingRun, compute_scaling


def run(nodes: int, step: float = 1.0, **more: float) -> ScalingRun:
    """A run of two ranks on each node, in which every rank does 4 samples in a step."""
    told = {"step_s": step, "samples_per_step": 8.0 * nodes, "data_s": 0.0, "comm_s": 0.0}
    throttled = more.pop("throttled", 0.0)
    report = {key: value for key, value in {**told, **more}.items() if value >= 0}
    return ScalingRun(nodes, 2 * nodes, f"train-{nodes}", "COMPLETED", report, throttled)


def test_the_ideal_is_the_smallest_multiplied() -> None:
    found = compute_scaling([run(4, 1.25), run(1), run(2)])
    assert (found.unit, found.kind) == ("samples", "weak")
    assert [row.run.nodes for row in found.rows] == [1, 2, 4]
    assert [row.rate for row in found.rows] == [8, 16, 25.6]
    assert [row.ideal for row in found.rows] == [8, 16, 32]
    assert [row.efficiency for row in found.rows] == [1, 1, 0.8]


def test_within_a_node_the_ideal_grows_with_the_ranks() -> None:
    runs = [run(1)._replace(ranks=ranks) for ranks in (2, 1, 4)]
    runs = [one._replace(report={"samples_per_second": 10.0}) for one in runs]
    found = compute_scaling(runs)
    assert found.within
    assert [row.ideal for row in found.rows] == [10, 20, 40]
    assert [row.efficiency for row in found.rows] == [1, 0.5, 0.25]
    assert not compute_scaling([run(1), run(2)]).within


@pytest.mark.parametrize(
    ("two", "cause", "words"),
    [
        (run(2, 1.0), "none", ""),
        (run(2, 1.6, data_s=0.5), "data", "31% of each step is spent waiting for data"),
        (run(2, 1.6, comm_s=0.6), "communication", "37% of each step is exposed"),
        (
            run(2, 2.0, comm_s=0.3, data_s=0.7),
            "data",
            "35% of each step is spent waiting for data; 1",
        ),
        (run(2, 2.0), "other", "50% of each step is extra compute time"),
        (run(2, 1.06, samples_per_second=12.0), "other", "a few slow steps"),
        (run(2, 2.0, throttled=0.8), "throttling", "80% of the time GPU clocks"),
        (run(2, 1.6, comm_s=-1), "unknown", "does not report comm_s"),
        (run(2, 1.02, comm_s=-1, data_s=-1), "none", ""),
    ],
)
def test_what_holds_it_back(two: ScalingRun, cause: str, words: str) -> None:
    row = compute_scaling([run(1), two]).rows[1]
    assert row.cause == cause, row
    assert words in row.text
    assert bool(row.text) == bool(row.next) == (cause != "none")


def test_a_slow_loader_is_named_at_the_first_size_too() -> None:
    assert compute_scaling([run(1, data_s=0.4)]).rows[0].cause == "data"


def test_strong_scaling_is_recognised() -> None:
    one, two = run(1), run(2, 0.5)
    two = two._replace(report={**two.report, "samples_per_step": 8.0})
    found = compute_scaling([one, two])
    assert found.kind == "strong"
    assert found.rows[1].efficiency == 1
    assert found.rows[1].cause == "none"


def test_tokens_come_before_samples_and_the_spread_is_of_the_steps() -> None:
    told = {"tokens_per_second": 1000.0, "step_s": 1.0, "step_p10_s": 0.8, "step_p90_s": 1.25}
    found = compute_scaling([ScalingRun(1, 8, "a-1", "COMPLETED", told)])
    (row,) = found.rows
    assert found.unit == "tokens"
    assert (row.low, row.rate, row.high) == (800, 1000, 1250)


def test_a_run_that_told_nothing_says_how_to_tell() -> None:
    died = ScalingRun(2, 4, "a-2", "FAILED", {})
    found = compute_scaling([run(1), died])
    assert "FAILED" in found.rows[1].text
    assert "JOBGEN_REPORT_FILE" in found.rows[1].next
    silent = compute_scaling([ScalingRun(1, 2, "a-1", "COMPLETED", {})])
    assert silent.unit == ""
    assert "the program reported nothing" in silent.rows[0].text


NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)
KEYS = ["step_s", "step_p10_s", "step_p90_s", "data_s", "comm_s", "samples_per_step"]
KEYS += ["tokens_per_second", "samples_per_second", "tokens_per_step"]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 64),
            st.dictionaries(st.sampled_from(KEYS), NUMBERS),
            st.sampled_from(["COMPLETED", "FAILED"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_reports_give_rows(sizes: list[tuple[int, dict[str, Any], str]]) -> None:
    runs = [ScalingRun(nodes, 2 * nodes, f"a-{nodes}", state, told) for nodes, told, state in sizes]
    found = compute_scaling(runs)
    assert len(found.rows) == len(runs)
    for row in found.rows:
        assert row.efficiency >= 0
        assert row.low <= row.rate <= row.high
