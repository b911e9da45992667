"""Bytes that autograd keeps of one layer, for each token, where nothing is computed again.

Counted tensor by tensor: ``torch.autograd.graph.saved_tensors_hooks`` lists what the layers of
transformers 5 keep (torch 2.13), and ``tests/strategy/memory/test_memtracker.py`` holds the sums
against torch's MemTracker. Tensors that a kernel reads and that lie in the same memory count once.
"""

from __future__ import annotations

from jobgen.strategy.memory.mixer_bytes import counts_bytes, keep_mixer
from jobgen.strategy.setup import LINEAR, Setup, has_frozen_weights

FP32 = 4
ROWS = ("o_proj", "down_proj")
"""Linear layers whose output tensor parallel ranks add up."""


def get_width_divisor(setup: Setup) -> int:
    """What divides tensors of hidden's width: tensor parallel ranks share the sequence or not."""
    return setup.mesh.tp if setup.sequence_parallel else 1


def get_input_divisor(setup: Setup) -> int:
    """What divides the inputs of linear layers that ranks of tp gather along the sequence."""
    return 1 if setup.keeps_gathered else get_width_divisor(setup)


def get_routed_divisor(setup: Setup) -> float:
    """What divides tokens on their way to the experts and back: ranks that share an expert each
    need all of its tokens, and gather them (Megatron-LM, core/transformer/moe/token_dispatcher.py).
    """
    return get_width_divisor(setup) / (setup.mesh.expert_tp if setup.sequence_parallel else 1)


def has_autocast(setup: Setup) -> bool:
    """Under autocast the stream between layers stays in the type of the embedding, which is that
    of the parameters, or of FSDP's MixedPrecision. Beside adapters it is fp32 where what is not
    quantized was made so (peft, utils/other.py, ``prepare_model_for_kbit_training``) or is as it
    was stored.
    """
    narrow = setup.recipe.compute < FP32
    cast = setup.strategy.startswith("fsdp")  # its MixedPrecision makes the embedding narrow
    if setup.adapters is not None:
        wide = setup.adapters.prepared and not (setup.adapters.narrow_ends and setup.fused_norms)
        return narrow and (wide or (setup.adapters.bits > 16 and not cast))
    return narrow and setup.recipe.params == FP32 and not cast


def get_residual_bytes(setup: Setup) -> int:
    """Bytes of an element of the stream between layers."""
    return FP32 if has_autocast(setup) else setup.recipe.compute


def keep_all(setup: Setup) -> float:
    """Where nothing is computed again."""
    sizes = setup.model.sizes
    wide = (_norms(setup) + _masks(setup) + _gated_share(setup)) / get_width_divisor(setup)
    wide += _count_inputs(setup) * setup.recipe.compute * sizes.hidden / get_input_divisor(setup)
    routed = _experts_wide(setup) / get_routed_divisor(setup)
    inside = _mixing(setup) + keep_feed_forward(setup)
    # LayerNorm keeps a mean and a deviation in fp32 (the CPU's in its input's type), RMSNorm one
    sums = (8.0 if sizes.layer_norm else 4.0) * _count(setup)
    return wide + routed + inside / setup.mesh.tp + sums + _adapted(setup)


def compute_norm(setup: Setup) -> float:
    """Bytes that one norm keeps, without its output."""
    sizes, width, h = setup.model.sizes, setup.recipe.compute, setup.model.sizes.hidden
    if has_joined_norms(setup):
        return get_residual_bytes(setup) * h  # the norm is computed again from its input
    if sizes.layer_norm:
        return (FP32 if has_autocast(setup) else width) * h  # autocast: layer_norm runs in fp32
    return (FP32 + keep_multiplied(setup)) * h  # its input in fp32


