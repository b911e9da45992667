"""Seconds that a GPU computes in one micro-batch: matrix products, attention, all the rest."""

from __future__ import annotations

from functools import lru_cache

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.memory.layer import has_attention
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Tensor, has_experts
from jobgen.strategy.spec import Batch, Mesh, Offloaded
from jobgen.strategy.speed import adapter_products, layer_products, products, rates
from jobgen.strategy.speed.attention import compute_attention, get_head_dims
from jobgen.strategy.speed.elementwise import (
    count_elementwise,
    count_expert_activation,
    count_moved,
    count_single_operations,
)
from jobgen.strategy.speed.kernels import count_added, count_kernels
from jobgen.strategy.speed.mixer_costs import compute_mixer, count_mixer

_LOSS_BYTES = {"plain": 32, "narrow": 16}
"""Bytes that are read and written of each logit: to fp32, to its logarithm, to the gradient and
back, or all that in 16 bits."""
_FUSED_LOSS_BYTES = 8
"""Compiled, or in chunks: read three times, written once, in 16 bits."""
_OWN_CHECKPOINT = ("megatron", "megatron-deepspeed", "deepspeed", "paddle")
_NEVER_STOPS = ("torchtitan",)
"""Frameworks that do not let torch's checkpoint stop early: ``early_stop=False``."""
_COMPILES_WITHIN = ("torchtune",)
"""Frameworks that compile a layer and put the checkpoint around it (recipes/
full_finetune_single_device.py), so that it is called as a whole: others compile both together."""
_CHECKPOINTS_BLOCKS = ("automodel",)
"""Frameworks that checkpoint a layer's attention and its feed-forward block apart
(nemo_automodel/components/distributed/parallelizer.py)."""
_ROWS = ("o_proj", "down_proj")
"""Matrices whose rows tp divides."""


class Neighbors(NamedTuple):
    """Seconds of what is computed in one pass of a layer beside what is sent."""

    attention: float
    mlp: float


class ProductsBeside(NamedTuple):
    """Products of one layer beside which tp can send."""

    gathers: Neighbors
    """They take what is gathered."""
    reduces: Neighbors
    """They make what is reduced."""
    recomputed: Neighbors
    """Of those that take it, every second product of the layer: torchtitan's selective
    checkpointing computes these again (torchtitan/distributed/activation_checkpoint.py)."""


class Blocks(NamedTuple):
    """Seconds of a layer with experts, of all before its tokens are dispatched, and of experts."""

    forward: Neighbors
    backward: Neighbors


class LayerTimes(NamedTuple):
    """Seconds of one layer, or of what is in no layer, in one micro-batch on one rank."""

    forward: float
    backward: float
    attention: float = 0.0
    """Of the forward pass."""
    products: float = 0.0
    """Of the forward pass, those with weights."""
    calls: float = 0.0
    """Kernels of the forward pass."""
    added: float = 0.0
    """Of the backward pass alone, beside two for each of those."""
    tail: float = 0.0
    """Of the forward pass, the end, whose results the backward pass does not need."""


def count_flops(setup: Setup) -> float:
    """Model FLOPs of one token: 6 for each parameter that it passes, 12 L h s for attention, and 6
    for each multiply-add of what mixes tokens in its place.

    With adapters 4, as frozen parameters have no gradients. PaLM (arXiv 2204.02311), appendix B,
    which counts attention as if nothing were masked.
    """
    sizes = setup.model.sizes
    each = 4 if setup.adapters else 6
    mixed = sizes.mixes * count_mixer(sizes.mixer, sizes.hidden, setup.recipe.compute).multiplied
    return (
        each * setup.model.active
        + 6 * sizes.attends * sizes.heads * sum(get_head_dims(sizes)) * setup.seq
        + 6 * mixed
    )


def compute_layer(setup: Setup, machine: ClusterHardware) -> LayerTimes:
    """A layer's times, on the average of all."""
    return _layers(keep_what_counts(setup), machine)


def compute_head(setup: Setup, machine: ClusterHardware) -> LayerTimes:
    """Times of the output layer and the loss, on the rank that has them."""
    return _head(keep_what_counts(setup), machine)


def keep_what_counts(setup: Setup) -> Setup:
    """The setup with everything at one value that no micro-batch's computing depends on, so that
    a search among strategies computes each only once."""
    mesh, batch = setup.mesh, setup.batch
    family = "fsdp" if setup.strategy.startswith("fsdp") else ""  # it has no autocast
    return setup._replace(
        strategy=family,
        mesh=Mesh(1, 1, mesh.tp, 1, mesh.cp, mesh.ep, mesh.etp),
        batch=Batch(batch.micro, batch.accumulation if products.is_narrow(setup) else 1, 1),
        recompute="none",
        recompute_every=1,
        reshard=True,
        offload=Offloaded(),
        chunks=1,
        overlap_experts=False,
    )


@lru_cache(maxsize=1024)
def _layers(setup: Setup, machine: ClusterHardware) -> LayerTimes:
    kinds = [
        (_layer(setup._replace(model=model), machine, layer.tensors), layer.times)
        for model, _ in setup.model.split_kinds()
        for layer in model.layers
    ]
    count = sum(times for _, times in kinds) or 1
    means = (
        sum(one[i] * times for one, times in kinds) / count for i in range(len(LayerTimes._fields))
    )
    return LayerTimes(*means)


