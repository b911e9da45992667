"""The mapping of job.yaml: four sizes are enough, and the rest can be said."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.form import check_form
from jobgen.model.trained import ModelShape
from jobgen.strategy.shapes import Architecture, build_model, complete_shape, find_model


def of(**said: Any) -> Architecture:
    return complete_shape(check_form(ModelShape)(said))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt2", {"layers": 12, "hidden": 768, "heads": 12, "positions": 1024, "tied": True}),
        ("bloom-7b1", {"layers": 30, "hidden": 4096, "heads": 32, "tied": True}),
        ("Llama-2-7b-hf", {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008}),
        (
            "Llama-3.1-8B",
            {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336},
        ),
        (
            "Llama-3.2-1B",  # four times as wide as hidden, and yet gated: its kv_heads tell
            {"layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 8, "tied": True},
        ),
        (
            "SmolLM2-1.7B",  # nothing tells
            {"layers": 24, "hidden": 2048, "heads": 32, "gated": True, "tied": True},
        ),
        (
            "Qwen2.5-7B",
            {
                "layers": 28,
                "hidden": 3584,
                "heads": 28,
                "kv_heads": 4,
                "ffn": 18944,
                "qkv_bias": True,
            },
        ),
        (
            "Qwen3-32B",
            {
                "layers": 64,
                "hidden": 5120,
                "heads": 64,
                "kv_heads": 8,
                "head_dim": 128,
                "ffn": 25600,
                "qk_norm": True,
            },
        ),
        (
            "Mixtral-8x7B-v0.1",
            {
                "layers": 32,
                "hidden": 4096,
                "heads": 32,
                "kv_heads": 8,
                "ffn": 14336,
                "experts": 8,
            },
        ),
        (
            "Qwen3-30B-A3B",
            {
                "layers": 48,
                "hidden": 2048,
                "heads": 32,
                "kv_heads": 4,
                "head_dim": 128,
                "qk_norm": True,
                "experts": 128,
                "experts_active": 8,
                "expert_ffn": 768,
            },
        ),
    ],
)
def test_a_known_model_can_be_written_down(name: str, said: dict[str, Any]) -> None:
    wanted = find_model(name)
    assert wanted is not None
    missing = 2 * wanted.hidden if wanted.embedding_norm else 0
    built, real = build_model(of(vocab=wanted.vocab, **said)), build_model(wanted)
    assert built.count + missing == real.count
    assert built.active + missing == real.active


def test_what_is_said_wins_over_what_is_guessed() -> None:
    arch = of(layers=2, hidden=64, heads=4, ffn=256, norm="rmsnorm", bias=False, qkv_bias=True)
    assert (arch.gated, arch.layer_norm, arch.mlp_bias, arch.qkv_bias) == (
        False,
        False,
        False,
        True,
    )
    arch = of(layers=2, hidden=64, heads=4, experts=4, experts_active=9, shared_ffn=32, gated=False)
    assert arch.experts is not None
    assert (arch.experts.active, arch.experts.shared_ffn, arch.gated) == (4, 32, False)


def test_without_a_vocabulary_only_layers_are_counted() -> None:
    built = build_model(of(layers=2, hidden=64, heads=4))
    assert [tensor.name for tensor in built.root] == ["final_norm", "final_norm.bias"]
