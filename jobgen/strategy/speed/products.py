"""Seconds of one matrix product of tokens with weights."""

from __future__ import annotations

from math import ceil

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed import rates

_TILES = ((256, 128), (128, 256), (128, 128))
"""Of the results of a product, the largest that cuBLAS's kernels compute at once; smaller ones are
less efficient (NVIDIA, Matrix Multiplication Background User's Guide, "Tile quantization")."""
_LEAST = 128
"""The side of the smallest of them: narrower products are limited by reading, or by their tile."""


class Casts(NamedTuple):
    """Bytes that making operands narrower reads and writes of each element, in either pass."""

    ahead: float = 0.0
    back: float = 0.0
    weights_ahead: float = 0.0
    weights_back: float = 0.0
    scaled: float = 0.0
    """And of each element of the backward pass's results, to scale them afterwards."""


_ROWWISE = Casts(ahead=3, back=3 + 5 + 5, weights_ahead=3, weights_back=4 + 3, scaled=4)
"""With a scale for each row: of 3, an operand is read, its rows' largest values are looked for and
it is written; along columns, the largest are looked for first, and it is read again. Gradients
need both layouts of the output's, and columns of inputs and weights (torchao/float8/config.py,
``ROWWISE``); weights are copied for that into the other layout (torchao/testing/training/
roofline_utils.py). Their products are scaled by a kernel of its own (pytorch/ao, issue 2184)."""

_FOUR_BITS = 7.2
"""Of an operand in NVFP4, by Transformer Engine: it is read once for its largest values, in columns
those after a random Hadamard transform, and once more for both layouts, of which each is written
with a byte for 16 elements (pytorch/csrc/quantizer.cpp, ``NVFP4Quantizer::quantize_impl``): 5.1
bytes. Its kernels reach 0.71 of the memory's rate: on a B300, quantizing added 2.69 ms to those
products (``FOUR_BITS`` in rates.py; its page, and benchmarks/gemm/benchmark_gemm.py, which makes
both layouts of inputs and one of weights), where 1.92 would be 14.1 GB at that rate."""


class Product(NamedTuple):
    """A product of tokens with weights ``outer`` by ``inner``, on one rank of ``tp``."""

    tokens: float
    inner: int
    outer: int
    hidden: int
    """The width that tp does not divide."""
    tp: int
    copies: float = 1.0
    """Weights of this shape that lie here: experts."""
    compute: int = 2
    """Bytes of an element of all but the weights' gradients."""
    grads: float = 2.0
    bits: int = 16
    """Of an element that is multiplied, where it is no fp32."""
    cast: Casts = Casts()
    """What making operands narrower than 16 bits reads and writes."""
    frozen: bool = False
    """No gradient of the weights."""
    tf32: bool = False
    """Multiplied as TF32 where elements are fp32."""


class Both(NamedTuple):
    """Seconds of the forward and of the backward pass."""

    forward: float
    backward: float


def is_narrow(setup: Setup) -> bool:
    """Whether linear layers multiply in types of fewer than 16 bits."""
    return setup.recipe.has_narrow_products


def adds_gradients(setup: Setup) -> bool:
    """Whether the product of a weight's gradient is added to what the micro-batches before left, so
    that it is read, too: Megatron-LM's ``--gradient-accumulation-fusion``, its default
    (core/tensor_parallel/layers.py, ``wgrad_gemm_accum_fp32``). Its FSDP overwrites
    (core/distributed/fsdp, ``overwrite_main_grad``)."""
    return setup.framework == "megatron" and not setup.strategy.startswith("fsdp")


def is_rowwise(setup: Setup) -> bool:
    """Whether each row of an operand has a scale: the recipe's name says so."""
    return is_narrow(setup) and "rowwise" in setup.recipe.name


def build_product(setup: Setup, inner: int, outer: int, *, narrow: bool, frozen: bool) -> Product:
    """The product of all of a micro-batch's tokens with weights of this shape."""
    compute, grads = setup.recipe.compute, setup.recipe.grads
    if adds_gradients(setup):
        grads *= 2
    base = Product(setup.tokens, inner, outer, setup.model.sizes.hidden, setup.mesh.tp)
    base = base._replace(compute=compute, grads=grads, frozen=frozen, tf32=setup.tf32)
    if not narrow:
        return base
    return base._replace(bits=setup.recipe.product_bits, cast=_choose_casts(setup))