def _layer(setup: Setup, machine: ClusterHardware, tensors: tuple[Tensor, ...]) -> LayerTimes:
    linear = layer_products.compute_products(setup, machine, tensors)
    core = _compute_mixing(setup, machine)
    rest = count_elementwise(setup, tensors) / rates.get_memory_rate(machine)
    moved = count_moved(setup, tensors) / rates.get_memory_rate(machine)
    ahead, back = (
        bytes_ / rates.get_memory_rate(machine)
        for bytes_ in count_single_operations(setup, tensors)
    )
    return LayerTimes(
        linear.forward + core.forward + rest + moved + ahead,
        linear.backward + core.backward + 2 * rest + moved + back,
        core.forward,
        linear.forward,
        count_kernels(setup, tensors),
        count_added(setup, tensors),
        compute_tail(setup, machine, tensors),
    )


def _compute_mixing(setup: Setup, machine: ClusterHardware) -> products.Both:
    """Seconds of attention, and of what mixes tokens in its place or beside it."""
    mixed = compute_mixer(setup, machine)
    if not has_attention(setup):
        return mixed
    core = compute_attention(setup, machine)
    return products.Both(core.forward + mixed.forward, core.backward + mixed.backward)


def stops_early(setup: Setup) -> bool:
    """Whether full recomputation ends before the last product: torch's checkpoint stops as soon as
    it has what the backward pass needs (torch/utils/checkpoint.py, ``early_stop``), and a compiled
    backward pass has nothing else (torch/_functorch/partitioners.py, ``eliminate_dead_code``)."""
    if setup.framework in _OWN_CHECKPOINT:
        return False
    if setup.compiled:
        return setup.framework not in _COMPILES_WITHIN
    return not setup.reentrant and setup.framework not in _NEVER_STOPS


def compute_tail(setup: Setup, machine: ClusterHardware, tensors: tuple[Tensor, ...]) -> float:
    """Seconds of the products whose results no gradient needs, of all experts: the last one of what
    is checkpointed. An adapter beside it keeps torch's checkpoint from stopping before it; compiled
    code leaves it out even so."""
    ends = _ROWS if setup.framework in _CHECKPOINTS_BLOCKS else _ROWS[-1:]
    last = tuple(one for one in tensors if one.name in ends)
    if setup.compiled:
        setup = setup._replace(adapters=None)
    elif any(adapter_products.has_adapter(setup, one) for one in last):
        return 0.0
    return layer_products.compute_products(setup, machine, last).forward


@lru_cache(maxsize=1024)
def compute_neighbors(setup: Setup, machine: ClusterHardware) -> ProductsBeside:
    """Seconds of the products beside which tp gathers their input, and of those beside which it
    reduces their result: of attention, and of the feed-forward layer."""
    matrices = [one for one in setup.model.layers[-1].tensors if len(one.shape) > 1]
    groups = (
        [one for one in matrices if one.name not in _ROWS],
        [one for one in matrices if one.name in _ROWS],
        [one for one in matrices[1::2] if one.name not in _ROWS],
    )
    return ProductsBeside(*(_sum_neighbors(setup, machine, group) for group in groups))


@lru_cache(maxsize=1024)
def compute_blocks(setup: Setup, machine: ClusterHardware) -> Blocks:
    """Seconds of the blocks beside which another micro-batch's tokens are dispatched and combined.

    Attention, router, and shared experts; then experts with half of what sorts tokens for them
    (Megatron-LM, core/models/gpt/fine_grained_callables.py).
    """
    tensors = next(one.tensors for one in setup.model.layers if has_experts(one.tensors))
    layer, speed = _layer(setup, machine, tensors), rates.get_memory_rate(machine)
    routed = tuple(one for one in tensors if one.kind == "expert")
    linear = layer_products.compute_products(setup, machine, routed)
    gate = count_expert_activation(setup, tensors) / speed
    sorted_ = count_moved(setup, tensors) / 2 / speed
    ahead, back = linear.forward + gate + sorted_, linear.backward + 2 * gate + sorted_
    return Blocks(Neighbors(layer.forward - ahead, ahead), Neighbors(layer.backward - back, back))


def _sum_neighbors(setup: Setup, machine: ClusterHardware, matrices: list[Tensor]) -> Neighbors:
    parts = {"attention": 0.0, "mlp": 0.0}
    for one in matrices:
        part = "attention" if one.kind == "attention" else "mlp"
        parts[part] += layer_products.compute_products(setup, machine, (one,)).forward
    return Neighbors(**parts)


@lru_cache(maxsize=1024)
def _head(setup: Setup, machine: ClusterHardware) -> LayerTimes:
    sizes = setup.model.sizes
    frozen = setup.adapters is not None and "head" not in setup.adapters.trained_fully
    vocab = _pad_vocabulary(setup)
    one = products.build_product(setup, sizes.hidden, vocab, narrow=False, frozen=frozen)
    took = products.compute_product(one, machine)
    each = _LOSS_BYTES.get(setup.loss, _FUSED_LOSS_BYTES)
    half = setup.tokens * sizes.vocab / setup.mesh.tp * each / 2 / rates.get_memory_rate(machine)
    return LayerTimes(took.forward + half, took.backward + half, calls=10)


def _pad_vocabulary(setup: Setup) -> int:
    """Rows of the output layer."""
    vocab = setup.model.sizes.vocab
    if not setup.framework.startswith("megatron"):
        return vocab
    divisor = setup.vocab_divisor * setup.mesh.tp
    return -(-vocab // divisor) * divisor
