"""Seconds of LoRA's adapters and of the frozen weights beside them that are quantized."""

from __future__ import annotations

from math import prod

from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.shapes.architecture import Tensor
from jobgen.strategy.speed import rates
from jobgen.strategy.speed.products import Both, Product, compute_product

_UNPACKED = 16.0
"""Bytes that single operations read and write of each weight: shifted in 4 bytes, cast to one,
masked, its zero taken off, scaled to 2 (AutoGPTQ, nn_modules/qlinear/qlinear_cuda_old.py)."""
_INT8 = 8
"""Bits of weights whose products are quantized too: LLM.int8 (arXiv:2208.07339)."""
_SEARCHED = 12.0
"""Bytes that LLM.int8 reads and writes of each input in fp16: 4 for its size, 3 to compare that, 2
to look for outliers, 3 to quantize (bitsandbytes, backends/cuda/ops.py,
``int8_vectorwise_quant``)."""
_OWN_ADAPTERS = ("megatron", "torchtune", "litgpt")
"""Frameworks whose LoRA is their own, not peft's."""
_SCALED_ADAPTERS = ("automodel",)
"""Frameworks whose kernel for an adapter scales its product
(nemo_automodel/components/_peft/lora_kernel.py)."""


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


def is_prepared(setup: Setup) -> bool:
    """Whether peft has made fp32 what is not quantized, and with it what lies between products."""
    lora = setup.adapters
    # with the embedding narrow again, only a norm of single operations returns fp32: its weight is
    return lora is not None and lora.prepared and not (lora.narrow_ends and setup.fused_norms)


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
