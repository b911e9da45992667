"""Seconds of matrix products: a layer's with its weights, and the adapters beside them."""

from __future__ import annotations

from math import ceil, prod

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.shapes.architecture import Tensor
from jobgen.strategy.speed import rates

_UNPACKED = 16.0
"""Bytes that single operations read and write of each weight: shifted in 4 bytes, cast to one,
masked, its zero taken off, scaled to 2 (AutoGPTQ, nn_modules/qlinear/qlinear_cuda_old.py)."""


_INT8 = 8
"""Bits of weights whose products are quantized too: LLM.int8 (arXiv:2208.07339)."""
_SEARCHED = 12.0
"""Bytes that LLM.int8 reads and writes of each input in fp16: 4 for its size, 3 to compare that, 2
to look for outliers, 3 to quantize (bitsandbytes, backends/cuda/ops.py,
``int8_vectorwise_quant``)."""


_TILES = ((256, 128), (128, 256), (128, 128))
"""Of the results of a product, the largest that cuBLAS's kernels compute at once; smaller ones are
less efficient (NVIDIA, Matrix Multiplication Background User's Guide, "Tile quantization")."""
_LEAST = 128
"""The side of the smallest of them: narrower products are limited by reading, or by their tile."""
_OWN_ADAPTERS = ("megatron", "torchtune", "litgpt")
"""Frameworks whose LoRA is their own, not peft's."""
_SCALED_ADAPTERS = ("automodel",)
"""Frameworks whose kernel for an adapter scales its product
(nemo_automodel/components/_peft/lora_kernel.py)."""


class Casts(NamedTuple):
    """Bytes that making operands 8 bits wide reads and writes of each element, in either pass."""

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
    narrow: bool = False
    """Multiplied in 8-bit types."""
    cast: Casts = Casts()
    """What making operands 8 bits wide reads and writes."""
    frozen: bool = False
    """No gradient of the weights."""
    tf32: bool = False
    """Multiplied as TF32 where elements are fp32."""


class Both(NamedTuple):
    """Seconds of the forward and of the backward pass."""

    forward: float
    backward: float


def is_narrow(setup: Setup) -> bool:
    """Whether linear layers multiply in 8-bit types."""
    return setup.recipe.has_narrow_products


def adds_gradients(setup: Setup) -> bool:
    """Whether the product of a weight's gradient is added to what the micro-batches before left, so
    that it is read, too: Megatron-LM's ``--gradient-accumulation-fusion``, its default
    (core/tensor_parallel/layers.py, ``wgrad_gemm_accum_fp32``). Its FSDP overwrites
    (core/distributed/fsdp, ``overwrite_main_grad``)."""
    return setup.framework == "megatron" and not setup.strategy.startswith("fsdp")


def is_prepared(setup: Setup) -> bool:
    """Whether peft has made fp32 what is not quantized, and with it what lies between products."""
    lora = setup.adapters
    # with the embedding narrow again, only a norm of single operations returns fp32: its weight is
    return lora is not None and lora.prepared and not (lora.narrow_ends and setup.fused_norms)


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
    return base._replace(narrow=True, cast=_choose_casts(setup))


def _choose_casts(setup: Setup) -> Casts:
    """Megatron scales by what it saw before: read once, written in two layouts, and weights once a
    step. Others look for the largest value first, compiled together with what comes before."""
    if is_rowwise(setup):
        return _ROWWISE
    late = setup.framework == "megatron"
    each = 4.0 if late or setup.compiled else 6.0
    weights = each / setup.batch.accumulation if late else each
    return Casts(each, each, weights, weights)


