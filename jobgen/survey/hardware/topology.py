"""A parsed ``nvidia-smi topo -m`` explained: what joins the GPUs, and which NICs are theirs.

Sources: the meaning of the words is nvidia-smi's own legend; what NCCL makes of them is
docs.nvidia.com/deeplearning/nccl, environment variables NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL and
NCCL_NET_GDR_C2C, and their defaults NVIDIA/nccl src/graph/paths.cc (ncclTopoCheckP2p,
ncclTopoCheckGdr) of June 2026. NCCL counts NODE as PHB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.survey.hardware import amd_topo
from jobgen.survey.hardware.ports import Port
from jobgen.survey.hardware.topo import Affinity, TopologyMatrix

NEAR = ("PIX", "PXB")
"""Links that do not leave the PCIe switches: NCCL's default limits for P2P and GPUDirect RDMA."""
FAR = ("PHB", "NODE", "SYS", "SOC")
_EVERY = frozenset({"X", "PHB", "PXB", "PIX"})
"""Words that nvidia-smi's legend always explains, with -m and -mp, in all releases."""
MOST_NVLINKS = 18
"""NVLinks of the GPU with the most of them, Hopper and Blackwell: NVIDIA H100 and B200 data sheets.
More than this in sum, to all peers, needs a switch."""


class TopologyGpu(NamedTuple):
    """One GPU: its CPUs and NUMA node as printed, its nearest NICs and the link to them.

    ``rail`` are the NICs that are this GPU's share where several GPUs have the same ones near.
    """

    name: str
    cpus: str = ""
    numa: str = ""
    link: str = ""
    near: tuple[str, ...] = ()
    rail: tuple[str, ...] = ()

    @property
    def gdr(self) -> bool:
        """Whether NCCL uses GPUDirect RDMA to its nearest NIC by default, by distance."""
        return self.link in NEAR


class Topology(NamedTuple):
    """What the table says.

    ``intra`` is a profile's word, or '' where one cannot tell; ``pairs`` counts the pairs of GPUs
    by their link; ``islands`` are the groups that NVLink joins; ``without`` the GPUs that miss
    the NVLink which the others have, ``weaker`` the pairs with fewer links than the rest; ``nics``
    are all cards, ``compute`` those for training, ``others`` the rest as far as one can tell.
    ``alike``: every GPU is as far from every card. ``pcie_only``: made with -mp. ``grace``: GPU
    memory is a NUMA node, as on Grace Hopper and Grace Blackwell. ``cut``: links are missing.
    """

    gpus: tuple[TopologyGpu, ...] = ()
    intra: str = ""
    pairs: Mapping[str, int] = {}
    islands: tuple[tuple[str, ...], ...] = ()
    without: tuple[str, ...] = ()
    weaker: tuple[tuple[str, str, str], ...] = ()
    nics: tuple[str, ...] = ()
    compute: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    by_rate: bool = False
    alike: bool = False
    pcie_only: bool = False
    grace: bool = False
    cut: bool = False

    @property
    def named(self) -> bool:
        """Whether the NICs have names of their own: NIC0 is one in the table only."""
        return not any(re.fullmatch(r"NIC[0-9]+", name) for name in self.nics)

    @property
    def ib_hca(self) -> str:
        """The NICs for training as a profile's ``ib_hca`` takes them; '' where it is not sure."""
        return ",".join(self.compute) if self.named and not self.cut else ""


def explain(matrix: TopologyMatrix, ports: Sequence[Port] = ()) -> Topology:
    """The facts of a matrix; ``ports``, of ibstat or ibv_devinfo, tell which NICs are up and fast.

    The NICs for training are those behind a PCIe switch with a GPU. Where no NIC is, as in many
    virtual machines and on Grace, they are the InfiniBand ports of the highest rate, if any.
    """
    pairs = {
        (a, b): matrix.get_link(a, b) for i, a in enumerate(matrix.gpus) for b in matrix.gpus[:i]
    }
    # the legend of -mp is whole but for NV#; one cut by hand may miss any word
    whole = set(matrix.legend) >= _EVERY
    pcie_only = whole and "NV#" not in matrix.legend and not any(map(count_links, pairs.values()))
    islands = _islands(matrix.gpus, pairs)
    intra = _intra(matrix.gpus, pairs, islands, pcie_only=pcie_only)
    found = {gpu: _nearest(matrix, gpu) for gpu in matrix.gpus}
    near = {d for link, devices in found.values() if link in NEAR for d in devices}
    devices = [matrix.get_device(nic) for nic in matrix.nics]
    compute = _usable([d for d in devices if d in near], devices, ports)
    switched = intra == "nvswitch"
    most = max(map(count_links, pairs.values()), default=0)
    rails = _rails({g: [d for d in n if d in compute] for g, (_, n) in found.items()})
    links = {n: [matrix.get_link(gpu, n) for gpu in matrix.gpus] for n in matrix.nics}
    told = [matrix.get_device(nic) for nic, words in links.items() if all(words)]
    words = [word for found in links.values() for word in found]
    return Topology(
        tuple(_gpu(matrix, gpu, *found[gpu], rails[gpu]) for gpu in matrix.gpus),
        intra,
        Counter(link for link in pairs.values() if link),
        islands,
        tuple(g for g in matrix.gpus if switched and not any(g in i for i in islands)),
        tuple((b, a, w) for (a, b), w in pairs.items() if switched and 0 < count_links(w) < most),
        tuple(devices),
        compute,
        tuple(device for device in told if device not in compute),
        by_rate=bool(compute) and not near,
        alike=len(matrix.gpus) > 1 and len(words) > 2 and len(set(words)) == 1,
        pcie_only=pcie_only,
        grace=any(where.gpu_numa for where in matrix.affinity.values()),
        cut=not all(words) or not all(pairs.values()),
    )