def keep_multiplied(setup: Setup) -> int:
    """Bytes of an element of what a norm's weight multiplies, in the type of its input. It is kept
    for the weight's gradient, and frozen weights have none."""
    if has_frozen_weights(setup):
        return 0
    return FP32 if setup.model.sizes.wide_norm or has_autocast(setup) else setup.recipe.compute


def keeps_input(setup: Setup) -> bool:
    """Whether what the first norm keeps is the layer's input itself, not a copy in fp32."""
    copied = not setup.model.sizes.layer_norm and get_residual_bytes(setup) < FP32
    return has_joined_norms(setup) or not copied


def has_joined_norms(setup: Setup) -> bool:
    """Whether an RMSNorm is one kernel."""
    return setup.compiled or setup.fused_norms or setup.joined_norms


def _count(setup: Setup) -> int:
    return setup.model.sizes.norms or 2  # OLMo's have no parameters


def _norms(setup: Setup) -> float:
    """Norms, without their outputs."""
    sizes = setup.model.sizes
    inputs = 1 if sizes.parallel and sizes.layer_norm else _count(setup)
    return inputs * compute_norm(setup)


def _count_inputs(setup: Setup) -> int:
    """Outputs of norms that linear layers read, each as often as it is kept."""
    if _casts_again(setup) or has_frozen_weights(setup):  # frozen weights need no input
        return 0
    if has_autocast(setup) and not setup.compiled:
        # each linear layer casts its input for itself: autocast remembers copies of weights only
        return count_readers(setup)
    sizes = setup.model.sizes
    # attention and a mixer side by side each scale their input (transformers, models/falcon_h1)
    beside = sizes.attends > 0 and sizes.mixes > 0
    return min(_count(setup), 2) + beside


def count_readers(setup: Setup) -> int:
    """Linear layers of one layer that each cast what a norm returns."""
    sizes = setup.model.sizes
    if sizes.kinds:
        linear = [tensor for tensor in setup.model.layers[-1].tensors if tensor.kind in LINEAR]
        return sum(tensor.name in _READERS for tensor in linear)
    read = 1 if sizes.fused_qkv else 3
    return read + (1 if sizes.fused_gate_up or not sizes.gated else 2)


_READERS = frozenset(
    (
        *("q_proj", "k_proj", "v_proj", "q_a_proj", "kv_a_proj", "gate_up_proj", "gate_proj"),
        *("up_proj", "in_proj", "in_proj_qkvz", "in_proj_ba", "in_proj_qkv", "in_proj_z"),
        *("in_proj_b", "in_proj_a", "a_proj", "b_proj", "g_proj", "f_a_proj", "g_a_proj"),
    )
)
"""Linear layers that read what a norm returns."""


def _masks(setup: Setup) -> float:
    """Bytes of what was dropped of the results of attention and of the feed-forward layer."""
    return 2.0 * setup.model.sizes.hidden * setup.hidden_dropout


def _gated_share(setup: Setup) -> float:
    """Bytes of what the expert that every token passes returns, for the gradient of its gate
    (transformers, models/qwen2_moe, ``Qwen2MoeSparseMoeBlock.forward``)."""
    experts = setup.model.sizes.experts
    if experts is None or not experts.shared_gate or not experts.shared_ffn:
        return 0.0
    return float(setup.recipe.compute * setup.model.sizes.hidden)


def _casts_again(setup: Setup) -> bool:
    """Whether 8-bit inputs of linear layers are made again for the backward pass, from what norms
    and activations keep and the scales that the forward pass found: the compiler cuts where fewest
    bytes are kept (torch, _functorch/partitioners.py, ``min_cut_rematerialization_partition``; of a
    layer with torchao's Float8Linear it keeps no input but attention's output, in both types)."""
    kept = setup.compiled and setup.recompute == "none" and setup.adapters is None
    return kept and setup.recipe.has_narrow_products


