"""All parameter tensors of a transformer, as transformers 5 builds them."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.shapes.architecture import (
    Architecture,
    Experts,
    Kind,
    Layer,
    LayerKind,
    Mla,
    Model,
    Tensor,
)
from jobgen.strategy.shapes.mixer_tensors import list_mixer_tensors


def build_model(arch: Architecture) -> Model:
    """The model with every parameter tensor, in the shape that transformers 5 gives it.

    Tensors have the names of Llama's modules. All experts of a layer are one tensor of three
    dimensions, as in transformers 5; older releases have a matrix for each, and the same count.
    """
    if arch.kinds:
        mixed = tuple(Layer(tuple(_parts(arch, kind)), kind.times) for kind in arch.kinds)
        return Model(arch, mixed, tuple(_root(arch)))
    experts = arch.experts
    sparse = experts.count_sparse(arch.layers) if experts else 0
    common = (*_attention(arch), *_norms(arch, "norm", arch.norms))
    layers = []
    if arch.layers > sparse:
        layers.append(Layer((*common, *_feed_forward(arch, "mlp", arch.ffn)), arch.layers - sparse))
    if experts and sparse:
        layers.append(Layer((*common, *_experts(arch, experts)), sparse))
    return Model(arch, tuple(layers), tuple(_root(arch)))


def _parts(arch: Architecture, kind: LayerKind) -> Iterator[Tensor]:
    """Of a layer of one kind."""
    if kind.attention:
        yield from _attention(arch)
    if kind.mixer and arch.mixer is not None:
        yield from list_mixer_tensors(arch.mixer, arch.hidden)
    yield from _norms(arch, "norm", arch.norms)
    if kind.feed_forward == "mlp":
        yield from _feed_forward(arch, "mlp", arch.ffn)
    if kind.feed_forward == "experts" and arch.experts is not None:
        yield from _experts(arch, arch.experts)


def _root(arch: Architecture) -> Iterator[Tensor]:
    width = arch.embedding_dim or arch.hidden
    if arch.vocab:
        yield Tensor("embed_tokens", "embedding", (arch.vocab, width))
    if arch.positions:
        yield Tensor("embed_positions", "position", (arch.positions, arch.hidden))
    if width != arch.hidden:
        yield Tensor("project_in", "embedding", (arch.hidden, width))
        yield Tensor("project_out", "head", (width, arch.hidden))
    yield from _norms(arch, "embedding_norm", int(arch.embedding_norm))
    yield from _norms(arch, "final_norm", int(arch.final_norm))
    if arch.vocab and not arch.tied:
        yield Tensor("lm_head", "head", (arch.vocab, width))
    if arch.vocab and arch.head_bias:
        yield Tensor("lm_head.bias", "head", (arch.vocab,))


def _attention(arch: Architecture) -> Iterator[Tensor]:
    if arch.mla is not None:
        yield from _latent(arch, arch.mla)
        return
    hidden, dim = arch.hidden, arch.head_dim
    queries, keys = arch.heads * dim, arch.kv_heads * dim
    if arch.fused_qkv:
        parts = {"qkv_proj": queries + 2 * keys}
    else:
        parts = {"q_proj": queries * (1 + arch.gated_attention), "k_proj": keys, "v_proj": keys}
    for name, width in parts.items():
        yield from _linear(arch, name, "attention", (width, hidden), arch.qkv_bias)
    yield from _linear(arch, "o_proj", "attention", (hidden, queries), arch.out_bias)
    if arch.qk_norm:
        whole = arch.qk_norm == "hidden"
        yield from _norm(arch, "q_norm", queries if whole else dim)
        yield from _norm(arch, "k_norm", keys if whole else dim)
    if arch.sinks:
        yield Tensor("sinks", "attention", (arch.heads,))


def _latent(arch: Architecture, mla: Mla) -> Iterator[Tensor]:
    """Multi-head latent attention: ``DeepseekV3Attention`` of transformers."""
    heads, hidden = arch.heads, arch.hidden
    queries = heads * (mla.nope_dim + mla.rope_dim)
    if mla.q_rank is None:
        yield Tensor("q_proj", "attention", (queries, hidden))
    else:
        yield from _linear(arch, "q_a_proj", "attention", (mla.q_rank, hidden), arch.qkv_bias)
        yield Tensor("q_a_norm", "norm", (mla.q_rank,))
        yield Tensor("q_b_proj", "attention", (queries, mla.q_rank))
    width = mla.kv_rank + mla.rope_dim
    yield from _linear(arch, "kv_a_proj", "attention", (width, hidden), arch.qkv_bias)
    yield Tensor("kv_a_norm", "norm", (mla.kv_rank,))
    width = heads * (mla.nope_dim + mla.v_dim)
    yield Tensor("kv_b_proj", "attention", (width, mla.kv_rank))
    yield from _linear(arch, "o_proj", "attention", (hidden, heads * mla.v_dim), arch.out_bias)


def _feed_forward(arch: Architecture, kind: Kind, ffn: int) -> Iterator[Tensor]:
    if arch.fused_gate_up:
        parts = {"gate_up_proj": 2 * ffn}
    else:
        parts = {"gate_proj": ffn, "up_proj": ffn} if arch.gated else {"up_proj": ffn}
    for name, width in parts.items():
        yield from _linear(arch, name, kind, (width, arch.hidden), arch.mlp_bias)
    yield from _linear(arch, "down_proj", kind, (arch.hidden, ffn), arch.mlp_bias)


def _experts(arch: Architecture, experts: Experts) -> Iterator[Tensor]:
    count, hidden = experts.count, arch.hidden
    width = experts.latent or hidden
    yield Tensor("router", "router", (count, hidden))
    if experts.router_bias:
        yield Tensor("router.bias", "router", (count,))
    up = ("gate_up_proj", 2 * experts.ffn) if arch.gated else ("up_proj", experts.ffn)
    for name, out, into in ((*up, width), ("down_proj", width, experts.ffn)):
        shape = (into, out) if experts.transposed else (out, into)
        yield Tensor(f"experts.{name}", "expert", (count, *shape))
        if experts.bias:
            yield Tensor(f"experts.{name}.bias", "expert", (count, out))
    if experts.latent:
        yield from _linear(arch, "fc1_latent_proj", "shared", (width, hidden), arch.mlp_bias)
        yield from _linear(arch, "fc2_latent_proj", "shared", (hidden, width), arch.mlp_bias)
    if experts.shared_ffn:
        yield from _feed_forward(arch, "shared", experts.shared_ffn)
        if experts.shared_gate:
            yield Tensor("shared_gate", "shared", (1, hidden))


def _norms(arch: Architecture, name: str, times: int) -> Iterator[Tensor]:
    if times:
        yield from _norm(arch, name, arch.hidden, times)


def _norm(arch: Architecture, name: str, width: int, times: int = 1) -> Iterator[Tensor]:
    yield Tensor(name, "norm", (width,), times)
    if arch.layer_norm and arch.norm_bias:
        yield Tensor(f"{name}.bias", "norm", (width,), times)


def _linear(
    arch: Architecture, name: str, kind: Kind, shape: tuple[int, int], bias: bool
) -> Iterator[Tensor]:
    """A linear layer of (outputs, inputs)."""
    outputs, inputs = shape
    yield Tensor(name, kind, (inputs, outputs) if arch.transposed else shape)
    if bias:
        yield Tensor(f"{name}.bias", kind, (outputs,))
