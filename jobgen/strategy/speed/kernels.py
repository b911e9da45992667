"""Kernels that the host starts for a layer, and what else takes its time."""

from __future__ import annotations

from jobgen.strategy.memory.layer import count_readers, has_attention, has_autocast
from jobgen.strategy.setup import LINEAR, Setup
from jobgen.strategy.shapes.architecture import Tensor, has_experts
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import adapter_products, rates
from jobgen.strategy.speed.elementwise import is_written_out
from jobgen.strategy.speed.mixer_costs import count_mixer

_UNPACK_OPS = 10
"""More for each quantized matrix that single operations make 16 bits wide: shift, cast, mask and
one of its zeros; shift, cast and mask of its weights; a copy; difference and product (AutoGPTQ,
nn_modules/qlinear/qlinear_cuda_old.py)."""
_DENSE_OPS = 33
"""Operations that a layer of Megatron-LM starts through torch's dispatcher."""
_ROUTED_OPS = 64
"""Operations of its layer that routes tokens to experts, without the products of these."""
_SHARED_OPS = 6
"""More where ranks of ep have other experts: they agree on who gets how many tokens
(core/transformer/moe/token_dispatcher.py, ``preprocess``)."""
_ATTENTION_OPS = 19
"""Of these, in attention with its norm and its sum (tests/strategy/speed/dispatched.py)."""
_SORTED_OPS = 6
"""Of these, behind an exchange of tokens, whose number differs from step to step: tokens are sorted
by expert, and back, and summed (token_dispatcher.py, ``dispatch_postprocess``,
``combine_preprocess`` and ``combine_postprocess``). No graph of a part of a layer has them."""
_EXCHANGES = 4
"""Collectives of these ranks: numbers of tokens, tokens, their weights, and tokens back."""
_EXPERT_OPS = 2
"""Operations for each expert of the rank: each of its two products is started alone (Transformer
Engine, common/gemm/cublaslt_gemm.cu, ``multi_stream_cublas_gemm``)."""
_BIAS_OPS = 2
"""More where experts have biases: a product and a sum (core/transformer/moe/experts.py)."""
RANDOM_OPS = 12
"""More for each layer that Megatron-LM computes again: three states of random numbers, taken twice
and set twice (core/tensor_parallel/random.py, ``CheckpointFunction``)."""
_COLLECTIVE_OPS = 5
"""Of one collective: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, ``collective``."""
_HOOK_OPS = 25
"""Of a module whose parameters DeepSpeed's ZeRO-3 gathers before it and releases after it: 840
calls of Python and C functions, where a Llama's layer of transformers makes 1190 for the time of 36
kernels. Counted on a CPU: tests/strategy/speed/hooked.py."""
_WRITTEN_OPS = 8
"""Of GELU written out (transformers, activations.py, ``NewGELUActivation``)."""
_SCORE_OPS = 6
"""Of attention whose scores are in memory, without casts: two products, scaling, a mask, softmax,
and a copy of the result (transformers, models/gpt2, ``eager_attention_forward``)."""
_LORA_OPS = 7
"""More for each adapter: dropout, two casts, two products, scaling, a sum."""


def count_added(setup: Setup, tensors: tuple[Tensor, ...]) -> float:
    """Kernels that Megatron-LM starts in the backward pass of one layer beside the layer's own: the
    sum of each gradient and its main one (core/distributed/distributed_data_parallel.py). Each
    expert has weights of its own (core/extensions/transformer_engine.py, ``TEGroupedLinear``), and
    an adapter has two."""
    if not setup.framework.startswith("megatron") or setup.graphs_step:
        return 0.0
    local = _count_local_experts(setup)
    trained = tensors
    if setup.adapters is not None:
        trained = 2 * tuple(each for each in tensors if adapter_products.has_adapter(setup, each))
    return sum(each.times * (local if each.kind == "expert" else 1.0) for each in trained)


def _count_local_experts(setup: Setup) -> float:
    """Experts of one rank; 1 without any."""
    experts = setup.model.sizes.experts
    return experts.count / setup.mesh.ep if experts else 1.0


def _has_biases(setup: Setup) -> bool:
    experts = setup.model.sizes.experts
    return experts is not None and experts.bias


