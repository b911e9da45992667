"""What a measured bus bandwidth means, in words, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from jobgen.bench.formulas import get_bus_factor
from jobgen.bench.message_sizes import MOST
from jobgen.bench.nccl import NcclPaths, read_paths
from jobgen.bench.results import Bench, Point
from jobgen.fabric.limits import Limit
from jobgen.named_tuple import NamedTuple

_TCP = ("ethernet", "none", "loopback")
"""Fabrics on which TCP is no fall-back."""
_TCP_LIKELY = 0.25
"""Of the limit: an RDMA network below it is most probably not used."""
_RISING = 1.15
_WIDE = 0.5
_FILLED = 1e-3
"""Seconds on the links alone: in less, it is the beginning of a message that takes the time."""


class BenchCase(NamedTuple):
    """What is judged."""

    bench: Bench
    top: Point
    """The best of the large messages."""
    limit: Limit | None
    fabric: str
    gpus: bool
    """Whether the profile's nodes have some."""
    nodes: int
    net: str = "IB"
    """The name that NCCL_NET has there."""

    @property
    def rdma(self) -> bool:
        """Whether TCP would be a fall-back, and nodes are many enough for it to matter."""
        return self.fabric not in _TCP and self.nodes > 1

    @property
    def share(self) -> float:
        """Of the limit; 0 where none is known."""
        return self.top.bus / self.limit.rate if self.limit else 0.0

    @property
    def paths(self) -> NcclPaths:
        """How NCCL sends."""
        return read_paths(self.bench.network_lines)

    @property
    def enough(self) -> bool:
        """Whether it reaches what is expected of a healthy one."""
        return bool(self.limit and self.limit.expected) and self.top.bus >= _expected(self)


class BenchVerdict(NamedTuple):
    """A sentence, and the next step."""

    mark: Literal["good", "bad", "open"]
    """Open: it cannot be judged."""
    text: str
    next: str = ""


def find_top(points: tuple[Point, ...]) -> Point | None:
    """The best bus bandwidth among large messages: from a quarter of the largest size on.

    Smaller ones say how long it takes to begin.
    """
    large = [point for point in points if 4 * point.bytes >= points[-1].bytes]
    return max(large, key=lambda point: point.bus, default=None)


def judge(case: BenchCase) -> BenchVerdict:
    """The first rule that holds."""
    return next(found for rule in _RULES if (found := rule(case)) is not None)


def _expected(case: BenchCase) -> float:
    return case.limit.expected if case.limit else 0.0


def _wrong(case: BenchCase) -> BenchVerdict | None:
    bench = case.bench
    if not bench.faulty:
        return None
    where = f"on rank {', '.join(map(str, bench.wrong[:8]))}"
    if not bench.wrong:
        where = f"between {' and '.join(bench.wrong_pairs[0])}"
    text = f"results were WRONG {where}: memory, a GPU or an HCA corrupts data"
    return BenchVerdict("bad", text, "exclude that node and test it: dcgmi diag -r 3")


def _alone(case: BenchCase) -> BenchVerdict | None:
    if case.bench.ranks > 1:
        return None
    return BenchVerdict("open", "one rank has no peer to send to", "measure more ranks: --nodes 2")


def _no_gpu(case: BenchCase) -> BenchVerdict | None:
    if not case.gpus or case.bench.backend != "gloo":
        return None
    text = "torch sees no GPU on these nodes: this measured gloo, not NCCL"
    return BenchVerdict(
        "bad", text, "use the setup and container of a job that sees them: --like job.yaml"
    )


def _tcp(case: BenchCase) -> BenchVerdict | None:
    if not case.rdma or not case.paths.tcp:
        return None
    text = f"{_part(case)}NCCL uses TCP (NET/{case.paths.network}) instead of {case.fabric}"
    return BenchVerdict("bad", text, _find_fallback(case))


def _find_fallback(case: BenchCase) -> str:
    """How to find out why NCCL is not on the network."""
    parts = "the plug-in, network.ib_hca, /dev/infiniband in the container, the memlock limit"
    return f"check {parts}; NCCL_NET={case.net} turns the fallback into an error"


