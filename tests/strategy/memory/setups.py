"""Setups of any kind, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from jobgen.strategy.memory.recipes import RECIPES, get_recipe
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.shapes import Architecture, Experts, build_model
from jobgen.strategy.spec import TRAITS, Batch, Mesh

LLAMA = Architecture("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256)
MODELS = tuple(
    build_model(arch)
    for arch in (
        LLAMA,
        LLAMA._replace(
            name="GPT-2",
            layers=12,
            hidden=768,
            heads=12,
            kv_heads=12,
            head_dim=64,
            ffn=3072,
            vocab=50257,
            gated=False,
            tied=True,
            positions=1024,
            layer_norm=True,
            qkv_bias=True,
            out_bias=True,
            mlp_bias=True,
            fused_qkv=True,
            rotary="",
            activation="eager",
        ),
        LLAMA._replace(name="Gemma-2", norms=4, tied=True, wide_norm=True, softcap=True),
        LLAMA._replace(name="Qwen3", qk_norm="head", vocab=151936),
        LLAMA._replace(name="Phi-3", fused_qkv=True, fused_gate_up=True, rotary="part"),
        LLAMA._replace(name="Mixtral", vocab=32000, experts=Experts(8, 2, 14336)),
    )
)
ADAPTERS = (Adapters(8, ()), Adapters(16, (), bits=4), Adapters(8, (), flattened=True))
SHARDED = tuple(name for name, trait in TRAITS.items() if trait.stage)


@st.composite
def setups(draw: st.DrawFn, shard: int | None = None) -> Setup:
    """One setup; of this many ranks that share its states, where it says so."""
    name = draw(st.sampled_from(sorted(TRAITS)))
    ranks = shard or draw(st.sampled_from((1, 2, 4, 8, 64)))
    split = TRAITS[name].stage > 0
    axes = "tp" in TRAITS[name].axes
    tp, pp = (draw(st.sampled_from((1, 2, 4))) if axes else 1 for _ in range(2))
    mesh = Mesh(1 if split else ranks, ranks if split else 1, tp, pp)
    states = get_recipe(
        draw(st.sampled_from(sorted(RECIPES))), draw(st.sampled_from(("adamw", "adamw8bit", "sgd")))
    )
    return Setup(
        draw(st.sampled_from(MODELS)),
        name,
        mesh,
        Batch(draw(st.integers(1, 8)), draw(st.integers(1, 8)), ranks),
        draw(st.sampled_from((512, 2048, 8192))),
        states,
        recompute=draw(st.sampled_from(("none", "selective", "full"))),
        framework=draw(st.sampled_from(("torch", "megatron", "deepspeed"))),
        flash=draw(st.booleans()),
        compiled=draw(st.booleans()),
        loss=draw(st.sampled_from(("plain", "narrow", "compiled", "chunked", "fused"))),
        persistent_grads=draw(st.booleans()),
        copied_grads=draw(st.booleans()),
        fused_step=draw(st.booleans()),
        repeat_kv=draw(st.booleans()),
        loose=draw(st.booleans()),
        sequence_parallel=draw(st.booleans()),
        adapters=draw(st.sampled_from((None, None, *ADAPTERS))),
        unsynced=draw(st.booleans()),
        longest_first=draw(st.booleans()),
        step_in_backward=draw(st.booleans()),
        keeps_full_copy=draw(st.booleans()),
    )
