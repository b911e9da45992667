"""What is trained, in the mapping ``train`` of job.yaml: the model, its adapters, its optimizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from jobgen.model.fields import LINE, YES, check_choice, check_integer, check_number, describe_value
from jobgen.model.form import Check, Form, check_form, check_list, key, refuse
from jobgen.model.units import clip

NORMS = ("rmsnorm", "layernorm")
OPTIMIZERS = ("adamw", "adamw8bit", "adafactor", "lion", "momentum", "muon", "sgd")
LOSSES = ("plain", "compiled", "chunked", "fused")
MOST = 1 << 30

_COUNT = check_integer(1, MOST)


class ModelShape(Form):
    """The sizes of a transformer, where no file says them.

    The four that everybody knows are enough; what is left out is what Llama has, or GPT-2 where
    the feed-forward layer is four times as wide as hidden.
    """

    layers: int = key(_COUNT, doc="Number of transformer layers.", example="32")
    hidden: int = key(_COUNT, doc="Width of the residual stream.", example="4096")
    heads: int = key(_COUNT, doc="Number of attention heads.", example="32")
    kv_heads: int | None = key(
        _COUNT, default=None, doc="Number of key/value heads; default: heads."
    )
    head_dim: int | None = key(
        _COUNT, default=None, doc="Width of a head; default: hidden / heads."
    )
    ffn: int | None = key(
        _COUNT, default=None, doc="Width of the feed-forward layer; default: four times hidden."
    )
    gated: bool | None = key(
        YES,
        default=None,
        doc=(
            "The feed-forward layer has three matrices (SwiGLU), not two. Default: true if ffn "
            "is not four times hidden, kv_heads are fewer than heads, or there are experts."
        ),
    )
    vocab: int | None = key(_COUNT, default=None, doc="Vocabulary size.")
    tied: bool = key(YES, default=False, doc="The output layer shares the embedding's parameters.")
    positions: int | None = key(
        _COUNT, default=None, doc="Number of learned positions; default: none (rotary, ALiBi)."
    )
    norm: Literal["rmsnorm", "layernorm"] | None = key(
        check_choice("norm", NORMS),
        default=None,
        doc="rmsnorm or layernorm; default: rmsnorm if gated.",
    )
    bias: bool | None = key(
        YES, default=None, doc="Every linear layer has a bias; default: true if not gated."
    )
    qkv_bias: bool | None = key(
        YES, default=None, doc="Queries, keys and values have a bias (Qwen); default: bias."
    )
    qk_norm: bool = key(YES, default=False, doc="Queries and keys have norms of a head's width.")
    experts: int | None = key(
        _COUNT, default=None, doc="Number of experts of a mixture of experts."
    )
    experts_active: int | None = key(_COUNT, default=None, doc="Experts per token; default: 2.")
    expert_ffn: int | None = key(_COUNT, default=None, doc="Width of an expert; default: ffn.")
    shared_ffn: int | None = key(_COUNT, default=None, doc="Width of the shared expert.")
    params: float | None = key(
        Check(check_number, {"type": "number"}),
        default=None,
        doc="Number of parameters, if known.",
    )


def _bits(value: object) -> Any:
    if value in (4, 8, 16) and not isinstance(value, bool):
        return value
    raise refuse("J123", f"expected 4, 8 or 16, got {describe_value(value)}", "QLoRA uses 4")


_FUNCTION = re.compile(r"[\w./-]+\.py:[A-Za-z_]\w*", re.ASCII)


def is_function(name: object) -> bool:
    """Whether this names a function of a file in the workdir: ``FILE.py:NAME``."""
    return isinstance(name, str) and _FUNCTION.fullmatch(name) is not None


def _function(value: object) -> str:
    word = LINE(value)
    if not is_function(word) or word.startswith("/") or ".." in word.split("/"):
        message = f"'{clip(word)}' is not a function of a file in the workdir"
        raise refuse("J136", message, "for example train.py:example_batch")
    return word


def _model(value: object) -> str | ModelShape:
    if isinstance(value, (Mapping, ModelShape)):
        return check_form(ModelShape)(value)
    word = LINE(value)
    if word.startswith(("/", "~")) or ".." in word.split("/"):
        message = f"'{clip(word)}' is neither a Hub id nor a file in the workdir"
        raise refuse("J136", message, "for example meta-llama/Llama-3.1-8B, or model/config.json")
    return word


class Lora(Form):
    """Adapters: what is trained beside frozen parameters."""

    rank: int = key(check_integer(1, 1 << 16), default=8, doc="Rank of the adapters.")
    targets: tuple[str, ...] = key(
        check_list(LINE),
        default=(),
        doc="Parts of layer names; default: every linear layer.",
    )
    bits: Literal[4, 8, 16] = key(
        Check(_bits, {"enum": [4, 8, 16]}),
        default=16,
        doc=(
            "Bits of a frozen parameter: 16, or 8 or 4 (QLoRA) with bitsandbytes, whose 8-bit "
            "parameters FSDP cannot shard."
        ),
    )


MODEL = Check(_model, {"anyOf": [{"type": "string"}, {"form": ModelShape}]})
FUNCTION = Check(_function, {"type": "string"})