def _mixing(setup: Setup) -> float:
    """Attention, or what mixes tokens in its place or beside it."""
    sizes = setup.model.sizes
    mixed = keep_mixer(sizes.mixer, sizes.hidden, setup.recipe.compute) if sizes.mixes else 0.0
    return mixed + (_attention(setup) if has_attention(setup) else 0.0)


def has_attention(setup: Setup) -> bool:
    """Whether a layer has attention, or a mixer that is counted like it."""
    sizes = setup.model.sizes
    return sizes.attends > 0 or (sizes.mixes > 0 and not counts_bytes(sizes.mixer))


def _attention(setup: Setup) -> float:
    """Queries, keys, values, the output, and a sum in fp32 for each head."""
    sizes, width = setup.model.sizes, setup.recipe.compute
    a, d = sizes.heads, sizes.head_dim
    if sizes.mla is not None:
        mla = sizes.mla
        turned = mla.nope_dim + mla.rope_dim
        low = (mla.q_rank or 0) * 2 + mla.kv_rank * 2
        kept = float(width * (a * (2 * turned + 2 * mla.v_dim) + low))
    else:
        kept = width * _heads(setup) + _normed_heads(setup)
    scores = 0.0 if setup.flash else a * setup.seq * keep_score(setup)
    cast = a * d if _casts_again(setup) else 0
    return kept + cast + FP32 * a + scores + (2 * d if sizes.sinks else 0)


def _heads(setup: Setup) -> int:
    """Elements of queries, keys, values and the output."""
    sizes = setup.model.sizes
    a, g, d = sizes.heads, sizes.kv_heads, sizes.head_dim
    groups = a if setup.repeat_kv else g
    # what is put together of two parts lies head by head, and so does attention's output, of which
    # the output's linear layer then keeps a copy
    twice = sizes.rotary == "part" and not setup.compiled
    out = (2 if twice else 1) * a * d
    out += 2 * a * d * sizes.gated_attention  # the gate's sigmoid, and its product with the output
    if not sizes.fused_qkv or groups > g:
        return a * d + 2 * groups * d + out
    # views of the one matrix's output keep all of it, compiled or not; what is rotated is new
    fused = (a + 2 * g) * d
    return fused + out + ((a + g) * d if sizes.rotary else 0)


def _normed_heads(setup: Setup) -> float:
    """Bytes of the norms of queries and keys."""
    sizes = setup.model.sizes
    if not sizes.qk_norm or setup.compiled:
        return 0.0
    heads = sizes.heads + sizes.kv_heads
    sums = FP32 * (heads if sizes.qk_norm == "head" else 2)
    each = setup.recipe.compute
    if not setup.joined_norms:
        multiplied = FP32 if sizes.wide_norm else setup.recipe.compute
        each = FP32 + (0 if has_frozen_weights(setup) else multiplied)
    return float(each * heads * sizes.head_dim + sums)


def keep_score(setup: Setup) -> float:
    """Bytes of one score of attention, where all are in memory.

    Megatron keeps them after softmax, and after dropout with its mask of a byte (arXiv:2205.05198,
    section 4.1); transformers in fp32 after softmax and once more for the product with the values
    (``eager_attention_forward``), and a tanh before. Dropout on a GPU keeps a mask of a byte, and
    its result is what the values are multiplied with (torch, tools/autograd/derivatives.yaml,
    ``native_dropout``).
    """
    width, wide = setup.recipe.compute, get_softmax_bytes(setup)
    if setup.framework.startswith("megatron"):
        return 2 * width + 1
    dropped = setup.attention_dropout
    again = width if width < wide or dropped else 0
    return wide + again + dropped + (width if setup.model.sizes.softcap else 0)


def get_softmax_bytes(setup: Setup) -> int:
    """Bytes of one score after softmax: GPT-2's has the type of the scores (transformers,
    models/gpt2), unless autocast widens it."""
    narrow = setup.model.sizes.transposed and not has_autocast(setup)
    return setup.recipe.compute if narrow else FP32


