"""Seconds that a GPU computes in one micro-batch: matrix products, attention, all the rest."""

from __future__ import annotations

from functools import lru_cache

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Architecture, Tensor
from jobgen.strategy.spec import TRAITS, Batch, Mesh, Offloaded
from jobgen.strategy.speed import products, rates
from jobgen.strategy.speed.elementwise import count_elementwise, count_moved

_UNPACK_OPS = 10
"""More for each quantized matrix that single operations make 16 bits wide: shift, cast, mask and
one of its zeros; shift, cast and mask of its weights; a copy; difference and product (AutoGPTQ,
nn_modules/qlinear/qlinear_cuda_old.py)."""
_MEGATRON_OPS = int(33 * rates.DISPATCHED)
"""Of a layer of Megatron-LM, which starts 33 operations through torch's dispatcher."""
RANDOM_OPS = 12
"""More for each layer that Megatron-LM computes again: three states of random numbers, taken twice
and set twice (core/tensor_parallel/random.py, ``CheckpointFunction``)."""
_COLLECTIVE_OPS = 5
"""Of one collective: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, ``collective``."""
_HOOK_OPS = 25
"""Of a module whose parameters DeepSpeed's ZeRO-3 gathers before it and releases after it: 840
calls of Python and C functions, where a Llama's layer of transformers makes 1190 for the time of 36
kernels. Counted on a CPU: tests/strategy/speed/hooked.py."""
_SHARDED = 3
"""The stage of ZeRO that also shards parameters."""
_LORA_OPS = 7
"""More for each adapter: dropout, two casts, two products, scaling, a sum."""
_LOSS_BYTES = {"plain": 32, "narrow": 16}
"""Bytes that are read and written of each logit: to fp32, to its logarithm, to the gradient and
back, or all that in 16 bits."""
_FUSED_LOSS_BYTES = 8
"""Compiled, or in chunks: read three times, written once, in 16 bits."""
_OWN_CHECKPOINT = ("megatron", "megatron-deepspeed", "deepspeed")
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
    """Seconds of products of one layer, in its forward pass."""

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
    """Model FLOPs of one token: 6 for each parameter that it passes, 12 L h s for attention.

    With adapters 4, as frozen parameters have no gradients. PaLM (arXiv 2204.02311), appendix B,
    which counts attention as if nothing were masked.
    """
    sizes = setup.model.sizes
    each = 4 if setup.adapters else 6
    return (
        each * setup.model.active
        + 6 * sizes.layers * sizes.heads * sum(get_head_dims(sizes)) * setup.seq
    )


def get_head_dims(sizes: Architecture) -> tuple[int, int]:
    """Width of a head's queries and of its values."""
    if sizes.mla is None:
        return sizes.head_dim, sizes.head_dim
    return sizes.mla.nope_dim + sizes.mla.rope_dim, sizes.mla.v_dim


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
        reshard=True,
        offload=Offloaded(),
        chunks=1,
        overlap_experts=False,
    )


@lru_cache(maxsize=1024)
def _layers(setup: Setup, machine: ClusterHardware) -> LayerTimes:
    kinds = [(_layer(setup, machine, layer.tensors), layer.times) for layer in setup.model.layers]
    count = sum(times for _, times in kinds) or 1
    means = (
        sum(one[i] * times for one, times in kinds) / count for i in range(len(LayerTimes._fields))
    )
    return LayerTimes(*means)


def _layer(setup: Setup, machine: ClusterHardware, tensors: tuple[Tensor, ...]) -> LayerTimes:
    linear = products.compute_products(setup, machine, tensors)
    core = compute_attention(setup, machine)
    rest = count_elementwise(setup, tensors) / rates.get_memory_rate(machine)
    moved = count_moved(setup, tensors) / rates.get_memory_rate(machine)
    return LayerTimes(
        linear.forward + core.forward + rest + moved,
        linear.backward + core.backward + 2 * rest + moved,
        core.forward,
        linear.forward,
        count_kernels(setup, tensors),
        count_added(setup, tensors),
        compute_tail(setup, machine, tensors),
    )


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
    elif any(products.has_adapter(setup, one) for one in last):
        return 0.0
    return products.compute_products(setup, machine, last).forward


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


def _sum_neighbors(setup: Setup, machine: ClusterHardware, matrices: list[Tensor]) -> Neighbors:
    parts = {"attention": 0.0, "mlp": 0.0}
    for one in matrices:
        part = "attention" if one.kind == "attention" else "mlp"
        parts[part] += products.compute_products(setup, machine, (one,)).forward
    return Neighbors(**parts)


def count_added(setup: Setup, tensors: tuple[Tensor, ...]) -> int:
    """Kernels that Megatron-LM starts in the backward pass of one layer beside the layer's own: the
    sum of each gradient and its main one (core/distributed/distributed_data_parallel.py)."""
    if not setup.framework.startswith("megatron"):
        return 0
    return sum(tensor.times for tensor in tensors)


