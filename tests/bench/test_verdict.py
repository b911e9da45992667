"""What a bandwidth means: each rule once, in the words that a person gets."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.bench.results import Bench, PairResult, Point
from jobgen.bench.verdict import BenchCase, find_top, judge
from jobgen.fabric.limits import Limit
from tests.bench.facts import DIRECT, SOCKET

IB = Limit("network", 200e9, "8 x 200 Gb/s", 185e9, "a gate")
ETHERNET = Limit("network", 1.25e9, "1 x 10 Gb/s", 1e9, "80 %")
PCIE = Limit("node", 29e9, "PCIe", 0.0, "over PCIe nothing is expected")


def point(bus: float, size: int = 1 << 30, spread: float = 0.02, wrong: int = 0) -> Point:
    """Two ranks: algorithm and bus bandwidth are the same."""
    seconds = size / bus
    half = seconds * spread / 2
    return Point("all_reduce", size, 2, seconds, seconds - half, seconds + half, 9, (0, wrong))


def case(bus: float, limit: Limit | None = IB, **more: Any) -> BenchCase:
    """A case over NCCL on InfiniBand, where nothing else is said."""
    points = more.pop("points", (point(bus),))
    said = tuple(more.pop("said", DIRECT).splitlines())
    backend = more.pop("backend", "nccl")
    bench = Bench(ranks=more.pop("ranks", 16), backend=backend, points=points, network_lines=said)
    known = {"fabric": "infiniband", "gpus": True, "nodes": 2, **more}
    return BenchCase(bench, points[-1], limit, **known)


def test_a_pair_with_wrong_results_is_not_healthy() -> None:
    given = case(190e9)
    broken = PairResult("n1", "n2", point(190e9), wrong=True)
    found = judge(given._replace(bench=given.bench._replace(pairs=(broken,))))
    assert found.mark == "bad"
    assert "WRONG between n1 and n2" in found.text


@pytest.mark.parametrize(
    ("given", "mark", "text", "step"),
    [
        (case(190e9), "good", "95% of the limit: healthy (at least 185 GB/s: a gate)", ""),
        (case(190e9, points=(point(190e9, wrong=7),)), "bad", "WRONG on rank 1", "dcgmi"),
        (case(24e9, said=SOCKET), "bad", "NCCL uses TCP (NET/Socket)", "NCCL_NET=IB"),
        (case(24e9, said=""), "bad", "12% of the limit: NCCL probably uses TCP", "NCCL_NET=IB"),
        (case(24e9, said="", net="AWS Libfabric"), "bad", "TCP", "NCCL_NET=AWS Libfabric"),
        (case(24e9), "bad", "NCCL uses IB, but", "ib_hca"),
        (case(90e9, said="via NET/IB/0"), "bad", "no GPUDirect RDMA", "peermem"),
        (case(150e9, points=(point(150e9, spread=0.9),)), "bad", "vary by 90%", "again"),
        (case(150e9, nodes=4), "bad", "below the 185 GB/s", "--pairs"),
        (case(0.3e9, None), "open", "0.3 GB/s (2.4 Gb/s)", "network.nics"),
        (case(0.3e9, None, fabric="loopback"), "open", "loopback", "-c NAME"),
        (case(0.3e9, None, fabric="none"), "open", "has no network", "network:"),
        (case(200e9, None, nodes=1), "open", "no link speed", "nodes.gpu"),
        (case(20e9, PCIE, nodes=1), "open", "nothing is expected", ""),
        (case(1e9, ETHERNET, backend="gloo"), "bad", "torch sees no GPU", "--like"),
        (case(0.2e9, ETHERNET, backend="gloo", gpus=False), "bad", "16% of the limit", "--pairs"),
        (case(1.1e9, ETHERNET, backend="gloo", gpus=False), "good", "88% of the limit", ""),
        (case(1e9, ETHERNET, ranks=1), "open", "one rank has no peer", "--nodes 2"),
        (
            case(150e9, points=(point(90e9, 1 << 28), point(150e9))),
            "open",
            "still grows",
            "--sizes 1024M..4G",
        ),
        (
            case(90e9, points=(point(30e9, 1 << 33), point(90e9, 1 << 34))),
            "open",
            "still grows",
            "--sizes 16384M..64G",
        ),
        # a small message says nothing of the links, whatever it reaches
        (case(1e9, points=(point(1e9, 1 << 16),)), "open", "too small", "--sizes 1M..4G"),
        (case(1e9, points=(point(1e9, 1 << 16),), said=SOCKET), "bad", "NCCL uses TCP", "IB"),
    ],
)
def test_rules(given: BenchCase, mark: str, text: str, step: str) -> None:
    found = judge(given)
    assert found.mark == mark, found
    assert text in found.text
    assert step in found.next
    assert bool(found.next) == bool(step)


def test_the_best_of_large_messages_counts() -> None:
    points = (point(300e9, 1 << 20), point(190e9, 1 << 29), point(180e9))
    found = find_top(points)
    assert found is not None
    assert found.bus == pytest.approx(190e9)
    assert find_top(()) is None
