"""A measured model in the planner: its report, what is tried of it, and what would help."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.choice.advise import advise, choose_option
from jobgen.strategy.choice.ladder import list_rungs
from jobgen.strategy.choice.levers import find_help
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.estimate import GIB
from jobgen.strategy.measured_model import build_measured, choose_modes, read_measured
from tests.strategy.choice.asked import ask

NAME = "train.py:build_model"
BILLION = 1_000_000_000
TRACES = [
    {
        "mode": mode,
        "recompute": recompute,
        "kept": kept,
        "forward": kept + GIB,
        "points": [[1.0, 0, GIB], [0.1, kept, GIB]],
        "after": 1000,
    }
    for mode in ("autocast", "narrow")
    for recompute, kept in (("none", 60 * GIB), ("full", 4 * GIB))
]
REPORT: dict[str, Any] = {
    "params": 4 * BILLION,
    "trained": 4 * BILLION,
    "width": 4,
    "buffers": 0,
    "units": [{"name": f"blocks.{i}", "type": "Block", "params": BILLION} for i in range(3)],
    "micro": 2,
    "traces": TRACES,
    "torch": "2.13.0",
}


def ask_measured(**train: Any) -> Ask:
    """The question about that model on two nodes."""
    measured = read_measured(NAME, REPORT)
    asked = ask("gpt2", **{"micro_batch": 2, "framework": "none", **train})
    written = asked.train.replace(model=NAME, batch="train.py:example_batch")
    return asked._replace(train=written, model=build_measured(measured), measured=measured)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("params", -1),
        ("params", True),
        ("params", 1 << 61),
        ("units", {"name": "x"}),
        ("units", [5]),
        ("traces", [{**TRACES[0], "points": [[1.5, 0, 0]]}]),
        ("traces", [{**TRACES[0], "points": [[0.5, 0]]}]),
        ("sharded", 5),
        ("micro", "2"),
    ],
)
def test_a_report_that_is_none_is_refused(key: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_measured(NAME, {**REPORT, key: value})


def test_units_are_layers_and_the_rest_is_the_root() -> None:
    model = build_measured(read_measured(NAME, REPORT))
    assert (model.count, model.outside, model.largest) == (4 * BILLION, BILLION, BILLION)


@pytest.mark.parametrize(
    ("precision", "pure", "modes"),
    [
        ("fp32", False, ("fp32",)),
        ("fp32", True, ("fp32",)),
        ("bf16", True, ("narrow",)),
        ("fp16", False, ("autocast", "narrow")),
    ],
)
def test_a_precision_needs_these_steps(precision: str, pure: bool, modes: tuple[str, ...]) -> None:
    assert choose_modes(precision, pure=pure) == modes


def test_only_what_was_measured_is_tried() -> None:
    trains = [rung.train for rung in list_rungs(ask_measured())]
    assert {(train.tp, train.pp) for train in trains} == {(1, 1)}
    assert {train.activation_checkpointing for train in trains} == {"none", "full"}


def test_the_simplest_that_fits_is_found_without_a_time() -> None:
    advice = advise(ask_measured(), auto=True)
    assert advice.chosen is not None
    assert advice.chosen.name == "zero1+full"
    assert [option.step for option in advice.options] == [None] * len(advice.options)
    assert advice.doubts[0].startswith(f"{NAME} measured with 2 samples")


def test_what_helps_is_a_measured_change() -> None:
    asked = ask_measured()
    start = choose_option(asked, auto=False)
    assert start is not None
    assert start.verdict == "no"
    found = find_help(start, asked)
    changes = [change for lever in found.levers for change in lever.changes]
    assert "train.loss: fused" not in changes
    assert "train.activation_checkpointing: selective" not in changes
    assert "train.micro_batch: 1" in changes
    assert {lever.slower for lever in found.levers} == {0.0}


def test_autocast_stands_for_steps_in_16_bits_that_fail() -> None:
    under = [trace for trace in TRACES if trace["mode"] == "autocast"]
    measured = read_measured(NAME, {**REPORT, "traces": under, "unmeasured": "dtype"})
    asked = ask_measured(strategy="fsdp2")._replace(measured=measured)
    option = choose_option(asked, auto=False)
    assert option is not None
    assert any("not measured in 16 bits" in doubt for doubt in advise(asked, auto=False).doubts)


def test_half_a_micro_batch_keeps_half() -> None:
    asked = ask_measured()
    halved = asked._replace(train=asked.train.replace(micro_batch=1))
    whole, half = (choose_option(one, auto=False) for one in (asked, halved))
    assert whole is not None
    assert half is not None
    kept = [
        next(c.bytes for c in one.memory.components if c.name == "activations")
        for one in (whole, half)
    ]
    assert kept[0] == 2 * kept[1] == 60 * GIB