def count_kernels(setup: Setup, tensors: tuple[Tensor, ...]) -> int:
    """Kernels that one layer starts in its forward pass, as transformers' models are written.

    One for each product, three of attention, two sums; a norm is one, an RMSNorm six (to fp32,
    square, mean, root, product, product); rotation ten, five for queries and for keys; an
    activation one, and one for its gate. Compiled, what stands between products is one. Of
    Megatron-LM's layer, operations are counted where torch dispatches them.
    """
    sizes = setup.model.sizes
    linear = sum(len(tensor.shape) > 1 for tensor in tensors)
    adapted = sum(products.has_adapter(setup, tensor) for tensor in tensors)
    if setup.compiled:
        return 2 * linear + _LORA_OPS * adapted
    if setup.framework.startswith("megatron"):
        # two sums over the ranks of tp, each with an event and a wait before it and after it
        summed = 2 * _COLLECTIVE_OPS if setup.mesh.tp > 1 else 0
        return _MEGATRON_OPS + summed + _LORA_OPS * adapted
    fused = sizes.layer_norm or setup.fused_norms
    norms = sizes.norms * (1 if fused else 6)
    turned = 2 if setup.fused_norms else 10
    turned += 4 * setup.wide_rotation
    if sizes.positions:
        turned = 0
    unpacked = _UNPACK_OPS * linear if is_unpacked(setup) else 0
    unpacked += 2 * linear if products.is_prepared(setup) else 0
    return linear + 3 + 2 + norms + turned + 1 + sizes.gated + _LORA_OPS * adapted + unpacked


def count_hooks(setup: Setup) -> float:
    """Kernels that Python could start in the time of ZeRO-3's hooks around the modules of a layer,
    on the average of all, in one pass."""
    trait = TRAITS.get(setup.strategy)
    if trait is None or trait.family != "zero" or trait.stage != _SHARDED:
        return 0.0
    layers = setup.model.layers
    modules = sum(sum(len(t.shape) > 1 for t in one.tensors) * one.times for one in layers)
    return _HOOK_OPS * modules / max(1, setup.model.sizes.layers)


def is_unpacked(setup: Setup) -> bool:
    """Whether single operations make frozen weights 16 bits wide."""
    adapters = setup.adapters
    return adapters is not None and adapters.bits < 16 and not adapters.fused


_SCORES = {"": (5.0, 5.0), "megatron": (6.5, 10.5)}
"""Times that scores are written or read, forward and backward: by the products, by softmax, and by
Megatron-LM's dropout, whose mask is half as wide (core/transformer/dot_product_attention.py)."""


def compute_attention(setup: Setup, machine: ClusterHardware) -> products.Both:
    """Seconds of the attention of one layer: products of queries and keys, scores and values.

    Without regard to a mask 2 s (d_qk + d_v) FLOPs for a token and a head. FlashAttention skips
    the half that the causal mask hides, and does five products backward where others do four
    (arXiv 2307.08691). Without it, scores are written and read between the products.
    """
    sizes = setup.model.sizes
    qk, v = get_head_dims(sizes)
    heads = sizes.heads / setup.mesh.tp
    work = 2.0 * setup.tokens * setup.seq * heads * (qk + v)
    if setup.flash:
        ahead, back = (
            work / 2 / rates.get_attention_rate(machine, setup.framework, backward=backward)
            for backward in (False, True)
        )
        return products.Both(ahead, 2.5 * back)
    # tensor cores need rows of whole 16 bytes (NVIDIA, Matrix Multiplication Background)
    aligned = all(width * setup.recipe.compute % 16 == 0 for width in (qk, v))
    rate = rates.get_matmul_rate(machine) if aligned else rates.get_vector_rate(machine)
    scores = setup.tokens * setup.seq * heads * setup.recipe.compute
    ahead, back = _SCORES["megatron" if setup.framework.startswith("megatron") else ""]
    each = scores / rates.get_memory_rate(machine)
    return products.Both(work / rate + ahead * each, 2 * work / rate + back * each)


@lru_cache(maxsize=1024)
def _head(setup: Setup, machine: ClusterHardware) -> LayerTimes:
    sizes = setup.model.sizes
    frozen = setup.adapters is not None and "head" not in setup.adapters.trained_fully
    one = products.build_product(setup, sizes.hidden, sizes.vocab, narrow=False, frozen=frozen)
    took = products.compute_product(one, machine)
    each = _LOSS_BYTES.get(setup.loss, _FUSED_LOSS_BYTES)
    half = setup.tokens * sizes.vocab / setup.mesh.tp * each / 2 / rates.get_memory_rate(machine)
    return LayerTimes(took.forward + half, took.backward + half, calls=10)