def compute_products(setup: Setup, machine: ClusterHardware, tensors: tuple[Tensor, ...]) -> Both:
    """Seconds of all matrix products of a layer but those of attention."""
    ahead = back = 0.0
    narrow, frozen = is_narrow(setup), setup.adapters is not None
    experts = setup.model.sizes.experts
    for tensor in tensors:
        if len(tensor.shape) < 2 or tensor.kind == "mixer" or tensor.name.endswith(".bias"):
            continue  # filters of convolutions are no matrices, and experts' biases are a table
        outer, inner = tensor.shape[-2:]
        one = build_product(
            setup, inner, outer, narrow=narrow and tensor.kind != "router", frozen=frozen
        )
        if tensor.kind == "expert" and experts:
            together = setup.mesh.expert_tp  # of the ranks of tp, the others have other tokens
            one = one._replace(
                tokens=one.tokens * experts.active * together / setup.mesh.tp,
                tp=together,
                copies=experts.count / setup.mesh.ep,
            )
        took = compute_product(one, machine)
        beside = compute_adapters(setup, machine, tensor, one)
        ahead += took.forward + beside.forward
        back += took.backward + beside.backward
    return Both(ahead, back)


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
    rate = get_rate(one.compute, machine, tf32=one.tf32, narrow=one.narrow, filled=filled)
    return work / rate


def get_rate(
    width: int,
    machine: ClusterHardware,
    *,
    tf32: bool,
    narrow: bool = False,
    filled: float = 1.0,
) -> float:
    """FLOP/s of a product of elements with so many bytes; fp32 takes tensor cores as TF32 only."""
    if width < rates.FP32:
        return rates.get_matmul_rate(machine, narrow=narrow, filled=filled)
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


def compute_adapters(setup: Setup, machine: ClusterHardware, tensor: Tensor, one: Product) -> Both:
    """Seconds of what LoRA adds to one tensor: dropout, two thin products, a scaled sum; and of
    frozen weights that are quantized."""
    lora = setup.adapters
    if lora is None:
        return Both(0.0, 0.0)
    speed = rates.get_memory_rate(machine)
    wide, again = 0.0, 0.0
    if lora.bits < 16 and tensor.kind != "router":
        quantized = _compute_int8 if lora.bits == _INT8 else _compute_unpacking
        wide, again = quantized(setup, machine, lora, one)
    if not has_adapter(setup, tensor):
        return Both(wide, again)
    ahead = 0.0
    back = 0.0
    for inner, outer in ((one.inner, lora.rank), (lora.rank, one.outer)):
        thin = compute_product(one._replace(inner=inner, outer=outer, frozen=False), machine)
        ahead, back = ahead + thin.forward, back + thin.backward
    rest = _count_adapter_bytes(setup, lora, one)
    return Both(ahead + rest.forward / speed + wide, back + rest.backward / speed + again)


def _compute_unpacking(
    setup: Setup, machine: ClusterHardware, lora: Adapters, one: Product
) -> Both:
    """Seconds of making weights of 4 bits 16 bits wide: forward, and again backward where that is
    one kernel, whose result is not kept. Where the stream is fp32, its products' inputs and results
    are cast (bitsandbytes/nn/modules.py, ``Linear4bit.forward``)."""
    speed = rates.get_memory_rate(machine)
    each = lora.bits / 8 + (one.compute if lora.fused else _UNPACKED)
    wide = one.copies * one.inner * one.outer / one.tp * each / speed
    cast = 0.0
    if is_prepared(setup):
        cast = one.tokens * (one.inner + one.outer) * (rates.FP32 + one.compute) / speed
    return Both(wide + cast, (wide if lora.fused else 0.0) + cast)


def _compute_int8(setup: Setup, machine: ClusterHardware, lora: Adapters, one: Product) -> Both:
    """Seconds that weights of 8 bits add to a product (bitsandbytes, autograd/_functions.py,
    ``MatMul8bitLt``; backends/cuda/ops.py).

    Forward, inputs are cast to fp16, compared with a threshold, quantized; results are int32 and
    scaled. The product is counted as one of 16 bits, and waiting for the outliers is not. Backward,
    weights are cast to the type of the input and scaled, for a product of that type: fp32, where
    the model was prepared.
    """
    stream = rates.FP32 if is_prepared(setup) else one.compute
    speed = rates.get_memory_rate(machine)
    ahead = one.tokens * ((stream + 2 + _SEARCHED) * one.inner + (8 + 2 + stream) * one.outer)
    weights = one.copies * one.inner * one.outer / one.tp
    back = compute_product(one._replace(compute=stream), machine).backward
    back -= compute_product(one, machine).backward
    return Both(ahead / speed, back + weights * (lora.bits / 8 + 3 * stream) / speed)


