"""How the model is trained: the mapping ``train`` of job.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from jobgen.model.fields import (
    LINE,
    YES,
    check_choice,
    check_integer,
    check_number,
    check_remote_path,
    check_text,
    describe_value,
)
from jobgen.model.form import Check, Form, check_form, check_list, key, refuse
from jobgen.model.trained import LOSSES, MODEL, MOST, OPTIMIZERS, Lora, ModelShape

Name = Literal[
    "auto",
    "ddp",
    "fsdp",
    "fsdp-grad-op",
    "fsdp-no-shard",
    "fsdp-hybrid",
    "fsdp2",
    "zero1",
    "zero2",
    "zero3",
    "3d",
]
CHOICES: tuple[str, ...] = get_args(Name)
STRATEGIES = tuple(name for name in CHOICES if name != "auto")
_ALSO_CALLED = {
    "fsdp1": "fsdp",
    "full-shard": "fsdp",
    "shard-grad-op": "fsdp-grad-op",
    "no-shard": "fsdp-no-shard",
    "hybrid": "fsdp-hybrid",
    "hybrid-shard": "fsdp-hybrid",
    "hsdp": "fsdp-hybrid",
    "zero-1": "zero1",
    "zero-2": "zero2",
    "zero-3": "zero3",
}
Framework = Literal[
    "torch",
    "accelerate",
    "hf-trainer",
    "deepspeed",
    "megatron",
    "torchtitan",
    "lightning",
    "none",
]
FRAMEWORKS: tuple[str, ...] = get_args(Framework)
PRECISIONS = ("fp32", "bf16", "fp16")
RECOMPUTE = ("none", "selective", "full")
HOOKS = ("none", "bf16", "fp16")
OFFLOADED = ("none", "optimizer", "params", "both")

_COUNT = check_integer(1, MOST)
_AXIS = check_integer(1, 1 << 20)


def _word(value: object) -> object:
    """Names are taken in any case, and with either dash."""
    return check_text(value).lower().replace("_", "-") if isinstance(value, str) else value


def _chosen(value: object) -> Any:
    return check_choice("strategy", CHOICES, aliases=_ALSO_CALLED)(_word(value))


def _reshard(value: object) -> bool | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return check_integer(2, 1 << 20)(value)
    try:
        return YES(value)
    except ValueError:
        message = f"expected true, false or a number of ranks, got {describe_value(value)}"
        raise refuse(
            "J123", message, "set true, false, or the number of ranks in a shard group"
        ) from None


class Parallel(Form):
    """A strategy, with the settings that only it has."""

    type: Name = key(
        Check(_chosen, {"enum": list(CHOICES)}),
        doc=(
            "auto (simplest strategy that fits), ddp, fsdp (FULL_SHARD), fsdp-grad-op, "
            "fsdp-no-shard, fsdp-hybrid, fsdp2, zero1, zero2, zero3 or 3d."
        ),
        example="auto",
    )
    bucket_mb: int = key(
        check_integer(1, 10_000), default=25, doc="ddp: size of a gradient bucket, in MiB."
    )
    static_graph: bool = key(YES, default=False, doc="ddp: every step uses the same parameters.")
    hook: Literal["none", "bf16", "fp16"] = key(
        check_choice("hook", HOOKS),
        default="none",
        doc="ddp: compress gradients for communication.",
    )
    reshard_after_forward: bool | int = key(
        Check(_reshard, {"type": ["boolean", "integer"]}),
        default=True,
        doc=(
            "fsdp2: true frees gathered parameters after the forward pass, false keeps them, a "
            "number keeps them sharded over that many ranks."
        ),
    )
    shard: int | None = key(
        _AXIS,
        default=None,
        doc=(
            "fsdp2 and fsdp-hybrid: ranks that share one copy of the model; all further ranks "
            "hold replicas. Default for fsdp-hybrid: the ranks of a node."
        ),
    )


_OFFLOADED = check_choice("kind of state", OFFLOADED)


def _check_offloaded(value: object) -> Any:
    """What is offloaded; who wrote where to is told how both are written."""
    if value in ("cpu", "nvme"):
        path = ", path: /DIR/ON/NODE" if value == "nvme" else ""
        hint = f"write offload: {{what: both, to: {value}{path}}}; or what: optimizer, what: params"
        raise refuse("J123", f"'{value}' is the place, not what is offloaded", hint)
    return _OFFLOADED(value)


class Offload(Form):
    """What is kept outside the GPU's memory."""

    what: Literal["none", "optimizer", "params", "both"] = key(
        Check(_check_offloaded, _OFFLOADED.schema),
        doc="none, optimizer, params or both.",
        example="optimizer",
    )
    to: Literal["cpu", "nvme"] = key(
        check_choice("place", ("cpu", "nvme")), default="cpu", doc="cpu, or nvme with its path."
    )
    path: str | None = key(
        Check(check_remote_path, {"type": "string"}),
        default=None,
        doc="nvme: a directory on the node's own disk.",
    )


