"""The tensors of one collective: filled, sent, and checked element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .world import ProcessGroup

FLOAT = 4
_PERIOD = 13
_CHUNK = _PERIOD << 18
"""Elements that are checked at once; a multiple of the pattern's period."""


def elements(size: int, ranks: int) -> int:
    """Elements of an array of about so many bytes that all ranks can share equally."""
    return max(-(-size // (FLOAT * ranks)), 1) * ranks


class Array:
    """The tensors of one collective and size, among the ranks of a group."""

    def __init__(
        self, world: ProcessGroup, op: str, count: int, group: Any, place: int, ranks: int
    ):
        self.world, self.op, self.count, self.group = world, op, count, group
        self.place, self.ranks = place, ranks
        torch = world.torch
        self.whole = torch.zeros(count, dtype=torch.float32, device=world.device)
        share = count // ranks if op != "all_reduce" else 0
        self.part = torch.zeros(share, dtype=torch.float32, device=world.device)

    def call(self) -> None:
        """The collective, once."""
        dist = self.world.torch.distributed
        if self.op == "all_reduce":
            dist.all_reduce(self.whole, group=self.group)
        elif self.op == "all_gather":
            # its name in torch before 2.13
            gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
            gather(self.whole, self.part, group=self.group)
        else:
            scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
            scatter(self.part, self.whole, group=self.group)

    def fill(self) -> None:
        """A pattern that tells every rank and every place apart."""
        share = self.count // self.ranks
        if self.op == "all_gather":
            self._set(self.part, self.place * share, lambda known: known + self.place)
        else:
            self._set(self.whole, 0, lambda known: known + self.place)

    def wrong(self) -> int:
        """Elements of the result that are not what they must be, on this rank."""
        share, n = self.count // self.ranks, self.ranks
        if self.op == "all_gather":
            parts = [(self.whole[r * share : (r + 1) * share], r * share, r) for r in range(n)]
            return sum(self._differ(t, at, lambda k, r=r: k + r) for t, at, r in parts)
        add = n * (n - 1) / 2
        result, at = (self.whole, 0) if self.op == "all_reduce" else (self.part, self.place * share)
        return self._differ(result, at, lambda known: known * n + add)

    def clear(self) -> None:
        """Zeros: repeated sums stay finite."""
        self.whole.zero_()
        self.part.zero_()

    def _known(self, start: int, length: int) -> Any:
        torch = self.world.torch
        found = torch.arange(start % _PERIOD, start % _PERIOD + length, device=self.world.device)
        return (found % _PERIOD).to(torch.float32)

    def _set(self, tensor: Any, start: int, value: Callable[[Any], Any]) -> None:
        for at in range(0, tensor.numel(), _CHUNK):
            piece = tensor[at : at + _CHUNK]
            piece.copy_(value(self._known(start + at, piece.numel())))

    def _differ(self, tensor: Any, start: int, value: Callable[..., Any]) -> int:
        found = 0
        for at in range(0, tensor.numel(), _CHUNK):
            piece = tensor[at : at + _CHUNK]
            found += int((piece != value(self._known(start + at, piece.numel()))).sum())
        return found
