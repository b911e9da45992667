"""The topology of a node as a person has it: a saved or pasted ``nvidia-smi topo -m``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.errors import Invalid, Missing

if TYPE_CHECKING:
    from jobgen.survey.hardware.topology import Topology


def explain(path: str) -> Topology:
    """What the table in this file means, nvidia-smi's, rocm-smi's or amd-smi's; ``-`` is stdin.

    The file may hold ibstat's or ibv_devinfo's answer too: then ports that are down or slow are
    left out of the NICs for training. Raises Missing without the file, Invalid without a table.
    """
    from jobgen.survey.hardware import amd_topo, ibstat, ibv_devinfo, topo, topology

    text = _read(path)
    matrix = topo.parse(text)
    amd = amd_topo.parse(text)
    if amd.gpus and not matrix.gpus:
        return topology.explain_amd(amd)
    if not matrix.gpus:
        where = "standard input" if path == "-" else path
        raise Invalid(
            f"no matrix of nvidia-smi topo -m in {where}",
            hint="save it on a compute node: nvidia-smi topo -m > topo.txt",
        )
    return topology.explain(matrix, (*ibstat.parse(text), *ibv_devinfo.parse(text)))


def _read(path: str) -> str:
    """The first bytes of the file as text; what is no UTF-8 becomes a mark."""
    from jobgen.survey.hardware.text import LIMIT

    try:
        if path == "-":
            data = sys.stdin.buffer.read(LIMIT)
        else:
            with Path(path).open("rb") as file:
                data = file.read(LIMIT)
    except OSError as error:
        raise Missing(f"cannot read {path}: {error.strerror}") from error
    return data.decode("utf-8", errors="replace")