def _count_adapter_bytes(setup: Setup, lora: Adapters, one: Product) -> Both:
    """Bytes that everything beside an adapter's products reads and writes in either pass.

    Single operations read and write the product to scale it, and read two and write one to sum
    them up. Compiled, what follows reads one more, the sum forward and its gradient backward, and
    only what dropout left is written.
    """
    if setup.compiled:
        written = one.compute if lora.dropout else 0
        ahead = one.compute * one.outer + written * one.inner
        return Both(one.tokens * ahead, one.tokens * one.compute * one.inner)
    if lora.joined:
        return _count_joined_bytes(lora, one)
    read = _count_input_bytes(setup, lora, one.compute)
    if _is_multiplied_wide(setup, lora, one.compute):
        # more is written, scaled, summed with what is narrower, and cast back
        summed = 6 * lora.width + one.compute
    else:
        summed = one.compute * (3 if setup.framework in _SCALED_ADAPTERS else 5)
    each = one.tokens * (read * one.inner + summed * one.outer)
    return Both(each, each)


def _is_multiplied_wide(setup: Setup, lora: Adapters, width: int) -> bool:
    """Whether an adapter's products are of its own type, wider than the model's."""
    return not (lora.cast_back or setup.framework in _OWN_ADAPTERS) and lora.width > width


def _count_joined_bytes(lora: Adapters, one: Product) -> Both:
    """The same of one function for weights and adapters: forward, what dropout left is written, and
    the adapter's product is added to the weights'; backward, what dropout left is compared with
    zero and multiplied with the gradient, which is added to the weights' (unsloth's LoRA_QKV, in
    fms_acceleration_foak/fused_ops/unsloth_lora/bnb/fast_lora.py)."""
    width = one.compute
    dropped, chosen = (2 * width + 1, 3 * width + 2) if lora.dropout else (0, 0)
    ahead = dropped * one.inner + 3 * width * one.outer
    return Both(one.tokens * ahead, one.tokens * (chosen + 3 * width) * one.inner)


def _count_input_bytes(setup: Setup, lora: Adapters, width: int) -> int:
    """Bytes that dropout and casts read and write of each element of an adapter's input.

    peft casts it to the adapter's fp32 (tuners/lora/layer.py, ``_cast_input_dtype``), so that
    dropout works in fp32, and autocast casts it back for the product, or else that reads more.
    Others' adapters are of the model's type.
    """
    wide = max(width, lora.width) if setup.framework not in _OWN_ADAPTERS else width
    casts = 2 * (width + wide) if wide > width else 0
    if _is_multiplied_wide(setup, lora, width):
        casts = width + wide + (wide - width)
    return casts + (2 * wide + 1 if lora.dropout else 0)


def has_adapter(setup: Setup, tensor: Tensor) -> bool:
    """Whether LoRA trains something beside this tensor."""
    return setup.adapters is not None and setup.adapters.has(tensor)


def count_trained(setup: Setup, tensors: tuple[Tensor, ...]) -> float:
    """Elements of these tensors that are trained, or of the adapters beside them."""
    lora = setup.adapters
    if lora is None:
        return float(sum(tensor.count for tensor in tensors))
    added = sum(
        t.times * prod(t.shape[:-2]) * lora.rank * sum(t.shape[-2:]) for t in tensors if lora.has(t)
    )
    return float(added + sum(t.count for t in tensors if t.kind in lora.trained_fully))
