"""Bytes that sharding frameworks copy within a GPU's memory around their collectives."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import products, rates, traffic
from jobgen.strategy.speed.sequence_traffic import gathers_beside, get_gathered_bytes
from jobgen.strategy.speed.stage_slice import count_largest_stage, get_gathered_width

_COPIES_GATHERED = ("fsdp2", "zero")
"""Families that copy what they gathered into the parameters: FSDP2 by split_with_sizes_copy
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py), ZeRO-3 by torch.cat
(deepspeed/runtime/zero/partition_parameters.py). FSDP1's parameters are views of it."""


_DTENSOR = ("torchtitan", "automodel")
"""Frameworks whose tensor parallel is torch's DTensor."""

_SHARE = 3 / 4
"""Of the elements that a step merges, on the average of whole steps and halves."""


class Copied(NamedTuple):
    """Bytes read and written in one micro-batch on one rank."""

    forward: float
    backward: float


def count_copied(setup: Setup) -> Copied:
    """What is copied around the collectives of sharding, of tensor and of context parallel, and to
    add gradients up."""
    accumulated = Copied(0.0, _count_accumulated(setup))
    parts = (_count_sharded(setup), _count_divided(setup), _count_merged(setup), accumulated)
    return Copied(sum(one.forward for one in parts), sum(one.backward for one in parts))


def _count_divided(setup: Setup) -> Copied:
    """What DTensor copies around the all-gathers and reduce-scatters of sequence parallel.

    Collectives join ranks along the first dimension, which is the batch: more than one sample is
    read and written once more to lay the sequence in order, or out of it
    (torch/distributed/_functional_collectives.py, ``gather_dim`` and ``scatter_dim``). Beside
    products, pieces come where they belong, and only those that ranks reduced are read again, to
    be summed (torch/distributed/_symmetric_memory, ``_fused_matmul_reduce_scatter``); backward,
    what is reduced lies beside no product (sequence_traffic.py).
    """
    mesh, sizes = setup.mesh, setup.model.sizes
    if mesh.tp == 1 or not setup.sequence_parallel or setup.framework not in _DTENSOR:
        return Copied(0.0, 0.0)
    ordered = 2 if setup.batch.micro > 1 else 0
    gathered = (0 if gathers_beside(setup) else ordered) * get_gathered_bytes(setup)
    reduced = (1 if setup.overlap_tp else ordered) * setup.recipe.compute
    layers = -(-sizes.layers // mesh.pp)
    each = 2.0 * layers * setup.tokens * sizes.hidden
    ahead = each * (gathered + reduced)
    again = {"none": 0.0, "selective": each * gathered, "full": ahead}[setup.recompute]
    return Copied(ahead, each * (gathered + ordered * setup.recipe.compute) + again)


def _count_merged(setup: Setup) -> Copied:
    """What torch's context parallel reads and writes to merge what a rank has of each other's keys
    and values, in fp32.

    In single operations a result is cast forward (6 bytes of each element) and weighed against
    those before (36), backward a gradient is added (10), and those of keys and values are joined to
    be sent (8). Half of the steps have half of the queries, or of the keys, and are put into the
    whole (8). That is torch/distributed/tensor/experimental/_context_parallel/_attention.py,
    ``_SDPAMerger`` and ``_templated_ring_attention_backward``. Compiled, each result and each
    gradient is read once, with what is there, and written where it is sent from.
    """
    sizes, mesh = setup.model.sizes, setup.mesh
    if mesh.cp == 1 or setup.framework != "torchtitan":
        return Copied(0.0, 0.0)
    each = setup.tokens * sizes.head_dim / mesh.tp * -(-sizes.layers // mesh.pp)
    queries = each * sizes.heads
    keys = queries if setup.repeat_kv else each * sizes.kv_heads
    if setup.compiled:
        merged = added = sent = _SHARE * 2 + 8
    else:
        merged, added = _SHARE * (6 + 36) + 8 / 2, _SHARE * 10 + 8 / 2
        sent = added + 8
    ahead = (mesh.cp - 1) * merged * queries
    back = mesh.cp * (added * queries + 2 * sent * keys)
    return Copied(ahead, back + ahead * (setup.recompute == "full"))


def _count_sharded(setup: Setup) -> Copied:
    """What is copied after parameters are gathered and before gradients are reduced.

    FSDP2 lays gradients in order and casts them at once (chunk_cat, the file above); FSDP1 lays
    them in order as the backward of its views, and casts them where they are reduced in a wider
    type (torch/distributed/fsdp/_runtime_utils.py); DeepSpeed copies them into its bucket
    (runtime/zero/stage_1_and_2.py and stage3.py).
    """
    trait = TRAITS[setup.strategy]
    if not trait.shards_gradients or setup.mesh.shard * setup.mesh.cp == 1:
        return Copied(0.0, 0.0)
    narrow, wide = setup.recipe.compute, setup.recipe.reduce
    gathered = 0.0
    if trait.family in _COPIES_GATHERED and trait.shards_parameters:
        whole = count_largest_stage(setup)
        layers = get_gathered_width(setup, whole) * (whole.params - whole.root)
        gathered = 2.0 * (layers + narrow * whole.root)
    gradients = {
        "fsdp": 2 * narrow + (narrow + wide if wide != narrow else 0),
        "fsdp2": narrow + wide,
        "zero": 2 * narrow,
    }[trait.family]
    reduced = gradients * count_largest_stage(setup, learned=True).params
    again = gathered if traffic.gathers_again(setup) else 0.0
    return Copied(gathered, again + reduced)


def _count_accumulated(setup: Setup) -> float:
    """What is read and written to add a micro-batch's gradients to those before, where the product
    that makes them does not (``products.adds_gradients``).

    autograd keeps the first and adds each later one, two read and one written
    (torch/csrc/autograd/functions/accumulate_grad.h). Where main gradients lie beside others, these
    are read, too (DeepSpeed, runtime/bf16_optimizer.py).
    """
    if products.adds_gradients(setup):
        return 0.0
    trait, recipe, micro = TRAITS[setup.strategy], setup.recipe, setup.batch.accumulation
    whole = not trait.shards_gradients or setup.unsynced
    most = count_largest_stage(setup, learned=True)
    local = most.dense + most.experts * setup.mesh.tp / setup.mesh.expert_parts
    if not whole:
        local /= setup.mesh.shard * setup.mesh.cp
    if recipe.grads > rates.FP32:
        return local * (recipe.grads - rates.FP32 + 2 * rates.FP32)
    return local * 3 * recipe.grads * (micro - 1) / micro