def count_kernels(setup: Setup, tensors: tuple[Tensor, ...]) -> int:
    """Kernels that one layer starts in its forward pass, as transformers' models are written.

    One for each product, three of attention, two sums, one for each dropout; a norm is one, an
    RMSNorm six (to fp32, square, mean, root, product, product); rotation ten, five for queries and
    for keys; an activation one, and one for its gate, GELU written out eight. Compiled, what stands
    between products is one. Of Megatron-LM's layer, operations are counted where torch dispatches
    them.
    """
    sizes = setup.model.sizes
    linear = sum(len(tensor.shape) > 1 for tensor in tensors)
    adapted = sum(adapter_products.has_adapter(setup, tensor) for tensor in tensors)
    if setup.compiled:
        return 2 * linear + _LORA_OPS * adapted
    if setup.framework.startswith("megatron"):
        # two sums over the ranks of tp, each with an event and a wait before it and after it; along
        # a divided sequence, two gathers and two reductions (core/tensor_parallel/layers.py), but
        # for experts, which take tokens as they are divided
        sums = 4 if setup.sequence_parallel and not has_experts(tensors) else 2
        summed = sums * _COLLECTIVE_OPS if setup.mesh.tp > 1 and not setup.graphed else 0
        return _count_megatron_ops(setup, tensors) + summed + _LORA_OPS * adapted
    fused = sizes.layer_norm or setup.fused_norms or setup.joined_norms
    norms = sizes.norms * (1 if fused else 6)
    turned = 2 if setup.fused_norms else 10
    turned += 4 * setup.wide_rotation
    if sizes.positions or not has_attention(setup):
        turned = 0
    unpacked = _UNPACK_OPS * linear if is_unpacked(setup) else 0
    unpacked += 2 * linear if adapter_products.is_prepared(setup) else 0
    activation = _WRITTEN_OPS if is_written_out(setup) else 1 + sizes.gated
    core = _count_core(setup)
    core += 2 * setup.hidden_dropout + (setup.attention_dropout and not setup.flash)
    casts = _count_casts(setup, tensors)
    return linear + core + 2 + norms + turned + activation + casts + _LORA_OPS * adapted + unpacked


def _count_core(setup: Setup) -> int:
    """Of attention, and of what mixes tokens in its place or beside it."""
    sizes = setup.model.sizes
    core = 3 if setup.flash else _SCORE_OPS
    if not sizes.mixes:
        return core
    mixed = count_mixer(sizes.mixer, sizes.hidden, setup.recipe.compute).kernels
    return mixed + core * has_attention(setup)


def _count_casts(setup: Setup, tensors: tuple[Tensor, ...]) -> int:
    """Casts of autocast in one layer: of weights and biases, which are forgotten when its context
    ends (torch, aten/src/ATen/autocast_mode.cpp, ``clear_cache``), of the norms' outputs for the
    linear layers that read them, of scores after softmax, and around GELU written out."""
    if not has_autocast(setup) or setup.adapters is not None:
        return 0
    weights = sum(tensor.kind in LINEAR for tensor in tensors)
    scores = not setup.flash
    return weights + count_readers(setup) + scores + 2 * is_written_out(setup)


def _count_megatron_ops(setup: Setup, tensors: tuple[Tensor, ...]) -> int:
    """Of one layer of Megatron-LM, without what tp sends. CUDA graphs of layers start all but the
    experts and what brings tokens to them and back, whose number differs from step to step, and a
    graph of the step starts these, too."""
    routed = has_experts(tensors)
    if setup.graphs_step:
        return 0
    each = _EXPERT_OPS + _BIAS_OPS * _has_biases(setup)
    ops = each * _count_local_experts(setup) if routed else 0.0
    exchanges = _EXCHANGES * (routed and setup.mesh.ep > 1)
    if not setup.graphed:
        ops += (_ROUTED_OPS + _SHARED_OPS * (exchanges > 0)) if routed else _DENSE_OPS
    else:
        ops += _SORTED_OPS * (exchanges > 0) + _ATTENTION_OPS * (not setup.graphs_attention)
    return int(ops * rates.DISPATCHED) + _COLLECTIVE_OPS * exchanges


def count_hooks(setup: Setup) -> float:
    """Kernels that Python could start in the time of ZeRO-3's hooks around the modules of a layer,
    on the average of all, in one pass."""
    trait = TRAITS.get(setup.strategy)
    if trait is None or trait.family != "zero" or not trait.shards_parameters:
        return 0.0
    layers = setup.model.layers
    modules = sum(sum(len(t.shape) > 1 for t in one.tensors) * one.times for one in layers)
    return _HOOK_OPS * modules / max(1, setup.model.sizes.layers)


def is_unpacked(setup: Setup) -> bool:
    """Whether single operations make frozen weights 16 bits wide."""
    adapters = setup.adapters
    return adapters is not None and adapters.bits < 16 and not adapters.fused
