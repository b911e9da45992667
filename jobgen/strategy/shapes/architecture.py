"""The sizes of a transformer, and its parameter tensors: values only.

``count`` hides that of tuple on purpose: nobody counts the fields of these values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Literal

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.shapes.mixers import Mixer

Kind = Literal[
    "embedding",
    "position",
    "head",
    "norm",
    "attention",
    "mixer",
    "mlp",
    "expert",
    "shared",
    "router",
]
"""Where a tensor belongs: ``shared`` are the experts that every token passes; ``mixer`` is what no
linear layer has of those that mix tokens without attention."""


class Mla(NamedTuple):
    """Multi-head latent attention, as DeepSeek's: widths of the compressed queries, keys and
    values, and of a head's two parts."""

    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int


class Experts(NamedTuple):
    """A mixture of experts: how many, how many each token passes, and how wide each is."""

    count: int  # type: ignore[assignment]
    active: int
    ffn: int
    shared_ffn: int = 0
    """Width of what every token passes beside its own experts, 0 where there is nothing."""
    dense_layers: int = 0
    """Layers at the front without experts."""
    every: int = 1
    """Every how many layers there are experts."""
    shared_gate: bool = False
    router_bias: bool = False
    bias: bool = False
    """The experts' own matrices have biases."""
    transposed: bool = False
    """The experts' matrices are kept as (inputs, outputs)."""
    latent: int = 0
    """Width to which tokens are projected for their experts, and back; 0 where they are not."""

    def count_sparse(self, layers: int) -> int:
        """How many of this many layers have experts."""
        return max(0, layers // self.every - self.dense_layers // self.every)


class LayerKind(NamedTuple):
    """Layers that have the same parts."""

    attention: bool
    mixer: bool
    feed_forward: Literal["", "mlp", "experts"]
    times: int


class Architecture(NamedTuple):
    """A transformer decoder by its sizes. What is left at its default is what Llama has."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True
    """Three matrices in the feed-forward layer; two where not."""
    tied: bool = False
    """The output layer shares the embedding's parameters."""
    positions: int = 0
    """Learned positions; 0 where they are computed."""
    layer_norm: bool = False
    """LayerNorm with its bias; RMSNorm where not."""
    norm_bias: bool = True
    """Whether LayerNorm has a bias."""
    norms: int = 2
    """Norms of hidden's width in a layer."""
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["", "head", "hidden"] = ""
    """Norms of queries and keys: of a head's width, or of all heads'."""
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    sinks: bool = False
    """A learned logit for each head, beside those of the keys (gpt-oss)."""
    clamped_gate: bool = False
    """Both halves of a gated feed-forward layer are clamped before the activation (gpt-oss)."""
    scaled_rotation: bool = False
    """Queries and keys are also scaled where they are rotated: YaRN's factor (arXiv 2309.00071)."""
    fused_qkv: bool = False
    """Queries, keys and values are one matrix."""
    fused_gate_up: bool = False
    """The gate and the way up of the feed-forward layer are one matrix."""
    transposed: bool = False
    """The layers' matrices are kept as (inputs, outputs): GPT-2's Conv1D."""
    mla: Mla | None = None
    experts: Experts | None = None
    embedding_dim: int | None = None
    """Width of the embedding where it is projected to hidden (OPT-350m)."""
    most: int | None = None
    """The longest sequence that it is made for."""
    rotary: Literal["whole", "part", ""] = "whole"
    """How much of a head is rotated by its position; "" where positions are learned or biases."""
    rotary_percent: float = 1.0
    """The part of a head that is rotated."""
    rotary_base: int | None = None
    """Base of the rotation; None where it is not known."""
    norm_epsilon: float | None = None
    """What norms add to a variance; None where it is not known."""
    balance_loss: float | None = None
    """Weight of the loss that balances the load of experts; None where it is not known."""
    parallel: bool = False
    """Attention and the feed-forward layer read the same stream side by side, each with a norm."""
    activation: Literal["fused", "eager", "relu", "squared"] = "fused"
    """Of the feed-forward layer: one kernel, or GELU written out in Python (transformers'
    NewGELUActivation), or ReLU, which needs nothing but its output, or the square of ReLU."""
    hidden_dropout: bool = False
    """What attention and the feed-forward layer return is dropped out while it is trained."""
    attention_dropout: bool = False
    """So are the weights of attention, after softmax."""
    wide_norm: bool = False
    """RMSNorm multiplies by its weight in fp32, as Gemma's does; Llama's does it in 16 bits."""
    softcap: bool = False
    """Scores of attention, and logits, pass a tanh (Gemma 2)."""
    gated_attention: bool = False
    """Attention's output is multiplied by a gate, which the queries' matrix computes too."""
    mixer: Mixer | None = None
    """What mixes tokens in layers without attention, or beside it."""
    kinds: tuple[LayerKind, ...] = ()
    """Layers by their parts, where there is a mixer."""
    special: str = ""
    """What its layers do that changes no size and no other field has, in words."""
    assumed: frozenset[str] = frozenset()
    """Keys of job.yaml's mapping that it leaves open."""

    @property
    def attends(self) -> int:
        """Layers with attention."""
        if not self.kinds:
            return self.layers
        return sum(kind.times for kind in self.kinds if kind.attention)

    @property
    def mixes(self) -> int:
        """Layers with a mixer."""
        return sum(kind.times for kind in self.kinds if kind.mixer)


class Tensor(NamedTuple):
    """Parameter tensors of one shape."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    times: int = 1
    """How many there are alike in one layer: the experts' are many."""

    @property
    def count(self) -> int:  # type: ignore[override]
        """Elements of all tensors that are alike, in one layer."""
        return self.times * prod(self.shape)


class Layer(NamedTuple):
    """A layer, and how many are like it."""

    tensors: tuple[Tensor, ...]
    times: int

    @property
    def count(self) -> int:  # type: ignore[override]
        """Elements of one such layer."""
        return sum(tensor.count for tensor in self.tensors)


def has_experts(tensors: Iterable[Tensor]) -> bool:
    """Whether the layer of these tensors is a mixture of experts."""
    return any(tensor.kind == "expert" for tensor in tensors)


class Model(NamedTuple):
    """All parameters of a model: its layers by their kinds, and what stands outside of layers."""

    sizes: Architecture
    layers: tuple[Layer, ...]
    root: tuple[Tensor, ...]
    """Embeddings, the last norm, and the output layer where it is not tied."""

    @property
    def count(self) -> int:  # type: ignore[override]
        """Parameters."""
        return self.outside + sum(layer.times * layer.count for layer in self.layers)

    @property
    def outside(self) -> int:
        """Parameters that belong to no layer."""
        return sum(tensor.count for tensor in self.root)

    @property
    def largest(self) -> int:
        """Parameters of the largest layer."""
        return max(layer.count for layer in self.layers)

    @property
    def active(self) -> int:
        """Parameters that one token passes: of the experts only those chosen for it."""
        experts = self.sizes.experts
        idle = 0
        if experts is not None:
            part = (experts.count - experts.active) / experts.count
            idle = round(part * self.count_kinds("expert"))
        return self.count - idle

    def count_kinds(self, *kinds: Kind) -> int:
        """Parameters of these kinds."""
        return sum(
            times * tensor.count for tensor, times in self.list_tensors() if tensor.kind in kinds
        )

    def split_kinds(self) -> Iterator[tuple[Model, int]]:
        """A model for each kind of layers, as if there were no others, and how many there are;
        the model itself where all layers have attention."""
        sizes = self.sizes
        if not sizes.kinds:
            yield self, sizes.layers
            return
        for kind, layer in zip(sizes.kinds, self.layers, strict=True):
            experts = sizes.experts if kind.feed_forward == "experts" else None
            if experts is not None:
                experts = experts._replace(dense_layers=0, every=1)
            alone = sizes._replace(kinds=(kind,), experts=experts)
            if not kind.feed_forward:
                alone = alone._replace(ffn=0)
            yield Model(alone, (layer,), self.root), kind.times

    def list_tensors(self) -> Iterator[tuple[Tensor, int]]:
        """Every tensor with how many layers have it."""
        for tensor in self.root:
            yield tensor, 1
        for layer in self.layers:
            for tensor in layer.tensors:
                yield tensor, layer.times
