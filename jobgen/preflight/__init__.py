"""What a job looks at on every node before its program starts.

The looking itself is plain bash (``payload/preflight.sh`` on a node, ``preflight_all.sh`` over all
of them). Here stands what is expected of a node of this cluster, as a table: what, where it is
looked at, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from jobgen import payload
from jobgen.model.bundle import BundleFile
from jobgen.model.plan import Setting, Shape

if TYPE_CHECKING:
    from jobgen.model.network import Network

SCRIPTS = ("preflight.sh", "preflight_all.sh")
GPUS = "preflight_gpus.sh"
FULL = ("preflight_full.sh", "preflight_program.sh")
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
_RULE = "rule preflight"
_OURS = ("NCCL_", "PET_", "TORCHELASTIC_")
_ALSO = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


class Asked(NamedTuple):
    """What the table is read for."""

    shape: Shape
    network: Network
    env: Mapping[str, Setting]
    """What the job exports, as merged."""
    place: Callable[..., str]
    """Keys of the profile → the label of the line that says so."""

    @property
    def rdma(self) -> bool:
        """Whether the job's traffic goes over RDMA cards."""
        fabric = self.network.fabric in RDMA
        return fabric and self.shape.nodes > 1 and self.shape.gpus_per_node > 0


def files(shape: Shape, *, full: bool = False) -> tuple[BundleFile, ...]:
    """The scripts that the job brings along; ``full`` has the program of the all-reduce too."""
    names = (*SCRIPTS, *((GPUS,) if shape.gpus_per_node else ()), *(FULL if full else ()))
    texts = {name: payload.text(name) for name in names}
    if full:
        texts |= payload.package(PROGRAM)
    return tuple(BundleFile(path, text.encode()) for path, text in texts.items())


def expected(asked: Asked) -> tuple[Setting, ...]:
    """``what=value`` for ``preflight.sh``, each with its why: what is looked at on this fabric."""
    rows = (row for looks in (_gpus, _memory, _cards, _interface, _left) for row in looks(asked))
    return tuple(rows)


def _gpus(asked: Asked) -> Iterable[Setting]:
    count = asked.shape.gpus_per_node
    if count:
        yield Setting(f"gpus={count}", "GPUs of each node: there, healthy and free", _RULE)


def _memory(asked: Asked) -> Iterable[Setting]:
    least = min(max(_SHM_A_RANK * asked.shape.ranks_per_node, _SHM_LEAST), _SHM_MOST)
    yield Setting(f"shm={least}", "MiB of /dev/shm that the node's ranks need at least", _RULE)
    if asked.rdma:
        yield Setting(f"memlock={_LOCKED}", "KiB that RDMA must be able to lock (ulimit -l)", _RULE)


def _cards(asked: Asked) -> Iterable[Setting]:
    if not asked.rdma:
        return
    network, place = asked.network, asked.place
    names = _plain(asked.env, "NCCL_IB_HCA")
    listed = names.lstrip("=").split(",") if names.startswith("=") else []
    count = network.nics or len(listed) or 1
    where = place("nics") if network.nics else _RULE
    yield Setting(f"cards={count}", "network cards of a node that must be ready", where)
    if names:
        yield Setting(
            f"hca={names}", "the cards that NCCL is told to use", asked.env["NCCL_IB_HCA"].place
        )
    if RDMA[network.fabric]:
        yield Setting(f"layer={RDMA[network.fabric]}", "the kind of link", place("fabric"))
    if network.nic_gbps and network.fabric in _RATED:
        yield Setting(f"gbps={network.nic_gbps}", "the rate of a card", place("nic_gbps"))


def _interface(asked: Asked) -> Iterable[Setting]:
    """The interface of the bootstrap, in NCCL's grammar; Gloo's names are whole ones."""
    if asked.shape.nodes < 2:
        return
    names, by = _plain(asked.env, "NCCL_SOCKET_IFNAME"), "NCCL_SOCKET_IFNAME"
    if not names or not asked.shape.gpus_per_node:
        gloo, by = _plain(asked.env, "GLOO_SOCKET_IFNAME"), "GLOO_SOCKET_IFNAME"
        names = f"={gloo}" if gloo else ""
    if names:
        why = "the interface on which the nodes meet: up, and with an address"
        yield Setting(f"ifname={names}", why, asked.env[by].place)


def _left(asked: Asked) -> Iterable[Setting]:
    names = [name for name in asked.env if name.startswith(_OURS) or name in _ALSO]
    if names:
        why = "what the job sets itself; more of the kind is left over from somewhere"
        yield Setting(f"env={','.join(names)}", why, _RULE)


def _plain(env: Mapping[str, Setting], name: str) -> str:
    """A variable's value, where it does not depend on the node."""
    value = env[name].value if name in env else ""
    return "" if "$" in value else value