def _unknown(case: BenchCase) -> BenchVerdict | None:
    if case.limit is not None:
        return None
    if case.fabric == "loopback":
        text = f"{_rate(case.top.bus)} over this machine's loopback interface, not a network"
        return BenchVerdict("open", text, "measure a cluster: the same command with -c NAME")
    if case.fabric == "none" and case.nodes > 1:
        text = f"{_rate(case.top.bus)}; the profile has no network to compare with"
        step = "set network: {fabric, nics, nic_gbps} in the profile"
        return BenchVerdict("open", text, step)
    text = f"{_rate(case.top.bus)}; the profile has no link speed to compare with"
    key = "network.nics and network.nic_gbps" if case.nodes > 1 else "nodes.gpu and nodes.intra"
    return BenchVerdict("open", text, f"set {key} in the profile")


def _healthy(case: BenchCase) -> BenchVerdict | None:
    if not case.enough or case.limit is None:
        return None
    least = f"{_expected(case) / 1e9:.3g} GB/s"
    return BenchVerdict("good", f"{_part(case)}healthy (at least {least}: {case.limit.source})")


def _unexpected(case: BenchCase) -> BenchVerdict | None:
    if case.limit is None or case.limit.expected:
        return None
    return BenchVerdict("open", f"{_part(case)}{case.limit.source}")


def _small(case: BenchCase) -> BenchVerdict | None:
    largest = case.bench.select(case.top.op)[-1].bytes
    sent = largest * get_bus_factor(case.top.op, case.bench.ranks)
    if case.limit is None or sent / case.limit.rate >= _FILLED:
        return None
    return BenchVerdict(
        "open", f"{_part(case)}messages are too small to saturate the links", _larger(largest)
    )


def _larger(size: int) -> str:
    least = max(size >> 20, 1)
    most = max(4, min(4 * size, MOST) >> 30)
    return f"measure larger ones: --sizes {least}M..{most}G"


def _rising(case: BenchCase) -> BenchVerdict | None:
    points = case.bench.select(case.top.op)
    if len(points) < 2 or points[-1].bus < _RISING * points[-2].bus:
        return None
    text = f"{_part(case)}bandwidth still grows at the largest message"
    return BenchVerdict("open", text, _larger(points[-1].bytes))


def _gloo(case: BenchCase) -> BenchVerdict | None:
    if case.bench.backend != "gloo":
        return None
    text = f"{_part(case)}gloo uses one TCP stream per neighbour"
    step = "check the interface (socket_ifname), its rate (ethtool) and other traffic"
    return BenchVerdict("bad", text, f"{step}; --pairs finds a slow node")


def _probably_tcp(case: BenchCase) -> BenchVerdict | None:
    if case.share >= _TCP_LIKELY or not case.rdma:
        return None
    name = case.paths.network
    if name:
        text = f"{_part(case)}NCCL uses {name}, but most HCAs seem idle"
        return BenchVerdict("bad", text, "compare network.ib_hca with ibdev2netdev on a node")
    text = f"{_part(case)}NCCL probably uses TCP"
    return BenchVerdict("bad", text, _find_fallback(case))


def _no_direct(case: BenchCase) -> BenchVerdict | None:
    if not case.rdma or case.paths.direct is not False:
        return None
    text = f"{_part(case)}data is copied through host memory (no GPUDirect RDMA)"
    return BenchVerdict("bad", text, "load nvidia-peermem or use dma-buf; disable ACS in the BIOS")


def _uneven(case: BenchCase) -> BenchVerdict | None:
    if case.top.spread < _WIDE:
        return None
    text = f"{_part(case)}times vary by {case.top.spread:.0%}: other jobs use the same links"
    return BenchVerdict("bad", text, "measure again later, or on exclusive nodes")


def _low(case: BenchCase) -> BenchVerdict:
    text = f"{_part(case)}below the {_expected(case) / 1e9:.3g} GB/s expected"
    step = "--pairs finds a slow node" if case.nodes > 2 else "compare with other nodes"
    return BenchVerdict(
        "bad", text, f"{step}; compare the profile with a node: jobgen cluster check"
    )


_RULES: tuple[Callable[[BenchCase], BenchVerdict | None], ...] = (
    _wrong,
    _alone,
    _no_gpu,
    _tcp,
    _unknown,
    _healthy,
    _unexpected,
    _small,
    _rising,
    _gloo,
    _probably_tcp,
    _no_direct,
    _uneven,
    _low,
)


def _part(case: BenchCase) -> str:
    return f"{case.share:.0%} of the limit: " if case.limit else ""


def _rate(rate: float) -> str:
    """``1.2 GB/s (9.6 Gb/s)``."""
    return f"{rate / 1e9:.3g} GB/s ({rate * 8 / 1e9:.3g} Gb/s)"