class Train(Form):
    """How the model is trained. What it says is decided with the cluster, in resolve."""

    model: str | ModelShape | None = key(
        MODEL,
        default=None,
        doc="Hub id, path of a config.json in the workdir, or a mapping of sizes.",
    )
    framework: Framework | None = key(
        check_choice("framework", FRAMEWORKS),
        default=None,
        doc=(
            "Format of the generated configuration: torch (a strategy.json), accelerate, "
            "hf-trainer, deepspeed, megatron, torchtitan, lightning or none. Default: "
            "accelerate with that launcher, deepspeed for zero1 to zero3, else torch."
        ),
    )
    strategy: Parallel = key(
        check_form(Parallel, short="type", shortly={"enum": [*CHOICES, *_ALSO_CALLED]}),
        default=Parallel(type="ddp"),
        doc="Parallelization strategy: a word, or a mapping with its settings.",
    )
    tp: int = key(_AXIS, default=1, doc="Tensor parallel size: ranks that share each layer.")
    pp: int = key(_AXIS, default=1, doc="Pipeline parallel size: number of stages.")
    cp: int = key(_AXIS, default=1, doc="Context parallel size: ranks that share each sequence.")
    ep: int = key(_AXIS, default=1, doc="Expert parallel size: ranks that share the experts.")
    dp: int | None = key(
        _AXIS, default=None, doc="Data parallel size: ranks divided by the other parallel sizes."
    )
    precision: Literal["fp32", "bf16", "fp16"] = key(
        check_choice("precision", PRECISIONS),
        default="bf16",
        doc="fp32, bf16 or fp16 (mixed precision: the optimizer keeps fp32).",
    )
    pure: bool = key(
        YES,
        default=False,
        doc=(
            "The program keeps parameters, gradients and optimizer in 16 bits, too. This key "
            "and the next five are for the planner and do not change what is rendered."
        ),
    )
    fp8: bool = key(YES, default=False, doc="The program multiplies in 8 bits.")
    optimizer: Literal["adamw", "adamw8bit", "adafactor", "lion", "momentum", "muon", "sgd"] = key(
        check_choice("optimizer", OPTIMIZERS),
        default="adamw",
        doc="Optimizer of the program.",
    )
    lora: Lora | None = key(
        check_form(Lora, short="rank", shortly={"type": "integer"}),
        default=None,
        doc="The program trains adapters next to frozen parameters: their rank, or a mapping.",
    )
    loss: Literal["plain", "compiled", "chunked", "fused"] = key(
        check_choice("kind of loss", LOSSES),
        default="plain",
        doc=(
            "How the program computes the loss from the logits: plain (all at once, in fp32), "
            "compiled, chunked, or fused with the output layer (Liger)."
        ),
    )
    compiled: bool = key(YES, default=False, doc="The program compiles its layers.")
    seq_len: int | None = key(_COUNT, default=None, doc="Tokens per sequence.")
    micro_batch: int | None = key(_COUNT, default=None, doc="Samples per rank and forward pass.")
    gradient_accumulation: int | None = key(
        _COUNT, default=None, doc="Micro-batches per rank and optimizer step."
    )
    global_batch: int | None = key(
        _COUNT, default=None, doc="Samples per optimizer step, over all ranks."
    )
    activation_checkpointing: Literal["none", "selective", "full"] = key(
        check_choice("kind of activation checkpointing", RECOMPUTE),
        default="none",
        doc="Activations to recompute instead of storing: none, selective or full.",
    )
    gradient_clipping: float | None = key(
        Check(check_number, {"type": "number", "minimum": 0}),
        default=None,
        doc="Maximum norm of all gradients.",
    )
    offload: Offload = key(
        check_form(Offload, short="what", shortly={"enum": list(OFFLOADED)}),
        default=Offload(what="none"),
        doc="What to move out of GPU memory: none, optimizer, params or both, or a mapping.",
    )
    wrap: tuple[str, ...] = key(
        check_list(LINE),
        default=(),
        doc="Layer classes to shard and recompute one by one.",
    )
    config: str | None = key(
        LINE,
        default=None,
        doc=(
            "deepspeed: your own ds_config.json in the workdir; it is checked, and the "
            "settings of this mapping are filled in."
        ),
    )

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Words are taken in any case, and with either dash."""
        words = ("framework", "loss", "optimizer", "precision", "activation_checkpointing")
        return {k: _word(v) if k in words else v for k, v in data.items()}
