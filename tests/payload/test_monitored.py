"""monitored.sh: what it sums up is what a plain reading of the same files gives."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.monitor.summary import MIB, NodeSummary, summarize_nodes
from jobgen.submission import scripts, wire
from tests.inputs import ONE_FOLDER
from tests.waiting import HANG

HEAD = (
    "time,gpu,util_pct,mem_mib,mem_total_mib,temp_c,power_w,power_limit_w,sm_mhz,sm_max_mhz,"
    "mem_mhz,throttle,load,cpu_pct,host_mib,host_total_mib,rx_bytes,tx_bytes,rdma_rx_bytes,"
    "rdma_tx_bytes"
)
START = 1_795_300_000


def gpu(at: int, index: int, util: object, clock: object = 1755, why: str = "") -> str:
    start = f"{START + at},{index},{util},{60000 + at},81559,{40 + index},500.5,700"
    return f"{start},{clock},1980,2619,{why},,,,,,,,"


def host(at: int, received: object, mem: int = 2048) -> str:
    return f"{START + at},host,,,,,,,,,,,2.50,50,{mem},4096,{received},5,,"


def write(folder: Path, files: Mapping[str, Sequence[str]], restart: int = 0) -> None:
    place = folder / "state" / "0" / f"monitor.{restart}"
    place.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (place / f"{name}.csv").write_text("\n".join([HEAD, *lines]) + "\n")


def told(folder: Path, awk: str = "") -> dict[str, list[str]]:
    """The frames of the script's answer."""
    script = scripts.sum_up_monitors(str(folder))
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=HANG)
    assert not done.stderr, done.stderr.decode()
    found = wire.split_frames(done.stdout)
    return {key: [text for word, text in found if word == key] for key, _ in found}


def summed(folder: Path) -> tuple[NodeSummary, ...]:
    return summarize_nodes(told(folder).get("monitor", []))


def test_a_gpu_and_its_node_are_summed_up(tmp_path: Path) -> None:
    lines = []
    for at in range(10):
        why = "sw_power_cap+hw_thermal" if at < 3 else "sw_power_cap"
        lines += [gpu(30 * at, 0, 90 + at, why=why), gpu(30 * at, 1, 0, 345, "idle")]
        lines += [host(30 * at, 3000 * at, mem=2000 + at)]
    write(tmp_path, {"n1": lines})
    (node,) = summed(tmp_path)
    assert (node.name, node.samples, node.first, node.last) == ("n1", 10, START, START + 270)
    assert (node.load, node.cpu, node.received, node.sent) == (2.5, 50, 100, 0)
    assert (node.memory, node.memory_total) == (2009 * MIB, 4096 * MIB)
    assert (node.rdma_received, node.rdma_sent) == (None, None)
    first, second = node.gpus
    assert (first.util, first.p10, first.idle, first.clock) == (94.5, 90, 0, 1755)
    assert (first.memory, first.memory_total) == (60270 * MIB, 81559 * MIB)
    assert (first.temperature, first.power, first.limit, first.clock_max) == (40, 500.5, 700, 1980)
    assert first.held == {"sw_power_cap": 1.0, "hw_thermal": 0.3}
    assert (second.util, second.idle, second.clock) == (0, 1, None)
    assert second.now is not None
    assert (second.now.time, second.now.clock, second.now.reasons) == (START + 270, 345, ("idle",))


def test_a_counter_that_begins_anew_is_not_traffic(tmp_path: Path) -> None:
    write(tmp_path, {"n1": [host(0, 10**15), host(10, 10**15 + 500), host(20, 7), host(30, 107)]})
    (node,) = summed(tmp_path)
    assert node.received == 20


def test_a_clock_that_is_set_back_costs_no_time_and_loses_no_gpu(tmp_path: Path) -> None:
    lines = []
    for at in (4000, 4010, 4020, 30, 40, 50):
        lines += [gpu(at, 0, 90), host(at, 100 * at if at > 4000 else 10**6 + 100 * at)]
    write(tmp_path, {"n1": lines})
    (node,) = summed(tmp_path)
    assert (node.samples, node.last, node.last - node.first) == (6, START + 50, 40)
    assert node.gpus[0].now is not None
    assert node.gpus[0].now.time == node.last