def _choose_casts(setup: Setup) -> Casts:
    """Megatron scales by what it saw before: read once, written in two layouts, and weights once a
    step. Others look for the largest value first, compiled together with what comes before."""
    if is_rowwise(setup):
        return _ROWWISE
    if setup.recipe.product_bits == 4:
        return Casts(_FOUR_BITS, _FOUR_BITS, _FOUR_BITS / setup.batch.accumulation)
    late = setup.framework == "megatron"
    each = 4.0 if late or setup.compiled else 6.0
    weights = each / setup.batch.accumulation if late else each
    return Casts(each, each, weights, weights)


def compute_product(one: Product, machine: ClusterHardware) -> Both:
    """Seconds of one matrix product forward, and of the one or two backward.

    Tensor cores multiply at the rate of a large product, as far as its tiles fill them; operands
    that do not fit in caches are read at the same time, and the last tiles are written when
    nothing is left to multiply: max(2 m n k / rate, bytes read / bandwidth) + bytes written /
    bandwidth. This is the roofline (Williams et al., 2009, doi:10.1145/1498765.1498785) with the
    writing set apart.
    """
    speed = rates.get_memory_rate(machine)
    kept = min(one.hidden, one.inner, one.outer) if one.tp > 1 else one.inner + one.outer
    widths = kept + (one.inner + one.outer - kept) / one.tp  # of this rank's input and output
    weights = one.copies * one.inner * one.outer / one.tp
    half = one.compute * one.tokens * widths / 2 / speed
    cast, half_width = one.cast, one.tokens * widths / 2
    ahead_cast = (cast.ahead * half_width + cast.weights_ahead * weights) / speed
    back_cast = (
        (cast.back + cast.scaled) * half_width + (cast.weights_back + cast.scaled) * weights
    ) / speed
    read = half + one.compute * weights / speed
    inner, outer = _divide_widths(one)
    ahead = max(_multiply(one, machine, one.tokens, outer), read) + half + ahead_cast
    back = max(_multiply(one, machine, one.tokens, inner), read) + half + back_cast
    if not one.frozen:
        back += max(_multiply(one, machine, outer, inner), 2 * half)
        back += one.grads * weights / speed
    return Both(ahead, back)


def _divide_widths(one: Product) -> tuple[float, float]:
    """The widths that lie on one rank: tp divides the one that is not the hidden width."""
    if one.outer != one.hidden or one.inner == one.hidden:
        return one.inner, one.outer / one.tp
    return one.inner / one.tp, one.outer


def _multiply(one: Product, machine: ClusterHardware, rows: float, columns: float) -> float:
    """Seconds of multiplying for a result of so many rows and columns."""
    work = 2.0 * one.tokens * one.inner * one.outer / one.tp
    if one.compute >= rates.FP32 and not one.tf32:
        return work / rates.get_vector_rate(machine)
    each = rows / one.copies if rows == one.tokens else rows
    filled = measure_fill(each, columns, one.copies, machine.multiprocessors)
    wide = [width for width in _divide_widths(one) if width > _LEAST]
    if any(width % 8 for width in wide):
        filled *= rates.get_unaligned_share(machine)
    elif any(width % 16 for width in wide):
        filled *= rates.get_uneven_share(machine)
    rate = get_rate(one.compute, machine, tf32=one.tf32, bits=one.bits, filled=filled)
    return work / rate


def get_rate(
    width: int,
    machine: ClusterHardware,
    *,
    tf32: bool,
    bits: int = 16,
    filled: float = 1.0,
) -> float:
    """FLOP/s of a product of elements with so many bytes; fp32 takes tensor cores as TF32 only."""
    if width < rates.FP32:
        return rates.get_matmul_rate(machine, bits=bits, filled=filled)
    if not tf32:
        return rates.get_vector_rate(machine)
    return rates.get_matmul_rate(machine, filled=filled) * rates.get_tf32_share(machine)


def measure_fill(rows: float, columns: float, copies: float, multiprocessors: int) -> float:
    """Part of the multiprocessors' time that goes into results of this size, with the best tiles.

    Tiles at the edges are computed whole, and the last wave of tiles takes as long as any
    (NVIDIA, Matrix Multiplication Background User's Guide, "Wave quantization").
    """
    return max(
        copies * rows * columns / (ceil(tiles / multiprocessors) * multiprocessors * high * wide)
        for high, wide in _TILES
        for tiles in [copies * ceil(rows / high) * ceil(columns / wide)]
    )
