"""A topology in words, for a screen: each sentence stands alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from jobgen.survey.hardware.topology import FAR, Topology, TopologyGpu, count_links

MEANING = {
    "NV": ("NVLinks, bonded", "peer to peer over NVLink: the fastest way inside a node"),
    "PIX": ("at most one PCIe switch", "direct: peer to peer, GPUDirect RDMA"),
    "PXB": ("several PCIe switches", "direct: peer to peer, GPUDirect RDMA"),
    "PHB": ("the CPU's host bridge", "by way of host memory, unless told otherwise"),
    "NODE": ("bridges of one NUMA node", "by way of host memory, unless told otherwise"),
    "SYS": ("the link between sockets", "by way of host memory: the slowest"),
    "XGMI": ("Infinity Fabric", "peer to peer over Infinity Fabric (RCCL)"),
    "PCIE": ("PCIe", "over PCIe: peer to peer or by way of host memory"),
    "SOC": ("the link between sockets", "by way of host memory: the slowest"),
}
"""Word of nvidia-smi → what data crosses, and what NCCL makes of it by default."""


def list_meanings(topology: Topology) -> list[tuple[str, str, str]]:
    """The words that this table uses: the word, what data crosses, what NCCL does by default."""
    # on Grace the word for a card says nothing: C2C is in no table
    cards = () if topology.grace else (gpu.link for gpu in topology.gpus if gpu.link)
    used = [*topology.pairs, *cards]
    rows = []
    for word in filter(_known, dict.fromkeys(sorted(used, key=_rank))):
        links = count_links(word)
        crossed, does = MEANING["NV" if links else word]
        rows.append((word, f"{links} {crossed}" if links else crossed, does))
    return rows


def list_rows(topology: Topology) -> list[tuple[str, str, str, str, str]]:
    """One row a GPU, for a table: its name, NICs, the link to them, NUMA node, CPUs."""
    return [
        (g.name, ",".join(g.rail or g.near) if g.gdr else "-", g.link or "-", g.numa, g.cpus)
        for g in topology.gpus
    ]


def describe_topology(topology: Topology) -> tuple[str, ...]:
    """What the table means for training, one sentence or two each; () where it holds no GPU."""
    if not topology.gpus:
        return ()
    return (*_gpus(topology), *_nics(topology), *_cpus(topology))


def _gpus(topology: Topology) -> Iterator[str]:
    words = ", ".join(f"{word} {n}" for word, n in sorted(topology.pairs.items(), key=_by_word))
    count = len(topology.gpus)
    if count == 1:
        yield "One GPU: nothing to join inside the node."
    elif topology.pcie_only:
        yield (
            f"{count} GPUs. The table shows PCIe only (topo -mp), NVLink is not in it: use -m. "
            f"Pairs by link: {words}."
        )
    elif topology.intra in _JOINED:
        yield from _JOINED[topology.intra](topology, words)
    else:
        yield f"{count} GPUs; the table is not whole. Pairs by link: {words or 'none'}."
    yield from _broken(topology)


def _switched(topology: Topology, _: str) -> Iterator[str]:
    most = max(map(count_links, topology.pairs))
    members = max(map(len, topology.islands))
    yield (
        f"{members} GPUs on an NVSwitch: each reaches every other over {most} NVLinks, all at "
        "once. NCCL talks peer to peer."
    )


def _plain(topology: Topology, words: str) -> Iterator[str]:
    what = "Infinity Fabric" if "PCIE" in topology.pairs else "NVLink"
    yield f"{len(topology.gpus)} GPUs without {what}. Pairs by link: {words}."
    yield from _over_pcie(topology)


def _broken(topology: Topology) -> Iterator[str]:
    """GPUs and pairs that lost NVLinks which the others have."""
    if topology.without:
        yield (
            f"Broken: {_list(topology.without)} has no NVLink while the others have. Look at "
            "nvidia-smi nvlink -s, the Fabric Manager's log and dmesg, and drain the node."
        )
    if topology.weaker:
        few = ", ".join(f"{a}-{b} {w}" for a, b, w in topology.weaker[:4])
        yield f"Broken: some pairs have fewer NVLinks than the rest: {few}. nvidia-smi nvlink -s."


def _bridged(topology: Topology, words: str) -> Iterator[str]:
    if len(topology.gpus) == 2:
        yield (
            f"2 GPUs joined by {next(iter(topology.pairs))}: by a bridge, or two GPUs of a larger "
            "node, of which the rest is hidden; the table looks the same."
        )
        return
    groups = _list(["+".join(island) for island in topology.islands])
    alone = [g.name for g in topology.gpus if not any(g.name in i for i in topology.islands)]
    yield f"{len(topology.gpus)} GPUs; NVLink without a switch joins {groups}. Pairs: {words}."
    if alone or len(topology.islands) > 1:
        yield (
            "Between the groups data goes over PCIe: keep tensor parallelism inside a group "
            "(choose it by CUDA_VISIBLE_DEVICES)."
        )
        yield from _over_pcie(topology)


def _fabric(topology: Topology, words: str) -> Iterator[str]:
    if set(topology.pairs) == {"XGMI"}:
        yield f"{len(topology.gpus)} GPUs, each joined to every other by Infinity Fabric (xGMI)."
        return
    groups = " and ".join("+".join(island) for island in topology.islands)
    yield f"{len(topology.gpus)} GPUs; Infinity Fabric (xGMI) joins {groups}. Pairs: {words}."
    yield "Between the groups data goes over PCIe: keep tensor parallelism inside a group."


def _over_pcie(topology: Topology) -> Iterator[str]:
    if any(word in FAR for word in topology.pairs):
        yield (
            "Pairs at PHB, NODE or SYS talk through the CPU: NCCL uses shared memory there, not "
            "peer to peer (its default limit is PXB; SYS on AMD CPUs with at most 2 GPUs). "
            "/dev/shm must be large."
        )


_JOINED: Mapping[str, Callable[[Topology, str], Iterator[str]]] = {
    "nvswitch": _switched,
    "nvlink": _bridged,
    "infinity-fabric": _fabric,
    "pcie": _plain,
}


def _nics(topology: Topology) -> Iterator[str]:
    if not topology.nics:
        amd = not {"XGMI", "PCIE"}.isdisjoint(topology.pairs)
        yield "The table says nothing of NICs." if amd else "No RDMA NIC in the table."
        return
    untold = [gpu.name for gpu in topology.gpus if not gpu.link]
    if untold:
        yield f"The table is cut: it does not say how far the NICs are from {_list(untold)}."
    yield from _distance(topology, [gpu for gpu in topology.gpus if gpu.link and not gpu.gdr])
    if topology.compute:
        how = "the fastest InfiniBand ports" if topology.by_rate else "nearest to the GPUs"
        missing = "" if topology.named else " (the legend with their names is missing)"
        yield f"NICs for training, {how}: {','.join(topology.compute)}{missing}"
    if topology.compute and topology.others:
        yield f"Not for training (storage, management, slower or down): {','.join(topology.others)}"


def _distance(topology: Topology, far: Sequence[TopologyGpu]) -> Iterator[str]:
    """How the GPUs reach the NICs; ``far`` are those without one behind their switches."""
    if far and topology.grace:
        yield (
            "The NICs hang on the CPU, and the GPUs reach them over C2C: GPUDirect RDMA by default "
            "since NCCL 2.27 (NCCL_NET_GDR_C2C)."
        )
    elif far and topology.alike:
        yield (
            f"Every GPU is {far[0].link} from every NIC, as where a virtual machine hides the PCIe "
            "tree: there NCCL needs the provider's NCCL_TOPO_FILE to know which NIC is near."
        )
    elif far:
        yield from _some_far(topology, far)
    elif all(gpu.link for gpu in topology.gpus):
        yield (
            "Every GPU has a NIC behind its PCIe switches: GPUDirect RDMA by default (NCCL's limit "
            "is PXB), with nvidia-peermem or dma-buf."
        )


def _some_far(topology: Topology, far: Sequence[TopologyGpu]) -> Iterator[str]:
    everyone = len(far) == len(topology.gpus)
    nearest = ", ".join(sorted({gpu.link for gpu in far if gpu.link}, key=_rank)) or "none"
    has = "has no" if len(far) == 1 else "have no"
    names, has = ("No GPU", "has a") if everyone else (_list([gpu.name for gpu in far]), has)
    yield (
        f"{names} {has} NIC behind the same PCIe switches (nearest: {nearest}): no GPUDirect "
        "RDMA by default, data goes by way of host memory."
    )
    if topology.intra == "nvswitch" and len(far) < len(topology.gpus):
        yield "NCCL (2.12 and later) can send through another GPU's NIC over NVLink instead: PXN."


def _cpus(topology: Topology) -> Iterator[str]:
    nodes = {gpu.numa for gpu in topology.gpus if gpu.numa}
    if len(nodes) > 1 and not topology.grace:
        yield (
            f"The GPUs belong to {len(nodes)} NUMA nodes: a rank is fastest on the CPUs of its own "
            "GPU (srun --cpu-bind)."
        )


def _known(word: str) -> bool:
    return bool(count_links(word)) or word in MEANING


def _rank(word: str) -> tuple[int, int]:
    """NVLink first, most links first; then from near to far."""
    links = count_links(word)
    return (0, -links) if links else (1, [*MEANING, word].index(word))


def _by_word(pair: tuple[str, int]) -> tuple[int, int]:
    return _rank(pair[0])


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
