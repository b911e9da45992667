"""What layers without attention compute and move: only attention's cost grows with the sequence."""

from __future__ import annotations

import pytest

from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes import build_model, find_model
from jobgen.strategy.shapes.architecture import Model
from jobgen.strategy.shapes.mixers import GatedDelta
from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed.attention import compute_attention
from jobgen.strategy.speed.compute import compute_layer, count_flops, count_kernels
from jobgen.strategy.speed.mixer_costs import compute_mixer, count_mixer
from tests.strategy.speed.setups import H100, setup

NEXT = GatedDelta(16, 32, 128, 128, 4)


def hybrid(name: str = "Qwen/Qwen3.5-9B", seq: int = 4096) -> Setup:
    arch = find_model(name)
    assert arch is not None
    return setup("fsdp", mesh=Mesh(1, 8), model=build_model(arch), seq=seq, micro=1)


def split(one: Setup) -> list[tuple[Model, int]]:
    return list(one.model.split_kinds())


def test_only_layers_with_attention_have_its_flops() -> None:
    short, long = hybrid(), hybrid(seq=8192)
    more = 6 * 8 * 16 * 2 * 256 * (8192 - 4096)  # 8 of 32 layers, 16 heads of 256
    assert count_flops(long) - count_flops(short) == more


def test_only_layers_with_attention_take_longer_with_the_length() -> None:
    one = hybrid()
    kinds = {model.sizes.mixes > 0: one._replace(model=model) for model, _ in split(one)}
    assert compute_layer(kinds[True], H100).attention == compute_mixer(kinds[True], H100).forward
    assert compute_layer(kinds[False], H100).attention == compute_attention(one, H100).forward
    each = (compute_layer(kinds[kind], H100).forward for kind in (True, False))
    mean = sum(part * forward for part, forward in zip((0.75, 0.25), each, strict=True))
    assert compute_layer(one, H100).forward == pytest.approx(mean)


def test_a_gated_delta_net_computes_what_its_chunks_need() -> None:
    # 32 heads: three products with a state of 128 x 128, five within a chunk of 64 tokens
    assert count_mixer(NEXT, 2048, 2).multiplied == 32 * (3 * 128 * 128 + 5 * 64 * 128)


def test_layers_without_attention_start_kernels_of_their_own() -> None:
    one = hybrid()
    counts = {
        model.sizes.mixes > 0: count_kernels(one._replace(model=model), model.layers[0].tensors)
        for model, _ in split(one)
    }
    assert counts[True] > counts[False]


@pytest.mark.slow
@pytest.mark.train("torch", "transformers")
def test_the_products_are_those_of_transformers_but_for_the_triangular_ones() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers.models.qwen3_next import modeling_qwen3_next

    rule = modeling_qwen3_next.torch_chunk_gated_delta_rule
    heads, dim, tokens, chunk = 4, 32, 256, 64
    q, k, v = (torch.rand(1, tokens, heads, dim) for _ in range(3))
    counter = FlopCounterMode(display=False)
    with counter:
        rule(q, k, v, -torch.rand(1, tokens, heads), torch.rand(1, tokens, heads))
    found = count_mixer(GatedDelta(heads, heads, dim, dim, 4), 64, 2).multiplied
    solved = heads * chunk * 2 * dim  # which the kernels multiply with an inverse
    assert counter.get_total_flops() == 2 * tokens * (found - solved)
