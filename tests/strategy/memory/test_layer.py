"""What a layer keeps, listed tensor by tensor for a few models: bytes of one token."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.memory.activations import compute_kept
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.shapes import Architecture, Experts, build_model
from jobgen.strategy.spec import Batch, Mesh

H, A, G, D, F = 512, 8, 2, 64, 1376
LLAMA = Architecture("llama", 2, H, A, G, D, F, 1000)
SMALL = Setup(build_model(LLAMA), "ddp", Mesh(1, 1), Batch(1, 1, 1), 1, RECIPES["pure"])


def layer(setup: Setup = SMALL, **differs: Any) -> float:
    """Bytes that one layer keeps, of Llama's with these differences."""
    arch = LLAMA._replace(**differs)
    return compute_kept(setup._replace(model=build_model(arch))).layer


NORM = 4 * H + 2 * H + 2 * H + 4
"""Its input in fp32, what the weight multiplies, the output, and a root in fp32."""
ATTENTION = 2 * (A * D + G * D + G * D + A * D) + 4 * A
"""Queries, keys, values, the output, and a sum for each head."""


def test_llama_keeps_two_norms_attention_and_four_tensors_of_the_feed_forward() -> None:
    assert layer() == 2 * NORM + ATTENTION + 4 * 2 * F == 21800


def test_dropout_keeps_a_byte_of_each_element_that_two_blocks_return() -> None:
    dropped = SMALL._replace(hidden_dropout=True)
    assert layer(dropped) - layer() == 2 * H
    divided = dropped._replace(mesh=Mesh(1, 1, tp=2), sequence_parallel=True)
    assert layer(divided) - layer(divided._replace(hidden_dropout=False)) == H


def test_scores_that_are_dropped_out_are_kept_before_and_after_with_a_mask() -> None:
    eager = SMALL._replace(flash=False)
    dropped = eager._replace(attention_dropout=True)
    assert layer(dropped) - layer(eager) == A  # a mask: they are cast after softmax in any case
    assert layer(dropped, transposed=True) - layer(eager, transposed=True) == A * (1 + 2)
    assert layer(SMALL._replace(attention_dropout=True)) == layer()


def test_gemma_multiplies_in_fp32_and_has_two_norms_more() -> None:
    wide = 2 * (NORM + 2 * H)
    assert layer(wide_norm=True) == wide + ATTENTION + 4 * 2 * F
    behind = 2 * (4 * H + 4 * H + 4)  # nothing linear reads what they return
    assert layer(wide_norm=True, norms=4) == wide + behind + ATTENTION + 4 * 2 * F


def test_norms_of_heads_keep_their_input_in_fp32_and_their_product() -> None:
    assert layer(qk_norm="head") - layer() == (4 + 2) * (A + G) * D + 4 * (A + G)


def test_a_matrix_for_queries_keys_and_values_is_kept_whole_beside_what_is_rotated() -> None:
    assert layer(fused_qkv=True) - layer() == 2 * (A + 2 * G) * D - 2 * G * D
    assert layer(fused_qkv=True, rotary="") - layer() == 0
    assert layer(rotary="part") - layer() == 2 * A * D


def test_a_compiled_layer_keeps_that_matrix_whole_too() -> None:
    """torch's min-cut partitioner saves the values as a view of it, and what is rotated anew."""
    compiled = SMALL._replace(compiled=True)
    more = 2 * (A + 2 * G) * D - 2 * G * D
    assert layer(compiled, fused_qkv=True) - layer(compiled) == more
    assert layer(compiled, fused_qkv=True, rotary="") - layer(compiled) == 0


def test_a_compiled_layer_in_float8_keeps_no_input_but_attentions_output() -> None:
    """torch's min-cut partitioner, of a layer of torchao's Float8Linear: 14 tensors and scales."""
    wide = SMALL._replace(compiled=True)
    narrow = wide._replace(recipe=wide.recipe._replace(name="pure, fp8"))
    norms, product, output = 2 * 2 * H, 2 * F, A * D
    assert layer(wide) - layer(narrow) == norms + product - output
    eager = wide._replace(compiled=False)
    assert layer(narrow._replace(compiled=False)) == layer(eager)


@pytest.mark.parametrize(
    ("targets", "autocast", "kept"),
    [
        (("q_proj", "v_proj"), True, 17000),
        (("q_proj", "v_proj"), False, 19048),
        (("q_proj", "k_proj", "v_proj", "o_proj"), True, 19048),
        (("q_proj", "k_proj", "v_proj", "o_proj"), False, 23144),
        (("gate_proj", "up_proj", "down_proj"), True, 19752),
        (("gate_proj", "up_proj", "down_proj"), False, 24552),
    ],
)
def test_frozen_layers_keep_no_inputs_and_each_adapter_of_peft_its_cast_input(
    targets: tuple[str, ...], autocast: bool, kept: int
) -> None:
    """What saved_tensors_hooks lists of transformers 5 and peft 0.21, without the outputs of the
    adapters' first products: 32 bytes each."""
    adapters = Adapters(8, targets, dropout=False, autocast=autocast)
    assert layer(SMALL._replace(adapters=adapters)) == kept


