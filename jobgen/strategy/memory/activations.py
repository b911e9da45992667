"""Bytes of activations: what stays of a layer and of the loss, and what is there while autograd
works.

``layer`` counts what autograd keeps; ``tests/strategy/memory`` holds both against torch's
MemTracker.
"""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.memory.layer import (
    FP32,
    compute_norm,
    count_quantized_inputs,
    get_input_divisor,
    get_residual_bytes,
    get_routed_divisor,
    get_softmax_bytes,
    get_width_divisor,
    has_attention,
    has_autocast,
    has_joined_norms,
    keep_all,
    keep_feed_forward,
    keep_multiplied,
    keep_score,
    keeps_input,
    keeps_product,
)
from jobgen.strategy.memory.mixer_bytes import flow_mixer
from jobgen.strategy.memory.selective import keep_selective
from jobgen.strategy.setup import Setup, has_frozen_weights


class Kept(NamedTuple):
    """Bytes of a rank's micro-batch: of one layer, and of the end."""

    layer: float
    """What stays of one layer until its backward pass."""
    working: float
    """What is there beside it while that layer goes backward."""
    logits: float
    """At the loss, where they are most."""
    input: float
    """Of what goes from one layer to the next."""
    last: float
    """What stays of the last norm, and of the output layer's input."""
    ending: float
    """Most while the last norm goes backward, with what stays of it."""
    cache: float = 0.0
    """Of a layer, until the backward pass has ended: keys and values, or inputs."""
    before: float = 0.0
    """The same, of the step before, until the forward pass has ended."""
    held: float = 0.0
    """Logits that the loop holds while layers go backward."""


def compute_kept(setup: Setup) -> Kept:
    """The bytes for one micro-batch on one rank: of layers the average of all kinds, while they are
    worked on that of the kind that needs most."""
    kinds = [
        (_keep_kind(setup._replace(model=model)), times)
        for model, times in setup.model.split_kinds()
    ]
    if len(kinds) == 1:
        return kinds[0][0]
    count = sum(times for _, times in kinds)
    return kinds[0][0]._replace(
        layer=sum(kept.layer * times for kept, times in kinds) / count,
        working=max(kept.working for kept, _ in kinds),
        cache=sum(kept.cache * times for kept, times in kinds) / count,
        before=sum(kept.before * times for kept, times in kinds) / count,
    )


def _keep_kind(setup: Setup) -> Kept:
    """The bytes where all layers are alike."""
    tokens, h = setup.tokens, setup.model.sizes.hidden
    everything = keep_all(setup)
    input_ = get_residual_bytes(setup) * h / get_width_divisor(setup)
    layer = {"none": everything, "selective": keep_selective(setup), "full": input_}[
        setup.recompute
    ]
    again = 0.0
    if setup.recompute != "none":
        again = everything + (0.0 if keeps_input(setup) else input_) - layer
    if setup.recompute == "full":  # on the average of all layers
        layer += (everything - layer) * (1 - 1 / setup.recompute_every)
    holds = setup.loss in {"held", "held-chunks"}
    held = FP32 * setup.model.sizes.vocab / setup.mesh.tp if holds else 0.0
    last = compute_norm(setup) / get_width_divisor(setup)
    last += setup.recipe.compute * h / get_input_divisor(setup)
    cache, adapters = _cache(setup), setup.adapters
    once = adapters is not None and adapters.keeps_inputs == "once"
    return Kept(
        tokens * layer,
        tokens * (again + _gradients(setup) + held),
        tokens * _logits(setup),
        tokens * input_,
        tokens * last,
        tokens * (_norm_backward(setup) + compute_norm(setup) / get_width_divisor(setup) + held),
        tokens * cache,
        0.0 if once else tokens * cache,
        tokens * held,
    )


def _cache(setup: Setup) -> float:
    sizes = setup.model.sizes
    if setup.adapters is not None and setup.adapters.keeps_inputs != "no":
        return count_quantized_inputs(setup)
    if not setup.keeps_cache or not sizes.attends:
        return 0.0
    return 2.0 * setup.recipe.compute * sizes.kv_heads * sizes.head_dim / setup.mesh.tp


def _norm_backward(setup: Setup) -> float:
    """Bytes of one token that a norm's backward pass needs beside what it keeps.

    RMSNorm written out in Python has five tensors in fp32 at once: the gradients of its output, of
    the mean and of the square, and the square's two factors. What the weight multiplied is gone.
    """
    sizes, width = setup.model.sizes, setup.recipe.compute
    if has_joined_norms(setup) or sizes.layer_norm:
        return 2.0 * width * sizes.hidden / get_width_divisor(setup)
    return (5.0 * FP32 - keep_multiplied(setup)) * sizes.hidden / get_width_divisor(setup)


_FLOWING = {"fused": 1, "eager": 2, "relu": 2, "squared": 3}
"""Activation → gradients of the feed-forward's width that are there at once, less what the last
linear layer has freed by then: the input's of the activation, or more where it is written out.
ReLU's output stays until the activation's gradient is there; of its square, the power and the
product with it are two more (torch, tools/autograd/derivatives.yaml, ``pow``)."""


