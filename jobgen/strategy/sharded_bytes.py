"""Bytes of parameters, gradients and optimizer state that one rank holds, with all padding.

Exact for AdamW: what the libraries were seen to hold (torch 2.13, DeepSpeed 0.19), see
``tests/strategy/test_sharded_bytes.py``. How each pads: torch's distributed/fsdp/_flat_param.py
(``_init_flat_param_and_metadata``) and distributed/fsdp/_fully_shard/_fsdp_param.py
(``_init_sharded_param``), DeepSpeed's runtime/zero/stage_1_and_2.py
(``flatten_dense_tensors_aligned``) and runtime/zero/partition_parameters.py (``_aligned_size``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.spec import Strategy

Shape = tuple[int, ...]
Unit = Sequence[Shape]
"""Parameters that are gathered together, in the module's order; what is left is the root's."""

_FP32 = 4
_MOMENTS = 2
"""AdamW keeps two moments of every element, in fp32, and a step counter of every parameter."""
_ALIGN = 16
"""Bytes at which FSDP1 lets every parameter of a flat one start."""


class RankStates(NamedTuple):
    """Bytes on one rank between two steps."""

    params: int
    grads: int
    master: int
    """fp32 copies of parameters, where parameters themselves are not fp32."""
    moments: int
    steps: int
    """The optimizer's step counters."""

    @property
    def total(self) -> int:
        """Bytes of every kind together."""
        return sum(self)


def compute_states(strategy: Strategy, units: Sequence[Unit], rank: int = 0) -> RankStates:
    """What this rank of its sharding group holds. Every parameter is trained."""
    family = strategy.trait.family
    return _FAMILIES[family](strategy, units, rank % strategy.mesh.shard)


def divide_shape(shape: Shape, dimension: int | None, tp: int) -> Shape:
    """What one tensor parallel rank has of a parameter whose dimension is divided; everything where
    none is. A column-parallel linear layer divides the first dimension of its weight, a
    row-parallel one the second (torch, distributed/tensor/parallel/style.py)."""
    if dimension is None:
        return shape
    return tuple(-(-n // tp) if i == dimension else n for i, n in enumerate(shape))


def _whole(_strategy: Strategy, units: Sequence[Unit], _rank: int) -> RankStates:
    """DDP: autocast computes in a narrower type, what is kept is fp32."""
    count = sum(map(prod, _shapes(units)))
    size = _FP32 * count
    return RankStates(size, size, 0, _MOMENTS * size, _FP32 * len(list(_shapes(units))))


def _flat(strategy: Strategy, units: Sequence[Unit], rank: int) -> RankStates:
    """FSDP1: one flat parameter a unit. Padding is stored, and no parameter's for the optimizer."""
    mesh = strategy.mesh
    held = real = touched = 0
    for unit in units:
        spans, length = _laid_out(unit)
        if strategy.trait.stage:
            chunk = -(-length // mesh.shard)
            first, last = rank * chunk, (rank + 1) * chunk
        else:  # padded for the group all the same
            first, last = 0, -(-length // mesh.data) * mesh.data
        inside = [max(0, min(end, last) - max(start, first)) for start, end in spans]
        held += last - first
        real += sum(inside)
        touched += sum(count > 0 for count in inside)
    return RankStates(_FP32 * held, _FP32 * held, 0, _MOMENTS * _FP32 * real, _FP32 * touched)


def _laid_out(unit: Unit) -> tuple[list[tuple[int, int]], int]:
    """Where each parameter lies in the flat one, in elements, and its length without the end."""
    align = _ALIGN // _FP32
    spans, end = [], 0
    for shape in unit:
        start = -(-end // align) * align
        end = start + prod(shape)
        spans.append((start, end))
    return spans, end


def _rows(strategy: Strategy, units: Sequence[Unit], rank: int) -> RankStates:
    """FSDP2: every parameter by its rows. The last ranks hold fewer, and room for as many."""
    ranks = strategy.mesh.shard
    room = real = 0
    for shape in _shapes(units):
        each = -(-shape[0] // ranks)
        row = prod(shape[1:])
        room += each * row
        real += max(0, min(each, shape[0] - rank * each)) * row
    steps = _FP32 * len(list(_shapes(units)))
    return RankStates(_FP32 * room, _FP32 * room, 0, _MOMENTS * _FP32 * real, steps)


def _zero(strategy: Strategy, units: Sequence[Unit], _rank: int) -> RankStates:
    """ZeRO: parameters of the computing type, and an fp32 copy whatever that type is."""
    ranks = strategy.mesh.shard
    width = _FP32 if strategy.precision == "fp32" else 2
    if strategy.trait.shards_parameters:
        part = sum(-(-prod(shape) // ranks) for shape in _shapes(units))
        params = width * part
    else:
        align = 2 * ranks  # NCCL wants 4 bytes, which are two elements of two bytes
        whole = -(-sum(map(prod, _shapes(units))) // align) * align
        part = whole // ranks
        params = width * whole
    return RankStates(params, width * part, _FP32 * part, _MOMENTS * _FP32 * part, _FP32)


def _shapes(units: Sequence[Unit]) -> Iterator[Shape]:
    return (shape for unit in units for shape in unit)


_FAMILIES: dict[str, Callable[[Strategy, Sequence[Unit], int], RankStates]] = {
    "ddp": _whole,
    "3d": _whole,
    "fsdp": _flat,
    "fsdp2": _rows,
    "zero": _zero,
}