def explain_amd(matrix: amd_topo.AmdMatrix) -> Topology:
    """AMD GPUs explained. Their tables hold no NICs: NUMA nodes are all that is told of a GPU."""
    pairs = {
        (a, b): matrix.kinds.get((a, b)) or matrix.kinds.get((b, a), "")
        for i, a in enumerate(matrix.gpus)
        for b in matrix.gpus[:i]
    }
    joined = {pair: "NV1" if word == "XGMI" else "" for pair, word in pairs.items()}
    islands = _islands(matrix.gpus, joined)
    told = bool(pairs) and all(word in ("XGMI", "PCIE") for word in pairs.values())
    intra = "infinity-fabric" if islands else "pcie"
    return Topology(
        tuple(TopologyGpu(gpu, numa=str(matrix.numa.get(gpu, ""))) for gpu in matrix.gpus),
        intra if told else "",
        Counter(word for word in pairs.values() if word),
        islands,
        cut=not all(pairs.values()),
    )


def count_links(word: str) -> int:
    """How many NVLinks a word says: 18 for NV18; 0 for any other."""
    return int(word[2:]) if word.startswith("NV") else 0


def _gpu(
    matrix: TopologyMatrix, gpu: str, link: str, near: tuple[str, ...], rail: tuple[str, ...]
) -> TopologyGpu:
    where = matrix.affinity.get(gpu, Affinity())
    return TopologyGpu(gpu, where.cpus, where.numa, link, near, rail)


def _nearest(matrix: TopologyMatrix, gpu: str) -> tuple[str, tuple[str, ...]]:
    """The best link of a GPU to any NIC, and the NICs that have it."""
    for word in (*NEAR, *FAR):
        found = [matrix.get_device(n) for n in matrix.nics if matrix.get_link(gpu, n) == word]
        if found:
            return word, tuple(found)
    return "", ()


def _islands(
    gpus: Sequence[str], pairs: Mapping[tuple[str, str], str]
) -> tuple[tuple[str, ...], ...]:
    """The groups of two and more GPUs that NVLink joins."""
    group = {gpu: {gpu} for gpu in gpus}
    for (one, other), word in pairs.items():
        if count_links(word) and group[one] is not group[other]:
            group[one] |= group[other]
            for gpu in group[other]:
                group[gpu] = group[one]
    groups = {id(members): members for members in group.values() if len(members) > 1}
    return tuple(tuple(g for g in gpus if g in members) for members in groups.values())


def _intra(
    gpus: Sequence[str],
    pairs: Mapping[tuple[str, str], str],
    islands: Sequence[Sequence[str]],
    *,
    pcie_only: bool,
) -> str:
    """What joins the GPUs: a switch where they have more links to their peers than a GPU has.

    Groups without NVLink between them have bridges, as pairs and fours of H200 NVL, not a switch.
    """
    if len(gpus) < 2 or pcie_only:
        return ""
    sums = Counter[str]()
    for (one, other), word in pairs.items():
        sums[one] += count_links(word)
        sums[other] += count_links(word)
    largest = max(islands, key=len, default=())
    inside = [w for (a, b), w in pairs.items() if w and a in largest and b in largest]
    full = len(islands) == 1 and bool(inside) and all(map(count_links, inside))
    if full and (max(sums.values()) > MOST_NVLINKS or f"NV{MOST_NVLINKS}" in inside):
        return "nvswitch"
    if not all(count_links(word) or word in (*NEAR, *FAR) for word in pairs.values()):
        return ""
    return "nvlink" if islands else "pcie"


def _usable(near: Sequence[str], devices: Sequence[str], ports: Sequence[Port]) -> tuple[str, ...]:
    """The near NICs, less those whose port is down or slower than the fastest."""
    active = [p for p in ports if p.state == "active" and p.device in devices]
    if not any(p.device in devices for p in ports):
        return tuple(near)
    chosen = near or [p.device for p in active if p.infiniband]
    rates = {p.device: p.gbps or 0 for p in active if p.device in chosen}
    fastest = max(rates.values(), default=0)
    return tuple(d for d in devices if d in rates and rates[d] in (0, fastest))


def _rails(near: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
    """The share of each GPU: NICs near to several GPUs are dealt out where there are enough."""
    found = {}
    for gpu, nics in near.items():
        sharing = [g for g, theirs in near.items() if theirs == nics]
        each, place = len(nics) // len(sharing), sharing.index(gpu)
        found[gpu] = tuple(nics[place * each : (place + 1) * each] if each else nics)
    return found