def test_adapters_as_narrow_as_the_base_share_their_input() -> None:
    frozen = layer(SMALL._replace(adapters=Adapters(8, ("o_proj",), dropout=False, width=2)))
    for targets, more in ((("q_proj", "v_proj"), 2 * H), (("gate_proj", "down_proj"), 2 * (H + F))):
        adapters = Adapters(8, targets, dropout=False, width=2)
        assert layer(SMALL._replace(adapters=adapters)) - frozen == more
    dropped = Adapters(8, ("q_proj", "v_proj"), width=2)  # each with a mask of its own
    assert layer(SMALL._replace(adapters=dropped)) - frozen == 2 * 3 * H


def test_tensor_parallel_ranks_that_share_an_expert_have_all_of_its_tokens() -> None:
    tokens = 2 * (2 * 2 * H)
    sparse: dict[str, Any] = {"experts": Experts(8, 2, F)}
    shared = SMALL._replace(mesh=Mesh(1, 1, tp=4), sequence_parallel=True)
    own = shared._replace(mesh=Mesh(1, 1, tp=4, etp=1))
    assert layer(shared, **sparse) - layer(own, **sparse) == tokens - tokens / 4
    whole = shared._replace(sequence_parallel=False)
    assert layer(whole, **sparse) - layer(whole, experts=Experts(8, 1, 2 * F)) == tokens / 2


def test_torchs_own_norms_keep_their_inputs_alone() -> None:
    # of torch.nn.RMSNorm on a GPU, saved_tensors_hooks lists its input, its weight and a root
    joined = SMALL._replace(joined_norms=True)
    assert layer() - layer(joined) == 2 * (NORM - 2 * H - 2 * H - 4)
    assert layer(joined, qk_norm="head") - layer(joined) == 2 * (A + G) * D + 4 * (A + G)


def test_linear_layers_keep_their_part_of_the_input_or_all_that_they_gathered() -> None:
    shared = SMALL._replace(mesh=Mesh(1, 1, tp=4), sequence_parallel=True)
    gathered = shared._replace(keeps_gathered=True)
    assert layer(gathered) - layer(shared) == 2 * 2 * H * 3 / 4
    kept = compute_kept(gathered)
    assert kept.last - compute_kept(shared).last == gathered.tokens * 2 * H * 3 / 4


def test_experts_keep_a_copy_of_the_token_for_each_that_it_passes() -> None:
    sparse = layer(experts=Experts(8, 2, F))
    assert sparse == 2 * NORM + ATTENTION + 2 * (4 * 2 * F) + 2 * (2 * 2 * H)


def test_layer_norms_keep_their_input_and_gelu_its_two_ends() -> None:
    plain: dict[str, Any] = {"layer_norm": True, "gated": False}
    norms = 2 * (2 * H + 2 * H + 8)
    assert layer(**plain) == norms + ATTENTION + 2 * 2 * F
    assert layer(**plain, activation="eager") - layer(**plain) == 3 * 2 * F
    assert layer(**plain, activation="relu") - layer(**plain) == -2 * F
    assert layer(**plain, parallel=True) - layer(**plain) == -2 * H


def test_under_autocast_the_stream_is_fp32_and_each_linear_layer_casts_its_input() -> None:
    norms = 2 * (4 * H + 4 * H + 4) + 5 * 2 * H
    setup = SMALL._replace(recipe=RECIPES["autocast"])
    assert layer(setup) == norms + ATTENTION + 4 * 2 * F
    assert layer(setup, fused_qkv=True, fused_gate_up=True, rotary="") == layer(setup) - 3 * 2 * H


def test_selective_keeps_attention_and_every_second_product() -> None:
    setup = SMALL._replace(recompute="selective")
    queries, values, gate, down = A * D, G * D, F, H
    assert layer(setup) == 2 * (H + queries + values + gate + down + A * D) + 4 * A == 7136
    biased = 2 * (H + A * D + 2 * G * D + H + F + H + A * D) + 4 * A  # keys and the output too
    assert layer(setup, qkv_bias=True, out_bias=True) == biased
    compiled = setup._replace(compiled=True)
    assert layer(setup) - layer(compiled) == 2 * down


def test_full_keeps_the_input() -> None:
    assert layer(SMALL._replace(recompute="full")) == 2 * H
    wide = SMALL._replace(recompute="full", recipe=RECIPES["autocast"])
    assert layer(wide) == 4 * H


def test_tensor_parallel_ranks_divide_what_is_inside_and_norms_with_the_sequence() -> None:
    split = SMALL._replace(mesh=Mesh(1, 1, tp=2))
    sums = 2 * 4
    norms = 2 * NORM - sums
    assert layer(split) == norms + sums + (layer() - 2 * NORM) / 2
    assert layer(split._replace(sequence_parallel=True)) == sums + (layer() - sums) / 2


def test_scores_are_kept_where_attention_is_not_flash() -> None:
    here = SMALL._replace(seq=100, flash=False)
    each = compute_kept(here).layer - compute_kept(here._replace(flash=True)).layer
    assert each / here.tokens == A * 100 * (4 + 2)
    megatron = here._replace(framework="megatron")
    core = compute_kept(megatron).layer - compute_kept(megatron._replace(flash=True)).layer
    assert core / here.tokens == A * 100 * 5
    gpt2 = layer(here, transposed=True) - layer(here._replace(flash=True), transposed=True)
    assert gpt2 / here.tokens == A * 100 * 2
