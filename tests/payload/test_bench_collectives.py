"""The program that measures: its tournament, its statistics, what it takes from NCCL's log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.bench import bench_job, results
from jobgen.payload.bench_collectives.arrays import elements
from jobgen.payload.bench_collectives.external import nccl_tests
from jobgen.payload.bench_collectives.pairs import neighbours, rounds
from jobgen.payload.bench_collectives.timing import summary
from jobgen.payload.bench_collectives.world import backend, read_network_lines
from tests.bench.facts import SOCKET, read
from tests.cluster.texts import FOLDER_OF_PYTHON
from tests.ports import reserved_port
from tests.waiting import HANG

PAYLOAD = Path(__file__).resolve().parents[2] / "jobgen" / "payload"


@given(st.integers(0, 40))
def test_each_pair_meets_once_and_nobody_twice_at_a_time(count: int) -> None:
    played = list(rounds(count))
    assert sorted(pair for faced in played for pair in faced) == [*combinations(range(count), 2)]
    for faced in played:
        met = [node for pair in faced for node in pair]
        assert len(met) == len(set(met))
    if count > 1:
        assert len(played) == count - 1 + count % 2


@given(st.integers(3, 40))
def test_each_meets_both_of_its_neighbours_and_nobody_twice_at_a_time(count: int) -> None:
    played = list(neighbours(count))
    around = sorted(tuple(sorted((n, (n + 1) % count))) for n in range(count))
    assert sorted(pair for faced in played for pair in faced) == around
    for faced in played:
        met = [node for pair in faced for node in pair]
        assert len(met) == len(set(met))
    assert len(played) == 2 + count % 2


def test_few_nodes_have_few_neighbours() -> None:
    assert [list(neighbours(count)) for count in (0, 1, 2)] == [[], [], [[(0, 1)]]]


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_the_spread_lies_round_the_median(seconds: list[float]) -> None:
    found = summary(seconds)
    assert min(seconds) <= found.p10 <= found.median <= found.p90 <= max(seconds)
    assert found.repeats == len(seconds)


@given(st.integers(1, 1 << 40), st.integers(1, 4096))
def test_an_array_can_be_shared_equally(size: int, ranks: int) -> None:
    found = elements(size, ranks)
    assert found % ranks == 0
    assert size <= 4 * found < size + 4 * ranks


@pytest.mark.parametrize(
    ("devices", "ranks", "nccl", "expected"),
    [
        (8, 8, True, "nccl"),
        (8, 2, True, "nccl"),
        (1, 2, True, "gloo"),  # two ranks cannot share a GPU under NCCL
        (0, 2, True, "gloo"),
        (8, 8, False, "gloo"),
    ],
)
def test_the_backend(devices: int, ranks: int, nccl: bool, expected: str) -> None:
    assert backend(devices, ranks, nccl=nccl) == expected


def test_what_nccl_says_of_networks_is_kept_once() -> None:
    found = read_network_lines(SOCKET + SOCKET)
    assert "Using network Socket" in found
    assert len(found) == len(set(found))
    assert not any("Bootstrap" in line for line in found)


def test_all_its_modules_are_sent() -> None:
    there = {path.stem for path in (PAYLOAD / bench_job.PROGRAM).glob("*.py")}
    assert there == set(bench_job.PARTS)


def test_nccl_tests_where_a_node_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked:
        sizes = (1 << 20, 1 << 30)

    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on PATH" in nccl_tests(Asked, 8)["why"]  # type: ignore[arg-type]
    program = tmp_path / "all_reduce_perf"
    table = tmp_path / "table"
    table.write_text(read("a3-megagpu-16"))
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\n/bin/cat {table}\n')
    program.chmod(0o755)
    assert "no GPU" in nccl_tests(Asked, 0)["why"]  # type: ignore[arg-type]
    found = nccl_tests(Asked, 8)  # type: ignore[arg-type]
    assert (tmp_path / "words").read_text() == "-b 1048576 -e 1073741824 -f 2 -g 8\n"
    assert results.read(json.dumps(found)).tests == read("a3-megagpu-16")


@pytest.mark.train("torch")
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_one_wrong_element_is_seen(op: str) -> None:
    import torch

    from jobgen.payload.bench_collectives.arrays import Array
    from jobgen.payload.bench_collectives.world import ProcessGroup

    cpu = torch.device("cpu")
    here = ProcessGroup(
        torch, rank=1, size=3, local=0, device=cpu, backend="gloo", hosts=("n1",) * 3
    )
    array = Array(here, op, 3 * 100, None, 1, 3)
    known = torch.arange(300) % 13
    array.fill()
    if op == "all_gather":
        assert torch.equal(array.part, known[100:200] + 1)
        array.whole = (known + torch.arange(300) // 100).float()
        result = array.whole
    else:
        assert torch.equal(array.whole, known + 1.0)
        array.whole = (known * 3 + 3).float()
        array.part = array.whole[100:200].clone()
        result = array.whole if op == "all_reduce" else array.part
    assert array.wrong() == 0
    result[7] += 1
    assert array.wrong() == 1


def measured(folder: Path, ranks: int, *words: str) -> results.Bench:
    """What so many ranks, each on a node of its own, measure over the loopback interface."""
    out = folder / "bench.jsonl"
    running = []
    with reserved_port() as port:
        for rank in range(ranks):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0"}
            env |= {"LOCAL_WORLD_SIZE": "1", "SLURMD_NODENAME": f"n{rank}"}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            env |= {"GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
            env |= {"PYTHONPATH": f"{PAYLOAD}:{FOLDER_OF_PYTHON}"}
            command = [sys.executable, "-m", bench_job.PROGRAM, *words, "--out", str(out)]
            running.append(subprocess.Popen(command, env=env, cwd=folder))
        assert [one.wait(HANG) for one in running] == [0] * ranks
    return results.read(out.read_text())


@pytest.mark.train("torch")
@pytest.mark.slow
def test_two_ranks_measure_and_check_every_collective(tmp_path: Path) -> None:
    words = ["--ops", "all_reduce,all_gather,reduce_scatter", "--sizes", "1000,3000000"]
    words += ["--seconds", "0.1", "--pairs", "--pair-size", "4096"]
    found = measured(tmp_path, 2, *words)
    assert found.ended
    assert (found.ranks, found.hosts, found.backend) == (2, ("n0", "n1"), "gloo")
    assert [(p.op, p.bytes) for p in found.points] == [
        (op, size) for op in words[1].split(",") for size in (1000, 3000000)
    ]
    assert found.wrong == ()
    assert all(point.median > 0 and point.repeats >= 3 for point in found.points)
    assert [(pair.a, pair.b, pair.point.bytes) for pair in found.pairs] == [("n0", "n1", 4096)]


@pytest.mark.train("torch")
@pytest.mark.slow
@pytest.mark.parametrize(("below", "pairs"), [("0.000001", []), ("1e9", ["n0n1", "n1n2", "n0n2"])])
def test_neighbours_are_measured_where_all_together_are_slow(
    tmp_path: Path, below: str, pairs: list[str]
) -> None:
    words = ["--sizes", "1000", "--seconds", "0.1", "--below", below, "--pair-size", "4096"]
    found = measured(tmp_path, 3, *words)
    assert found.ended
    assert [pair.a + pair.b for pair in found.pairs] == pairs
