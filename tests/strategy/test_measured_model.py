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
from jobgen.strategy.memory.memory_states import list_stages
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
    for mode in ("autocast", "16-bit")
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
    asked = ask("gpt2", **{"micro_batch": 2, "seq_len": 1024, "framework": "none", **train})
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
        ("bf16", True, ("16-bit",)),
        ("fp16", False, ("autocast", "16-bit")),
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


COST = [["product", 2, 10**12, 10**9, 10**9, 4], ["other", 0, 0, 10**9, 10**9, 100]]


def add_costs(trace: dict[str, Any], uncounted: tuple[str, ...] = ()) -> dict[str, Any]:
    """The trace with five segments: the layers, what is before them and what is after."""
    costs = {"kinds": [[COST, COST]], "order": [0] * 5, "uncounted": list(uncounted)}
    parameters = [[0, 0, 0], *[[BILLION, BILLION, 0]] * 3, [BILLION, BILLION, 0]]
    chain = {"broken": "", "sent": [[GIB, 0]] * 4 + [[0, 0]], "parameters": parameters}
    return {**trace, "costs": costs, "chain": chain, "segments": [[GIB, 2 * GIB, 2 * GIB]] * 5}


def ask_costed(*uncounted: str, **train: Any) -> Ask:
    """The question about the model whose costs are known."""
    traces = [add_costs(trace, uncounted) for trace in TRACES]
    asked = ask_measured(activation_checkpointing="full", **train)
    return asked._replace(measured=read_measured(NAME, {**REPORT, "traces": traces}))


def test_the_time_of_a_step_is_that_of_its_operations_in_samples() -> None:
    option = choose_option(ask_costed(strategy="fsdp2", seq_len=None), auto=False)
    assert option is not None
    assert option.step is not None
    assert option.step.unit == "samples"
    assert option.step.work == 2 * 16
    assert option.step.flops == 2 * 5 * 4 * 10**12
    sized = choose_option(ask_costed(strategy="fsdp2", seq_len=100), auto=False)
    assert sized is not None
    assert sized.step is not None
    assert (sized.step.unit, sized.step.work) == ("tokens", 3200)
    assert sized.step.compute == option.step.compute


def test_what_the_model_recomputes_itself_takes_time_and_is_no_work_of_it() -> None:
    asked = ask_costed(strategy="fsdp2")
    traces = [add_costs(trace) for trace in TRACES]
    for trace in traces:
        trace["costs"]["recomputed"] = 5 * 4 * 10**12
    again = asked._replace(measured=read_measured(NAME, {**REPORT, "traces": traces}))
    plain, recomputing = (choose_option(one, auto=False) for one in (asked, again))
    assert plain is not None
    assert plain.step is not None
    assert recomputing is not None
    assert recomputing.step is not None
    assert recomputing.step.seconds == plain.step.seconds
    assert recomputing.step.flops == plain.step.flops / 2


def test_operations_without_a_formula_leave_the_time_unknown() -> None:
    asked = ask_costed("aten::mkldnn_rnn_layer", strategy="fsdp2")
    advice = advise(asked, auto=False)
    assert [option.step for option in advice.options] == [None] * len(advice.options)
    assert "no step time: the FLOPs of aten::mkldnn_rnn_layer are not known" in advice.doubts


def test_stages_share_layers_and_send_what_they_return() -> None:
    asked = ask_costed(strategy="3d", pp=2, gradient_accumulation=4)
    option = choose_option(asked, auto=False)
    assert option is not None
    assert option.step is not None
    first, last = list_stages(option.setup)
    assert (first.layers, first.params, last.layers, last.params) == (2, 2e9, 1, 2e9)
    sent = [v.bytes for v in option.step.volumes if v.what == "send of activations"]
    assert sent == [4 * GIB] * 2
    doubts = advise(asked, auto=False).doubts
    assert "stages of 2, 1 layers, with torch's 1F1B schedule" in doubts


def test_frozen_parameters_are_gathered_and_neither_reduced_nor_updated() -> None:
    units = [{**unit, "trained": BILLION // 100} for unit in REPORT["units"]]
    trained = 3 * (BILLION // 100)
    report = {**REPORT, "units": units, "trained": trained, "frozen_bytes": 2 * 4 * BILLION}
    whole = ask_costed(strategy="fsdp2")
    assert whole.measured is not None
    traces = [add_costs(trace) for trace in TRACES]
    frozen = whole._replace(measured=read_measured(NAME, {**report, "traces": traces}))
    before, after = (choose_option(one, auto=False) for one in (whole, frozen))
    assert before is not None
    assert before.step is not None
    assert after is not None
    assert after.step is not None
    sizes = {part.name: part.bytes for part in after.memory.components}
    assert sizes["moments"] == trained * 8 / 16
    assert sizes["grads"] <= trained * 4 / 16
    assert sizes["params"] == pytest.approx((4 * trained + 2 * 4 * BILLION) / 16)
    steps = before.step, after.step
    sent = [{v.what: v.bytes for v in step.volumes if v.link == "network"} for step in steps]
    part = trained / 4 / BILLION
    what = "reduce-scatter of gradients"
    assert sent[1][what] == pytest.approx(sent[0][what] * part)
    assert sent[1]["all-gather of parameters"] == sent[0]["all-gather of parameters"]
    assert after.step.update == pytest.approx(before.step.update * part)