def _gradients(setup: Setup) -> float:
    """Bytes of one token of gradients that flow through one layer: where they are most, in the
    feed-forward layer, in the norm behind it, or at the experts' weights; and the stream's."""
    sizes, width = setup.model.sizes, setup.recipe.compute
    each = 2 if sizes.gated else _FLOWING[sizes.activation]
    if has_frozen_weights(setup) and not keeps_product(setup):
        each += 1  # a frozen layer has kept no input that it could free
    # autocast's copy of the stream's gradient is there while the last linear layer goes backward
    copy = width * sizes.hidden / get_width_divisor(setup) if has_autocast(setup) else 0.0
    one = width * sizes.ffn / setup.mesh.tp
    inside = max(each * one, one + copy + _return_through_adapter(setup))
    if sizes.experts is not None:
        active = sizes.experts.active
        routed = active * sizes.experts.ffn + sizes.experts.shared_ffn
        # a router's weights in fp32 make three fp32 tensors of what comes back from the experts
        weighted = (3 * FP32 + width) * active * sizes.hidden / get_routed_divisor(setup)
        inside = max(each * width * routed / setup.mesh.tp, weighted)
    if not setup.flash and has_attention(setup):
        inside = max(inside, _flow_scores(setup))
    if sizes.mixes:
        mixing = flow_mixer(sizes.mixer, width) - keep_feed_forward(setup)
        inside = max(inside, mixing / setup.mesh.tp)
    if sizes.norms > 2:  # one in front of each half of the layer and one behind
        inside = max(inside, 5.0 * FP32 * sizes.hidden / get_width_divisor(setup))
    return inside + get_residual_bytes(setup) * sizes.hidden / get_width_divisor(setup)


def _return_through_adapter(setup: Setup) -> float:
    """Bytes of one token of gradients of the last product's input that come back through peft's
    adapter, beside the layer's own: dropped and not, or cast and not (peft, tuners/lora/layer.py,
    ``Linear.forward``)."""
    adapters, sizes, width = setup.adapters, setup.model.sizes, setup.recipe.compute
    if adapters is None or not keeps_product(setup) or adapters.width == width:
        return 0.0
    cast = adapters.autocast and not adapters.dropout
    return ((width if cast else adapters.width) + adapters.width) * sizes.ffn / setup.mesh.tp


def _flow_scores(setup: Setup) -> float:
    """Bytes of one token while scores of attention that are in memory go backward, beside what was
    kept of them, and less what the feed-forward layer has freed by then.

    Softmax has its output, that output's gradient and its input's at once (transformers,
    ``eager_attention_forward``), unless the gradient of what was dropped out, which comes before,
    is more; Megatron's works in its gradient's memory.
    """
    sizes, width = setup.model.sizes, setup.recipe.compute
    if setup.framework.startswith("megatron"):
        more = float(width)
    else:
        more = 3.0 * get_softmax_bytes(setup) + width * sizes.softcap - keep_score(setup)
        more = max(more, float(width))
    return (sizes.heads * setup.seq * more - keep_feed_forward(setup)) / setup.mesh.tp


_LOSS = {
    "plain": 12.0,
    "held": 16.0,
    "narrow": 8.0,
    "in-place": 6.0,
    "compiled": 4.0,
    "chunked": 3.5,
    "held-chunks": 8.0,
    "fused": 0.0,
}
"""Bytes of one logit at the most.

plain: log_softmax's output, its gradient and the gradient of its input, each fp32. Operation by
operation, where ranks of tp share the vocabulary: its output, its gradient, the exponential and
what both add up to (torch, distributed/tensor/parallel/loss.py,
``_nll_loss_and_log_softmax_backward``).
held: these and the logits, which transformers before 4.46 make fp32 and return (models/llama); a
loop that keeps what the model returned holds them, the Trainer does not (trainer.py,
``compute_loss``).
narrow: the logits and the same three in 16 bits.
in-place: the logits, and an fp32 copy that becomes its exponential and its own gradient
(Megatron-LM, core/tensor_parallel/cross_entropy.py, ``VocabParallelCrossEntropy``).
compiled: the logits and their gradient in 16 bits.
chunked: logits in 16 bits, and an eighth of plain (torchtune, modules/loss).
held-chunks: the logits, which Fabric makes fp32 (lightning/fabric/plugins/precision/half.py,
``convert_output``) and the loop holds, and log_softmax's output; of 128 tokens at once their
gradients, too (litgpt/utils.py, ``chunked_cross_entropy``).
fused: nothing stays (Liger, ops/fused_linear_cross_entropy.py).
"""


def _logits(setup: Setup) -> float:
    sizes = setup.model.sizes
    each = _LOSS[setup.loss]
    if setup.compiled and setup.loss == "chunked":
        each = 2.0 + 0.5
    if setup.loss == "plain" and setup.framework == "torchtitan" and setup.mesh.tp > 1:
        each += FP32
    if setup.loss == "held-chunks":
        each += (2 * FP32 + setup.recipe.compute) * min(1.0, 128 / setup.seq)
    if sizes.softcap and setup.loss in {"plain", "held", "narrow", "held-chunks"}:
        each += setup.recipe.compute  # tanh keeps its output
    return each * sizes.vocab / setup.mesh.tp
