"""The memory of a step at the moments that can be its peak."""

from __future__ import annotations

from typing import Any

MOST_POINTS = 64


def make_tracker(segments: int) -> Any:
    """MemTracker that notes, whenever gradients have grown, the most that lies beside states; and
    what each segment holds."""
    from torch.distributed._tools import mem_tracker

    base: Any = mem_tracker.MemTracker

    class Tracker(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.forward, self.highest = True, 0
            self.backward = BackwardPoints()
            self.segments = SegmentPeaks(segments)

        def read(self) -> dict[str, int]:
            return sum_kinds(self._curr_mem_snap)

        def _update_snap(self, kind: Any, winfo: Any, *args: Any, **words: Any) -> None:
            super()._update_snap(kind, winfo, *args, **words)
            if kind.name == "ADD":
                winfo.born = self.backward.count()
            elif kind.name == "REF" and winfo.reftype.value == "Gradient":
                self.backward.relabel(getattr(winfo, "born", 0), winfo.mem_consumed)

        def _update_peak_stats(self, _: Any) -> None:
            now = self.read()
            self.segments.add(now["rest"], forward=self.forward)
            if self.forward:
                self.highest = max(self.highest, now["rest"])
            else:
                self.backward.add(now["grads"], now["kept"], now["rest"])

    return Tracker()


def sum_kinds(snapshots: Any) -> dict[str, int]:
    """Gradients, activations, and all that is no state, over all devices. Bytes."""
    kinds: dict[str, int] = {}
    for snapshot in snapshots.values():
        for kind, size in snapshot.items():
            name = str(getattr(kind, "value", kind))
            kinds[name] = kinds.get(name, 0) + size
    states = sum(kinds.get(name, 0) for name in ("Parameter", "Buffer", "Gradient"))
    kept = kinds.get("Activation", 0) + kinds.get("Other", 0)
    rest = kinds.get("Total", 0) - states
    return {"grads": kinds.get("Gradient", 0), "kept": kept, "rest": rest}


class BackwardPoints:
    """What is held after each operation of the backward pass. Bytes.

    A gradient is known as one only when its hook runs: until then it is among the rest. There it
    would be counted twice by a strategy that shards it, so it is moved to where it belongs.
    """

    def __init__(self) -> None:
        self._held: list[list[int]] = []
        """Gradients, activations, and all that is no state."""

    def count(self) -> int:
        """Operations so far."""
        return len(self._held)

    def add(self, grads: int, kept: int, rest: int) -> None:
        """After an operation."""
        self._held.append([grads, kept, rest])

    def relabel(self, born: int, size: int) -> None:
        """What the operation of this number made turns out to be a gradient."""
        for held in self._held[born:]:
            held[0] += size
            held[2] = max(held[2] - size, 0)

    def find_most(self) -> dict[int, tuple[int, int]]:
        """Gradients → activations and temporary tensors, where these are most."""
        points: dict[int, tuple[int, int]] = {}
        for grads, kept, rest in self._held:
            if grads not in points or sum(points[grads]) < rest:
                points[grads] = min(kept, rest), max(rest - kept, 0)
        return points


class SegmentPeaks:
    """What each segment of a step holds beside states. Bytes."""

    def __init__(self, count: int) -> None:
        self._segment = 0
        self._before: list[int | None] = [None] * count
        self._forward, self._backward = [0] * count, [0] * count

    def begin(self, segment: int, rest: int) -> None:
        """A segment computes; so much is held already."""
        self._segment = segment
        if self._before[segment] is None:
            self._before[segment] = rest

    def add(self, rest: int, *, forward: bool) -> None:
        """After an operation."""
        most = self._forward if forward else self._backward
        most[self._segment] = max(most[self._segment], rest)

    def list_rows(self, end: int) -> list[list[int]]:
        """Of each segment: what is kept until its backward pass, the most in its forward and in its
        backward pass, beside what earlier ones keep. ``end`` is held when the loss is known."""
        before = [end if each is None else each for each in self._before]
        after = [*before[1:], end]
        most = zip(before, after, self._forward, self._backward, strict=True)
        return [[max(rest - b, 0) for rest in (a, ahead, back)] for b, a, ahead, back in most]


class _NoHook:
    """What MemTracker finds where it would hook onto a frozen parameter, and fail."""

    def remove(self) -> None:
        """There is nothing to remove."""


def spare_frozen(tracker: Any, model: Any) -> None:
    """Keep MemTracker from waiting for gradients of frozen parameters."""
    for parameter in model.parameters():
        if not parameter.requires_grad:
            tracker._param_to_grad_hook_handles[parameter] = _NoHook(), _NoHook()


def select_points(points: dict[int, tuple[int, int]]) -> list[tuple[int, tuple[int, int]]]:
    """Those that can be the peak, whatever the gradients weigh: the most gradients first."""
    found: list[tuple[int, tuple[int, int]]] = []
    for grads in sorted(points, reverse=True):
        if not found or sum(points[grads]) > sum(found[-1][1]):
            found.append((grads, points[grads]))
    if len(found) <= MOST_POINTS:
        return found
    every = -(-len(found) // MOST_POINTS)
    # of each group the most gradients with the largest rest: never less than there is
    return [(found[i][0], found[i : i + every][-1][1]) for i in range(0, len(found), every)]
