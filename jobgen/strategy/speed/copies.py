"""Bytes that sharding frameworks copy within a GPU's memory around their collectives."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import traffic

_SHARDS_GRADIENTS = 2
"""The stage of ZeRO from which gradients are sharded."""
_ALL_STAGES = 3
_COPIES_GATHERED = ("fsdp2", "zero")
"""Families that copy what they gathered into the parameters: FSDP2 by split_with_sizes_copy
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py), ZeRO-3 by torch.cat
(deepspeed/runtime/zero/partition_parameters.py). FSDP1's parameters are views of it."""


class Copied(NamedTuple):
    """Bytes read and written in one micro-batch on one rank."""

    forward: float
    backward: float


def count_copied(setup: Setup) -> Copied:
    """What is copied after parameters are gathered and before gradients are reduced.

    FSDP2 lays gradients in order and casts them at once (chunk_cat, the file above); FSDP1 lays
    them in order as the backward of its views, and casts them where they are reduced in a wider
    type (torch/distributed/fsdp/_runtime_utils.py); DeepSpeed copies them into its bucket
    (runtime/zero/stage_1_and_2.py and stage3.py).
    """
    trait = TRAITS[setup.strategy]
    if trait.stage < _SHARDS_GRADIENTS or setup.mesh.shard * setup.mesh.cp == 1:
        return Copied(0.0, 0.0)
    narrow, wide = setup.recipe.compute, setup.recipe.reduce
    gathered = 0.0
    if trait.family in _COPIES_GATHERED and trait.stage == _ALL_STAGES:
        gathered = 2.0 * narrow * traffic.count_largest_stage(setup).params
    gradients = {
        "fsdp": 2 * narrow + (narrow + wide if wide != narrow else 0),
        "fsdp2": narrow + wide,
        "zero": 2 * narrow,
    }[trait.family]
    reduced = gradients * traffic.count_largest_stage(setup, learned=True).params
    again = gathered if traffic.gathers_again(setup) else 0.0
    return Copied(gathered, again + reduced)
