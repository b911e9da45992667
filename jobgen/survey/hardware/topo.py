"""``nvidia-smi topo -m`` and ``topo -p2p``: which link joins each pair of GPUs and NICs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobgen.survey.hardware.text import lines

MOST = 256
"""Devices of one matrix that are read. The largest nodes have 16 GPUs and some 40 NICs."""

_UNDERLINE = re.compile(r"\[[0-9;]{1,8}m")  # what is left of it where a paste lost the escape
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_LINK = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PSB|PHB|NODE|SYS|SOC|OK|CNS|GNS|TNS|NS|DR|U|N/A|ERR!?")
_LEGEND = re.compile(r"(NIC[0-9]{1,4}) ?: ?([A-Za-z0-9_.:-]{1,64})")


class Affinity(NamedTuple):
    """Where a GPU sits, as the table prints it; '' where it says nothing."""

    cpus: str = ""
    numa: str = ""
    gpu_numa: str = ""


class Matrix(NamedTuple):
    """A topology as printed. ``links`` holds (row, column) → word such as NV18, PIX or SYS."""

    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    links: Mapping[tuple[str, str], str] = {}
    affinity: Mapping[str, Affinity] = {}
    devices: Mapping[str, str] = {}

    def link(self, one: str, other: str) -> str:
        """The word of a pair, from either half of the table; '' where it has none."""
        return self.links.get((one, other)) or self.links.get((other, one), "")

    def device(self, nic: str) -> str:
        """The RDMA device of a NIC: mlx5_3 for NIC3, by the legend; else its own name."""
        return self.devices.get(nic, nic)


def parse(text: str) -> Matrix:
    """The first matrix of the text; one without GPUs where there is none."""
    columns: Sequence[str] = ()
    tail: Sequence[str] = ()
    links: dict[tuple[str, str], str] = {}
    affinity: dict[str, Affinity] = {}
    devices: dict[str, str] = {}
    for line in lines(text):
        words = _UNDERLINE.sub("", line).strip()
        if (legend := _LEGEND.fullmatch(words)) and len(devices) < MOST:
            devices.setdefault(legend[1], legend[2])
        elif not columns:
            columns, tail = _header(words)
        else:
            row, cells, rest = _row(words, columns)
            if row and not any((row, c) in links for c in columns[:1]):
                links.update({(row, c): link for c, link in zip(columns, cells, strict=False)})
                affinity |= {row: _affinity(rest, tail)} if rest else {}
    gpus = tuple(c for c in columns if _GPU.fullmatch(c))
    nics = tuple(c for c in columns if c not in gpus)
    return Matrix(gpus, nics, links, affinity, devices) if links else Matrix()


def _header(words: str) -> tuple[Sequence[str], Sequence[str]]:
    """The devices that head the columns, and the columns of affinity behind them."""
    at = min((p for name in _AFFINITY if (p := words.find(name)) >= 0), default=len(words))
    names = words[:at].split()
    tail = [name for name in _AFFINITY if name in words[at:]]
    devices = all(_NAME.fullmatch(n) and not _LINK.fullmatch(n) for n in names)
    if not names or len(names) > MOST or not devices or len(set(names)) < len(names):
        return (), ()
    return (names, tail) if any(_GPU.fullmatch(n) for n in names) else ((), ())


def _row(words: str, columns: Sequence[str]) -> tuple[str, Sequence[str], Sequence[str]]:
    """A device, its links, and what stands behind them; '' where the line is no row."""
    name, *rest = words.split()[: MOST + 8] or [""]
    cells = []
    for word in rest[: len(columns)]:
        if not _LINK.fullmatch(word):
            break
        cells.append(word)
    if name not in columns or not cells:
        return "", (), ()
    return name, cells, rest[len(cells) :]


def _affinity(rest: Sequence[str], tail: Sequence[str]) -> Affinity:
    """The words behind the links under their headings."""
    named = dict(zip(tail, (word[:200] for word in rest), strict=False))
    return Affinity(*(named.get(name, "").replace("N/A", "") for name in _AFFINITY))