def test_only_the_newest_start_counts(tmp_path: Path) -> None:
    write(tmp_path, {"n1": [host(0, 1)]}, restart=2)
    write(tmp_path, {"n9": [host(0, 1)]}, restart=10)
    write(tmp_path, {"n1": [host(0, 1)]}, restart=9)
    assert [node.name for node in summed(tmp_path)] == ["n9"]


def test_nodes_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, {name: [host(0, 1)] for name in ("n10", "n2", "n1")})
    assert [node.name for node in summed(tmp_path)] == ["n1", "n2", "n10"]


def test_the_last_row_may_be_half_a_row(tmp_path: Path) -> None:
    write(tmp_path, {"n1": [gpu(0, 0, 50), host(0, 1), gpu(1, 0, 100)[:40]]})
    (node,) = summed(tmp_path)
    assert node.gpus[0].util == 50


def test_nothing_was_written(tmp_path: Path) -> None:
    assert told(tmp_path) == {"summed": ["yes"]}
    assert "missing" in told(tmp_path / "gone")
    write(tmp_path, {})
    assert summed(tmp_path) == ()


def test_what_the_monitors_complained_of_comes_too(tmp_path: Path) -> None:
    write(tmp_path, {"n1": [host(0, 1)]})
    (tmp_path / "state/0/monitor.0/log").write_text("jobgen: n1: no nvidia-smi\n")
    assert told(tmp_path)["complaints"] == ["jobgen: n1: no nvidia-smi"]


def test_of_a_long_file_the_newest_part_is_read(tmp_path: Path) -> None:
    many = 80_000
    write(tmp_path, {"n1": [gpu(at, 0, 50) for at in range(many)] + [host(many, 1)]})
    file = tmp_path / "state/0/monitor.0/n1.csv"
    size = file.stat().st_size
    assert size > 1 << 22
    (node,) = summed(tmp_path)
    assert node.last == START + many
    assert node.gpus[0].samples == pytest.approx(many * (1 << 22) / size, rel=0.05)


numbers = st.one_of(st.just(""), st.integers(0, 100), st.floats(0, 100).map(lambda x: f"{x:.2f}"))
row = st.tuples(
    numbers, st.one_of(st.just(""), st.integers(200, 2000)), st.sampled_from(["", "hw_thermal"])
)


@settings(max_examples=40, suppress_health_check=ONE_FOLDER)
@given(st.lists(row, min_size=1, max_size=30))
def test_the_sums_are_those_of_a_plain_reading(
    tmp_path: Path, samples: list[tuple[object, object, str]]
) -> None:
    lines = [gpu(at, 0, util, clock, why) for at, (util, clock, why) in enumerate(samples)]
    write(tmp_path, {"n1": [*lines, host(len(samples), 1)]})
    (node,) = summed(tmp_path)
    (seen,) = node.gpus
    utils = [float(str(util)) for util, _, _ in samples if util != ""]
    assert seen.samples == len(samples)
    assert seen.util == (pytest.approx(mean(utils), abs=0.01) if utils else None)
    if utils:
        below = sum(util < 5 for util in utils)
        assert seen.idle == below / len(samples)
        assert seen.p10 is not None
        assert sum(int(u) <= seen.p10 for u in utils) >= len(utils) / 10
        assert sum(int(u) < seen.p10 for u in utils) < len(utils) / 10
    assert seen.held == {
        why: count / len(samples)
        for why, count in Counter(why for _, _, why in samples if why).items()
    }


@settings(max_examples=60, suppress_health_check=ONE_FOLDER)
@given(st.binary(max_size=600))
def test_any_file_is_read_without_a_word(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, {"n1": [gpu(0, 0, 50), host(0, 1)]})
    file = tmp_path / "state/0/monitor.0/n1.csv"
    file.write_bytes(file.read_bytes() + data)
    found = summed(tmp_path)
    assert all(-1 <= (g.util or 0) < 10**16 for node in found for g in node.gpus)
