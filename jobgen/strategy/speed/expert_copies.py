"""How many copies of a token are sent to the experts that it passes, and whose."""

from __future__ import annotations

from math import comb

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Experts
from jobgen.strategy.speed.collectives import RankGroup


class Copies(NamedTuple):
    """Copies of one token, its own rank's and node's among them."""

    ranks: float
    """Copies that ranks receive in all."""
    nodes: float
    """Copies that nodes receive from the network, where tokens are forwarded inside of them; 0
    where each rank receives its own over the network."""


def count_copies(setup: Setup, experts: Experts, ranks: RankGroup) -> Copies:
    """Copies that one token needs among the ranks of ep.

    NCCL's all-to-all sends a token once for each of its experts. DeepEP and HybridEP send it once
    to each node that has any of them, and there once to each rank that has any
    (deepseek-ai/DeepEP, csrc/kernels/legacy/layout.cu, ``is_token_in_rank`` and
    ``num_tokens_per_rdma_rank``).
    """
    if not setup.fused_dispatch:
        return Copies(experts.active, 0.0)
    reached = count_reached(experts, ranks.size)
    return Copies(reached, count_reached(experts, ranks.nodes) if ranks.nodes > 1 else 0.0)


def count_sorted_rows(setup: Setup, experts: Experts) -> float:
    """Rows of hidden's width that are read and written for one token, in the forward pass and in
    the backward pass each, where tokens are sorted by their experts and brought back.

    A token is read and a copy written for each of its experts; what they return is read, and summed
    into one. After NCCL's all-to-all, copies are sorted once more by the experts of the rank, and
    back (Megatron-LM, core/transformer/moe/token_dispatcher.py, ``sort_chunks_by_idxs``;
    torchtitan/models/moe, ``permute``). DeepEP's copies are sorted once, as ranks receive them.
    Where all tokens are gathered, those of the rank's experts are copied out, and added to zeros
    for all tokens (Megatron-LM, core/transformer/moe/moe_utils.py, ``unpermute``).
    For products of less than 16 bits, Megatron-LM copies the tokens of each expert to where their
    number is a multiple of 16 or 32, and back (experts.py, ``quantization_padding``); HybridEP puts
    them there (fused_a2a.py, ``pad_multiple``).
    """
    if setup.gathers_tokens:
        return 5 * experts.active + setup.mesh.ep
    if setup.mesh.ep > 1 and setup.fused_dispatch:
        return 2 * (experts.active + count_reached(experts, setup.mesh.ep))
    again = 4 * experts.active if setup.mesh.ep > 1 else 0
    if setup.framework == "megatron" and setup.recipe.has_narrow_products:
        again += 4 * experts.active
    return 2 * (experts.active + 1) + again


def count_reached(experts: Experts, parts: int) -> float:
    """How many of so many equal parts of the experts one token passes on the average, if all
    choices of experts are equally likely."""
    others = experts.count - experts.count // parts
    return parts * (1 - comb(others, experts.active) / comb(experts.count, experts.active))
