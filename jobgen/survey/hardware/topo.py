"""``nvidia-smi topo -m`` and ``topo -p2p``: which link joins each pair of GPUs and NICs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.survey.hardware.text import clean_lines

MOST = 256
"""Devices of one matrix that are read. The largest nodes have 16 GPUs and some 40 NICs."""

_UNDERLINE = re.compile(r"\[[0-9;]{1,8}m")  # what is left of it where a paste lost the escape
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_LINK = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|OK|CNS|GNS|TNS|NS|DR|U|N/A|ERR!?")
_PARTS = re.compile(r"NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_GLUED = re.compile(rf"(?:{_PARTS.pattern}){{2,10}}")
_MEANING = re.compile(r"([A-Z]{1,4}#?) {1,8}= ")
_LEGEND = re.compile(r"\b(NIC[0-9]{1,4}) {0,8}: {0,8}([A-Za-z0-9_.:-]{1,64})(?= |$)")


class Affinity(NamedTuple):
    """Where a GPU sits, as the table prints it; '' where it says nothing."""

    cpus: str = ""
    numa: str = ""
    gpu_numa: str = ""


class TopologyMatrix(NamedTuple):
    """A topology as printed. ``links`` holds (row, column) → word such as NV18, PIX or SYS;
    ``devices`` NIC0 → mlx5_0; ``legend`` the words that the text explains: X, SYS, NV#."""

    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    links: Mapping[tuple[str, str], str] = {}
    affinity: Mapping[str, Affinity] = {}
    devices: Mapping[str, str] = {}
    legend: tuple[str, ...] = ()

    def get_link(self, one: str, other: str) -> str:
        """The word of a pair, from either half of the table; '' where it has none."""
        return self.links.get((one, other)) or self.links.get((other, one), "")

    def get_device(self, nic: str) -> str:
        """The RDMA device of a NIC: mlx5_3 for NIC3, by the legend; else its own name."""
        return self.devices.get(nic, nic)


def parse(text: str) -> TopologyMatrix:
    """The first matrix of the text; one without GPUs where there is none."""
    columns: Sequence[str] = ()
    tail: Sequence[str] = ()
    rows: dict[str, tuple[Sequence[str], Affinity]] = {}
    devices: dict[str, str] = {}
    legend: dict[str, None] = {}
    for line in filter(None, clean_lines(text, tabs=True)):
        words = _UNDERLINE.sub("", line)
        bare = words.strip().replace("\t", " ")
        if _LEGEND.match(bare):
            devices |= {} if len(devices) > MOST else dict(_LEGEND.findall(bare)[:MOST])
        elif match := _MEANING.match(bare):
            legend[match[1]] = None
        elif not columns:
            columns, tail = _header(words)
        elif found := _row(words, columns, tail):
            rows.setdefault(*found)
    gpus = tuple(c for c in columns if _GPU.fullmatch(c))
    nics = tuple(c for c in columns if not _GPU.fullmatch(c))
    pairs = ((row, zip(columns, cells, strict=False)) for row, (cells, _) in rows.items())
    links = {(row, column): link for row, cells in pairs for column, link in cells}
    affinity = {row: where for row, (_, where) in rows.items() if row in gpus}
    return (
        TopologyMatrix(gpus, nics, links, affinity, devices, tuple(legend)[:MOST])
        if links
        else TopologyMatrix()
    )


def _header(words: str) -> tuple[Sequence[str], Sequence[str]]:
    """The devices that head the columns, and the columns of affinity behind them."""
    at = min((p for name in _AFFINITY if (p := words.find(name)) >= 0), default=len(words))
    names = words[:at].split()
    tail = [name for name in _AFFINITY if name in words[at:]]
    devices = all(_NAME.fullmatch(n) and not _LINK.fullmatch(n) for n in names)
    if not names or len(names) > MOST or not devices or len(set(names)) < len(names):
        return (), ()
    return (names, tail) if any(_GPU.fullmatch(n) for n in names) else ((), ())


def _row(
    words: str, columns: Sequence[str], tail: Sequence[str]
) -> tuple[str, tuple[Sequence[str], Affinity]] | None:
    """A device, its links and its affinity; None where the line is no row."""
    name, *rest = words.split()[: MOST + 8] or [""]
    cells: list[str] = []
    taken = 0
    for word in rest:
        # a paste may lose the tab between two cells: SYSSYS
        found = [word] if _LINK.fullmatch(word) else _glued(word)
        if not found or len(cells) >= len(columns):
            break
        cells += found
        taken += 1
    if name not in columns or not cells:
        return None
    if "\t" in words:
        tabbed = [word.strip() for word in words.lstrip().split("\t")[taken + 1 :]]
        return name, (cells, _tabbed(tabbed, tail))
    return name, (cells, _spaced(rest[taken:], tail))


def _glued(word: str) -> list[str]:
    """The links of a word that is made of several; [] where it is none."""
    return _PARTS.findall(word) if len(word) <= 40 and _GLUED.fullmatch(word) else []


def _tabbed(cells: Sequence[str], tail: Sequence[str]) -> Affinity:
    """The cells under their headings. 'GPU NUMA ID' stands one tab further to the right."""
    last = [cell for cell in cells[2:] if cell]
    told = [*cells[:2], *last[:1]] if len(cells) > 2 else cells
    return _named(dict(zip(tail, told, strict=False)))


def _spaced(words: Sequence[str], tail: Sequence[str]) -> Affinity:
    """Where a paste made spaces of tabs: what is missing is a first, empty CPU list."""
    missing = len(tail) - len(words) if words and words[-1] == "N/A" else 0
    return _named(dict(zip(tail[max(0, missing) :], words, strict=False)))


def _named(told: Mapping[str, str]) -> Affinity:
    return Affinity(*(told.get(name, "")[:200].replace("N/A", "") for name in _AFFINITY))
