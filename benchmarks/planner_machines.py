"""The GPUs of a published run, and what joins them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from planner_cells import read_count, read_number

from jobgen.data import GpuModel, gpus
from jobgen.model.links import get_host_rate
from jobgen.strategy.choice.setups import choose_channels
from jobgen.strategy.estimate import MIB, ClusterHardware
from jobgen.strategy.setup import NVLINK_CHANNELS
from jobgen.strategy.speed import rates
from jobgen.strategy.speed.machine_model import NARROW

NVL72_NODES = 18
"""Of four GPUs each (NVIDIA, GB200 NVL72 datasheet)."""


def is_nvl72(said: Mapping[str, str]) -> bool:
    return re.search(r"GB[23]00", said["gpu"]) is not None


_ONE_NODE = re.compile(r"one node of (\d+) GPUs")
"""Words of a node that has more than eight GPUs, as a DGX-2 has."""


def _node_gpus(said: Mapping[str, str]) -> int:
    large = _ONE_NODE.search(said["inter"])
    if large is not None:
        return int(large[1])
    return 4 if is_nvl72(said) else 8


def count_channels(said: Mapping[str, str]) -> int:
    if "NVLink" in said["intra"]:
        return NVLINK_CHANNELS
    return choose_channels(_gpu_or_usual(said).name)


def count_node_ranks(said: Mapping[str, str]) -> int:
    return min(_node_gpus(said), read_count(said["n_gpus"], 1))


_H100_WATTS = 700
_LINKS = {"NVLink3": 300e9, "NVLink4": 450e9, "NVLink5": 900e9}


def _gpu(words: str, memory: float | None) -> GpuModel | None:
    """The GPU of the catalogue that these words name, ``4090`` as well as ``GeForce RTX 4090``: of
    several the one of the form that they name, with the nearest memory."""
    plain = re.sub(r"[_ ]", "-", words.split("(", maxsplit=1)[0]).upper()
    kinds = [(re.split(r"-(?:SXM|PCIE|NVL|\d+GB|TI)", name)[0].upper(), name) for name in gpus()]
    held = [kind for kind, _ in kinds if _name_pattern(kind).search(plain)]
    alike = [gpus()[name] for kind, name in kinds if kind == max(held, key=len, default="")]
    if not alike:
        return None
    form = re.search(r"SXM|PCIE|NVL", plain)
    formed = [gpu for gpu in alike if form and form[0] in gpu.name.upper()] or alike
    return min(formed, key=lambda gpu: abs(gpu.memory_gib - (memory or gpu.memory_gib)))


@cache
def _name_pattern(kind: str) -> re.Pattern[str]:
    """What a GPU's name is where no longer one is meant: an RTX A4000 is no A40."""
    return re.compile(rf"(?<!\d){kind.removeprefix('RTX-').replace('-', '-?')}(?!\d)")


def _gpu_or_usual(said: Mapping[str, str]) -> GpuModel:
    """The GPU of a row, or an A100 where none is known: memory hardly depends on it."""
    memory, words = read_number(said["gpu_mem_gb"]), said["gpu"]
    if "PCIe" in said["intra"] and not re.search("SXM|PCIE|NVL", words, re.IGNORECASE):
        words = f"PCIe {words}"
    found = _gpu(words, memory) or _gpu("A100", memory)
    assert found is not None
    return found


def read_machine(said: Mapping[str, str]) -> ClusterHardware:
    found = _gpu_or_usual(said)
    peak, bandwidth = found.bf16_tflops * 1e12, found.memory_gbs * 1e9
    watts = re.search(r"(\d+)W", said["gpu"])
    if watts and "HBM2e" in said["gpu"]:
        # torchtitan's own H100: 2.2 of 2.4 TB/s are reached (pytorch/ao, roofline_utils.py), and
        # its clock falls with the cube root of the power, as voltage falls with it
        peak = peak * (int(watts[1]) / _H100_WATTS) ** (1 / 3)
        bandwidth = 2.2e12 / rates.MEMORY["H100-SXM"]
    size = read_number(said["gpu_mem_gb"]) or found.memory_gib
    memory = size / found.memory_gib * found.memory_mib * MIB
    link = _link(said["intra"])
    return ClusterHardware(
        gpu=found.name,
        memory=memory,
        peak=peak,
        bandwidth=bandwidth,
        link=link or found.link_gbs / 2 * 1e9,
        network=_network(said["inter"]),
        fabric="infiniband",
        host=get_host_rate(found),
        node_gpus=max(8, _node_gpus(said)),
        architecture=found.architecture,
        multiprocessors=found.multiprocessors,
        fast8=peak * NARROW.get(found.architecture, 0.0),
    )


def _link(words: str) -> float | None:
    """Bytes per second of what joins GPUs, in one direction: as it says, or by its generation."""
    stated = re.search(r"(\d+) GB/s", words)
    if stated:
        return int(stated[1]) / 2 * 1e9
    return next((speed for word, speed in _LINKS.items() if word in words), None)


def _network(words: str) -> float:
    """Bytes per second of one GPU's share, in one direction."""
    words = re.sub(r" ?Gb(?:ps|it/s)", " Gb/s", words.replace("\N{MULTIPLICATION SIGN}", "x"))
    node = re.search(r"(\d+) ?Gb/s per node", words) or re.search(r"^(\d+) Gb/s$", words)
    several = re.search(r"(\d+) ?x ?(\d+) ?Gb/s", words)
    each = re.search(r"(\d+) ?Gb/s (?:per GPU|IB$)", words)
    if several:
        return int(several[1]) * int(several[2]) / 8 / 8 * 1e9
    if each:
        return int(each[1]) / 8 * 1e9
    return int(node[1]) / 8 / 8 * 1e9 if node else 25e9


def knows_interconnect(said: Mapping[str, str]) -> bool:
    """Whether the GPUs are known and what joins them: inside a node, and beyond it where they need
    it; and that nothing unknown slows them down."""
    if "power limited" in said["notes"] or _gpu(said["gpu"], None) is None:
        return False
    count = read_count(said["n_gpus"], 1)
    if count > 8:
        return bool(said["inter"]) and "not stated" not in said["inter"]
    return count == 1 or bool(said["intra"] or said["inter"])