_PLAIN = {"fused": 2, "eager": 5, "relu": 1, "squared": 2}
"""Activation → tensors of the feed-forward's width that stay, where nothing is gated: the input and
the output; of GELU written out also tanh, one more than it, and half of the input; ReLU's output is
also the next layer's input, or what is squared."""
_WIDE_EAGER = 18
"""Bytes of an element where GELU is written out under autocast: pow computes in fp32, and what
follows from it, on CUDA (torch.amp's list of operations; the CPU's list does not have pow)."""


def keep_feed_forward(setup: Setup) -> float:
    """Bytes inside the feed-forward layer: gate, its activation, up and their product."""
    sizes, width = setup.model.sizes, setup.recipe.compute
    kept = _PLAIN["fused" if setup.compiled and sizes.activation == "eager" else sizes.activation]
    if sizes.gated:
        again = setup.compiled or setup.fused_activation
        kept += 1 if again else 2  # the activation may be computed again
    if _casts_again(setup):
        kept -= 1
    each = float(width * kept)
    if has_autocast(setup) and kept >= _PLAIN["eager"]:
        each += _WIDE_EAGER - width * _PLAIN["eager"]
    experts = sizes.experts
    if experts is None:
        return each * sizes.ffn
    sparse = experts.active * experts.ffn + experts.shared_ffn
    share = 1 - experts.dense_layers / sizes.layers
    return each * (share * sparse + (1 - share) * sizes.ffn)


def _experts_wide(setup: Setup) -> float:
    """Tokens on their way to the experts and back, a copy for each that is chosen."""
    experts = setup.model.sizes.experts
    if experts is None:
        return 0.0
    return 2.0 * setup.recipe.compute * experts.active * setup.model.sizes.hidden


def _adapted(setup: Setup) -> float:
    """Bytes of one token that adapters add, less the input of the last product, which a frozen
    weight does not need.

    Each adapter keeps its input: dropped in part, with a mask of a byte; or a cast copy, where its
    weights are wider than what is computed. Where neither is so, it is the input of all that read
    the same, once.
    """
    adapters, width, tp = setup.adapters, setup.recipe.compute, setup.mesh.tp
    if adapters is None:
        return 0.0
    sizes = setup.model.sizes
    adapted = [tensor for tensor in setup.model.layers[-1].tensors if adapters.has(tensor)]
    freed = has_frozen_weights(setup) and sizes.experts is None
    inner = width * sizes.ffn if freed else 0
    if adapters.dropout or adapters.width != width:
        each = (width if adapters.autocast else adapters.width) + adapters.dropout
        return (each * sum(t.shape[-1] * t.times for t in adapted) - inner) / tp
    if not has_frozen_weights(setup):
        return 0.0  # the weights beside them keep it
    normed = {tensor.kind for tensor in adapted if tensor.name not in ROWS}
    read = width * sizes.hidden * len(normed) / get_width_divisor(setup)
    return read - (0 if keeps_product(setup) else inner / tp)


def keeps_product(setup: Setup) -> bool:
    """Whether an adapter, or a gradient of the weights beside it, keeps the input of the last
    product of a layer."""
    adapters = setup.adapters
    if adapters is None:
        return False
    if adapters.flattened:
        return True
    tensors = setup.model.layers[-1].tensors
    return any(adapters.has(tensor) and tensor.name == "down_proj" for tensor in tensors)


def count_quantized_inputs(setup: Setup) -> float:
    """Bytes of one token of what the quantized matrices of a layer read."""
    sizes = setup.model.sizes
    # each casts an input of another type for itself
    normed = count_readers(setup) if has_autocast(setup) else min(_count(setup), 2)
    inner = sizes.ffn if sizes.experts is None else 0
    wide = normed * sizes.hidden / get_width_divisor(setup)
    return setup.recipe.compute * (wide + (sizes.heads * sizes.head_dim + inner) / setup.mesh.tp)
