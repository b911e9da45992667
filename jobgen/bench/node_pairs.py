"""Which node is slow, from all-reduces within each pair of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from jobgen.bench.results import PairResult
from jobgen.named_tuple import NamedTuple

SLOW = 0.85
"""Of the others' bus bandwidth: a node below it is slow."""
FEWEST = 3
"""Nodes from which on one can be told from the others."""


class NodePairs(NamedTuple):
    """One node's pairs. Bytes per second of bus bandwidth."""

    name: str
    median: float
    """Of its own pairs."""
    best: float
    """With the best of its partners."""
    others_median: float
    """The median of all pairs without it."""
    slow: bool = False

    @property
    def share(self) -> float:
        """Its median against the rest; 1 where there is no rest."""
        return self.median / self.others_median if self.others_median else 1.0


def judge_nodes(pairs: Sequence[PairResult]) -> tuple[NodePairs, ...]:
    """Every node, the slowest first.

    A node is slow where its median is low against all pairs without it. Where several are slow,
    good ones have slow pairs too; so one is slow as well that is slow even with its best partner.
    """
    names = sorted({name for pair in pairs for name in (pair.a, pair.b)})
    found = [_node(name, pairs) for name in names]
    if len(found) < FEWEST:
        return tuple(sorted(found, key=lambda node: node.median))
    usual = median(node.best for node in found)
    told = [n._replace(slow=n.share < SLOW or n.best < SLOW * usual) for n in found]
    return tuple(sorted(told, key=lambda node: (not node.slow, node.median)))


def _node(name: str, pairs: Sequence[PairResult]) -> NodePairs:
    own = [pair.point.bus for pair in pairs if name in (pair.a, pair.b)]
    rest = [pair.point.bus for pair in pairs if name not in (pair.a, pair.b)]
    return NodePairs(name, median(own), max(own), median(rest) if rest else 0.0)
