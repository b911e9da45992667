"""``rocm-smi --showtopo`` and ``amd-smi topology``: the links of each pair of AMD GPUs.

Sources of the formats: ROCm/rocm_smi_lib, python_smi_tools/rocm_smi.py; ROCm/amdsmi, amdsmi_cli.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.survey.hardware.text import clean_lines

MOST = 64
"""GPUs that are read."""
_TABLES = {
    "Weight between two GPUs": "weights",
    "Hops between two GPUs": "hops",
    "Link Type between two GPUs": "kinds",
    "WEIGHT TABLE": "weights",
    "HOPS TABLE": "hops",
    "LINK TYPE TABLE": "kinds",
}
_TITLE = re.compile(r"[A-Z -]{2,40} TABLE")
_GPU = re.compile(r"GPU[0-9]{1,4}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMA = re.compile(r"GPU\[([0-9]{1,4})\] *: \(Topology\) Numa (Node|Affinity): (-?[0-9]{1,6})")


class AmdMatrix(NamedTuple):
    """A topology. ``kinds`` holds (row, column) → XGMI or PCIE.

    GPUs are GPU0 and on, as rocm-smi says, or bus addresses, as amd-smi does.
    """

    gpus: tuple[str, ...] = ()
    kinds: Mapping[tuple[str, str], str] = {}
    numa: Mapping[str, int] = {}


def parse(text: str) -> AmdMatrix:
    """The topology; one without GPUs where the text holds none."""
    tables: dict[str, dict[tuple[str, str], str]] = {name: {} for name in _TABLES.values()}
    numa: dict[str, int] = {}
    columns: Sequence[str] = ()
    order: dict[str, None] = {}
    here: dict[tuple[str, str], str] | None = None
    for line in clean_lines(text):
        words = line.strip()
        title = words.strip("=: ")
        row = words.split()[: MOST + 1]
        if title in _TABLES or _TITLE.fullmatch(title):
            here, columns = tables.get(_TABLES.get(title, "")), ()
        elif (match := _NUMA.fullmatch(words)) and match[2] == "Node" and len(numa) < MOST:
            numa[f"GPU{int(match[1])}"] = int(match[3])
        elif here is not None and row and all(_GPU.fullmatch(w) for w in row):
            columns = row[:MOST]
            order.update(dict.fromkeys(columns))
        elif here is not None and row and row[0] in columns:
            here.update(
                {(row[0], c): w for c, w in zip(columns, row[1:], strict=False) if c != row[0]}
            )
    return AmdMatrix(
        tuple(order),
        {pair: word[:16] for pair, word in tables["kinds"].items()},
        numa,
    )
