"""What follows from a summary: who idles, lags, is too hot, and what is left unsaid."""

from __future__ import annotations

import pytest

from jobgen.monitor.findings import Remark, list_remarks, summarize_job
from jobgen.monitor.summary import GpuSummary, NodeSummary, Now


def gpu(number: int, **known: object) -> GpuSummary:
    usual = {"util": 95.0, "idle": 0.0, "clock": 1755.0, "temperature": 60.0, "power": 500.0}
    return GpuSummary(number, 100, **{**usual, **known})  # type: ignore[arg-type]


def node(name: str, *gpus: GpuSummary, **known: object) -> NodeSummary:
    return NodeSummary(name, 100, 0.0, 3000.0, gpus=gpus, **known)  # type: ignore[arg-type]


def kinds(*nodes: NodeSummary) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(r.kind, r.node, r.gpus) for r in list_remarks(nodes)]


def test_a_job_that_is_well_is_left_alone() -> None:
    well = [node(name, *(gpu(n, held={"sw_power_cap": 0.9}) for n in range(8))) for name in "ab"]
    assert list_remarks(well) == ()


def test_heat_is_named_with_its_share_and_the_temperature() -> None:
    hot = gpu(
        3,
        held={"hw_thermal": 0.12, "hw_slowdown": 0.12, "sw_power_cap": 0.5},
        temperature=92.0,
    )
    assert list_remarks([node("a", gpu(0), hot)]) == (
        Remark("throttled", "a", (3,), "throttled (heat) for 12% of the time, up to 92 C"),
    )


def test_gpus_that_idle_are_named_together() -> None:
    idle = [gpu(n, util=1.0, idle=0.98, clock=None) for n in (4, 5, 6)]
    assert kinds(node("a", gpu(0), *idle)) == [("idle", "a", (4, 5, 6))]


def test_a_node_far_below_the_median_lags() -> None:
    well = [node(name, gpu(0), gpu(1)) for name in ("a", "b", "c")]
    slow = node("d", gpu(0, util=40.0), gpu(1, util=50.0))
    assert kinds(*well, slow) == [("slow", "d", ())]
    assert "45%" in list_remarks([*well, slow])[0].text


def test_a_slow_clock_is_a_straggler_even_at_full_utilisation() -> None:
    assert kinds(node("a", gpu(0), gpu(1), gpu(2)), node("b", gpu(0), gpu(1, clock=1200.0))) == [
        ("slow", "b", (1,))
    ]


def test_nobody_lags_where_all_are_slow_or_nothing_is_known() -> None:
    assert kinds(node("a", gpu(0, util=10.0)), node("b", gpu(0, util=2.0))) == []
    unknown = GpuSummary(0, 100)
    assert kinds(node("a", unknown), node("b", unknown)) == []
    assert kinds() == []


def test_a_gpu_that_stops_answering_is_lost() -> None:
    silent = gpu(1, now=Now(2400.0))
    found = list_remarks([node("a", gpu(0, now=Now(3000.0)), silent)])
    assert found == (Remark("lost", "a", (1,), "no answer in the last 10m of monitoring"),)
    assert kinds(node("a", gpu(0, now=Now(2940.0)))) == []


def test_two_samples_tell_nothing() -> None:
    early = gpu(0, util=0.0, idle=1.0, clock=300.0)._replace(samples=2)
    assert kinds(node("a", early)._replace(samples=2), node("b", gpu(0))) == []


def test_a_host_that_nearly_ran_out_of_memory_is_named() -> None:
    assert kinds(node("a", memory=97.0, memory_total=100.0)) == [("memory", "a", ())]


def test_the_whole_job_in_a_few_numbers() -> None:
    hot = gpu(1, util=85.0, held={"hw_thermal": 0.2, "sw_power_cap": 0.4, "idle": 0.3})
    found = summarize_job(
        [
            node(
                "a",
                gpu(0, held={"sw_power_cap": 0.8}),
                hot,
                cpu=20.0,
                received=10.0,
                sent=20.0,
            ),
            node("b", cpu=40.0, received=0.0, sent=0.0, rdma_received=30.0, rdma_sent=40.0),
        ]
    )
    assert (found.seconds, found.gpus, found.util, found.cpu) == (3000, 2, 90.0, 30.0)
    assert (found.network, found.throttled) == (50.0, 0.2)
    assert found.held == {
        "hw_thermal": pytest.approx(0.1),
        "sw_power_cap": pytest.approx(0.6),
    }


def test_what_was_not_measured_is_not_said() -> None:
    found = summarize_job([node("a", GpuSummary(0, 100)), node("b")])
    assert (found.util, found.idle, found.power, found.cpu, found.network) == (None,) * 5
    assert found.throttled is None
    assert summarize_job([]).throttled is None
