"""What every node is checked for before the program starts.

The checks are plain bash: ``payload/preflight.sh`` for every job, ``preflight_node.sh`` and
``preflight_full.sh`` beside it under ``preflight: full``. This table holds what is expected of a
node of this cluster: what, where it is checked, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from jobgen import payload
from jobgen.errors import Place
from jobgen.model.bundle import BundleFile
from jobgen.model.decision import Setting, cite_rule
from jobgen.model.plan import Shape
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.network import Network

SCRIPT = "preflight.sh"
FULL = ("preflight_node.sh", "preflight_full.sh", "preflight_program.sh")
PROGRAM = "bench_collectives"
RDMA = {"infiniband": "InfiniBand", "roce": "Ethernet", "gib": "Ethernet", "efa": ""}
"""Fabrics whose cards the kernel shows as RDMA devices → their link layer; empty: any."""
_RATED = ("infiniband", "roce")
"""Those on which the kernel's rate is the rate of the card."""
_LOCKED = 1024 * 1024
"""KiB of memory that RDMA must be able to lock; site guides ask for unlimited, and defaults are far
below this (64 KiB, or 8 MiB with systemd)."""
_SHM_A_RANK, _SHM_LEAST, _SHM_MOST = 64, 128, 1024
"""MiB of /dev/shm, where NCCL and data loaders keep their buffers. NVIDIA's guide gives a container
1 GiB (NCCL, "Troubleshooting"); a node that has less than the share of its ranks left is full."""
_RULE = cite_rule("preflight")
_OURS = ("NCCL_", "PET_", "TORCHELASTIC_")
_ALSO = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


class PreflightInputs(NamedTuple):
    """What the table is read for."""

    shape: Shape
    network: Network
    env: Mapping[str, Setting]
    """What the job exports, as merged."""
    place: Callable[..., Place]
    """Keys of the profile → the label of the line that says so."""

    @property
    def rdma(self) -> bool:
        """Whether the job's traffic goes over RDMA cards."""
        fabric = self.network.fabric in RDMA
        return fabric and self.shape.nodes > 1 and self.shape.gpus_per_node > 0


def files(*, amd: bool = False, full: bool = False, het: bool = False) -> tuple[BundleFile, ...]:
    """The scripts that the job brings along; ``full`` has the program of the all-reduce too."""
    texts = {SCRIPT: script(amd=amd, full=full, het=het)}
    texts |= {name: payload.text(name) for name in (FULL if full else ())}
    if full:
        texts |= payload.package(PROGRAM)
    return tuple(BundleFile(path, text.encode()) for path, text in texts.items())


def script(*, amd: bool = False, full: bool = False, het: bool = False) -> str:
    """``preflight.sh`` with the checks of this vendor's GPUs; ``het``: of one component's nodes."""
    blocks = {"amd" if amd else "nvidia"}
    blocks |= {"component"} if het else set()
    blocks |= {"full"} if full else set()
    return payload.select_blocks(payload.text(SCRIPT), blocks)


def expected(asked: PreflightInputs, *, full: bool = False) -> tuple[Setting, ...]:
    """``what=value`` for ``preflight.sh``, each with its why: what is checked on this fabric."""
    tables = (_gpus, _memory, _ports, *((_deeper,) if full else ()))
    return tuple(row for table in tables for row in table(asked))


def _gpus(asked: PreflightInputs) -> Iterable[Setting]:
    count = asked.shape.gpus_per_node
    if count:
        yield Setting(f"gpus={count}", "working GPUs per node", _RULE)


def _memory(asked: PreflightInputs) -> Iterable[Setting]:
    least = min(max(_SHM_A_RANK * asked.shape.ranks_per_node, _SHM_LEAST), _SHM_MOST)
    yield Setting(f"shm={least}", "MiB of /dev/shm for the ranks of a node", _RULE)


def _ports(asked: PreflightInputs) -> Iterable[Setting]:
    """The RDMA ports, or else one interface of the bootstrap."""
    if not asked.rdma:
        for names, place in _interfaces(asked):
            yield Setting("ports=1", "active network interfaces per node", _RULE)
            yield from _named(names, "named", "but", "the job's network interface", place)
        return
    network, place_of = asked.network, asked.place
    names = _plain(asked.env, "NCCL_IB_HCA")
    listed = names.lstrip("=").split(",") if names.startswith("=") else []
    count = network.nics or len(listed) or 1
    where = place_of("nics") if network.nics else _RULE
    yield Setting(f"ports={count}", "active RDMA ports per node", where)
    where = asked.env["NCCL_IB_HCA"].place if names else place_of("fabric")
    layer = RDMA[network.fabric]
    yield from _named(names, "named", "but", "ports of the training network", where, layer)
    if network.nic_gbps and network.fabric in _RATED:
        yield Setting(f"gbps={network.nic_gbps}", "Gb/s per port", place_of("nic_gbps"))


def _deeper(asked: PreflightInputs) -> Iterable[Setting]:
    """What only ``preflight: full`` checks."""
    if asked.rdma:
        yield Setting(
            f"memlock={_LOCKED}", "KiB of memory that RDMA must be able to lock (ulimit -l)", _RULE
        )
    for names, place in _interfaces(asked):
        why = "interface for the rendezvous: up, with an address"
        yield from _named(names, "interface", "no_interface", why, place)
    names = ",".join(name for name in asked.env if name.startswith(_OURS) or name in _ALSO)
    if names:
        yield Setting(
            f"env={names}",
            "variables set by the job; report others of this kind as leftovers",
            _RULE,
        )


def _interfaces(asked: PreflightInputs) -> Iterable[tuple[str, Place]]:
    """The interfaces of the bootstrap in NCCL's grammar, and the place; Gloo's names are exact."""
    if asked.shape.nodes < 2:
        return
    names, variable = _plain(asked.env, "NCCL_SOCKET_IFNAME"), "NCCL_SOCKET_IFNAME"
    if not names or not asked.shape.gpus_per_node:
        gloo, variable = _plain(asked.env, "GLOO_SOCKET_IFNAME"), "GLOO_SOCKET_IFNAME"
        names = f"={gloo}" if gloo else ""
    if names:
        yield names, asked.env[variable].place


def _named(
    names: str, key: str, excluded: str, why: str, place: Place, layer: str | None = None
) -> Iterable[Setting]:
    """Patterns for names in NCCL's grammar; with ``layer``, of RDMA ports (``NAME:PORT LAYER``)."""
    port = "" if layer is None else ":[0-9]+"
    if names.startswith("^"):
        others = names.removeprefix("^") if port else f"{names.removeprefix('^')},lo"
        yield Setting(f"{key}={_pattern('', port)}{layer or ''}", why, place)
        yield Setting(f"{excluded}={_pattern(others, port)}", "excluded names", place)
    else:
        yield Setting(f"{key}={_pattern(names, port)}{layer or ''}", why, place)


def _pattern(names: str, port: str) -> str:
    """A regular expression of bash: ``=a,b`` are whole names, ``a,b`` prefixes; nothing is any."""
    tail = port if names.startswith("=") else f"[^ :]*{port}"
    listed = names.removeprefix("=").replace(".", "[.]").split(",")
    if any(":" in name for name in listed):
        return f"^({'|'.join(name if ':' in name else name + tail for name in listed)}) "
    return f"^({'|'.join(listed)}){tail} "


def _plain(env: Mapping[str, Setting], name: str) -> str:
    """A variable's value, if it does not depend on the node."""
    value = env[name].value if name in env else ""
    return "" if "$" in value else value
