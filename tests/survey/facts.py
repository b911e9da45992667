"""The fact files of a node's tools and of Slurm, and the parser that reads each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobgen.survey.hardware import (
    amd_topo,
    efa,
    ibstat,
    ibv_devinfo,
    ip,
    lscpu,
    query,
    system_info,
    topo,
    topology,
    topology_words,
)
from jobgen.survey.slurm_site import accounts, nodes, partitions, scontrol_fields, sinfo

FACTS = Path(__file__).parents[1] / "facts"
Parser = Callable[[str], Any]


def explained(text: str) -> Any:
    """All that is made of a topology, with the ports of the same text."""
    ports = (*ibstat.parse(text), *ibv_devinfo.parse(text))
    found = topology.explain(topo.parse(text), ports)
    amd = topology.explain_amd(amd_topo.parse(text))
    return [(t, t.ib_hca, *(say(t) for say in SAID)) for t in (found, amd)]


COLUMNS = (
    *("uuid", "name", "driver_model.current", "driver_model.pending", "vbios_version"),
    *("driver_version", "fan.speed", "memory.used", "pci.bus_id", "serial", "compute_cap"),
    *("pci.sub_device_id", "index"),
)
"""The fields of csv-query.txt."""
SAID = (topology_words.describe_topology, topology_words.list_rows, topology_words.list_meanings)


PARSERS: dict[str, tuple[Parser, str]] = {
    "topo": (topo.parse, "hardware/topo-*.txt"),
    "explained": (explained, "hardware/*to*o-*.txt"),
    "p2p": (topo.parse, "hardware/p2p-*.txt"),
    "ibstat": (ibstat.parse, "hardware/ibstat-*.txt"),
    "ibv_devinfo": (ibv_devinfo.parse, "hardware/ibv_devinfo-*.txt"),
    "nvidia-smi CSV": (lambda text: query.parse(text, COLUMNS), "hardware/csv-*.txt"),
    "showtopo": (amd_topo.parse, "hardware/showtopo-*.txt"),
    "lscpu": (lscpu.parse, "hardware/lscpu-*.txt"),
    "ip": (ip.parse, "hardware/ip-*.txt"),
    "fi_info": (efa.list_devices, "hardware/fi_info-*.txt"),
    "modules": (system_info.parse_modules, "hardware/modules-*.txt"),
    "sinfo": (sinfo.parse_groups, "sites/*/sinfo.txt"),
    "scontrol show node": (nodes.parse_nodes, "sites/*/node*.txt"),
    "scontrol show partition": (partitions.parse_partitions, "sites/*/partition*.txt"),
    "scontrol show config": (scontrol_fields.parse_settings, "sites/*/config.txt"),
    "sacctmgr show assoc": (accounts.parse_associations, "sites/*/assoc.txt"),
    "sacctmgr show qos": (accounts.parse_qos, "sites/*/qos.txt"),
}
"""Name → parser and its fact files. Each takes any text and raises nothing."""


def files(pattern: str) -> list[Path]:
    """The fact files of a pattern, in order."""
    return sorted(FACTS.glob(pattern))
