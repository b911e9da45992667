"""The answer of ``explain --topo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold
from jobgen.cli.output import Ink, defuse

if TYPE_CHECKING:
    from jobgen.survey.hardware.topology import Topology


def screen(topology: Topology, ink: Ink) -> str:
    """What it means, then each GPU's place, then the words of the table."""
    from jobgen.survey.hardware import topology_words as words

    width = min(ink.width, 100)
    said = "".join(
        f"- {fold(defuse(s), width - 2, '  ')}\n" for s in words.describe_topology(topology)
    )
    gpus = align([("GPU", "NEAREST NIC", "LINK", "NUMA", "CPUS"), *words.list_rows(topology)])
    means = align(
        (word, f"{crossed}:", does) for word, crossed, does in words.list_meanings(topology)
    )
    parts = [said, gpus]
    if means:
        parts.append(
            f"{ink('strong', 'What data crosses, and what NCCL (RCCL) does by default')}\n{means}"
        )
    return "\n".join(parts)


def data(topology: Topology) -> dict[str, Any]:
    """An explained topology as plain data."""
    from jobgen.survey.hardware import topology_words as words

    told = topology._asdict()
    told["gpus"] = [{**gpu._asdict(), "gdr": gpu.gdr} for gpu in topology.gpus]
    told["pairs"] = dict(topology.pairs)
    return {**told, "ib_hca": topology.ib_hca, "words": list(words.describe_topology(topology))}
