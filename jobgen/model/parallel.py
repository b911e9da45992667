"""The parallelization strategy of a job, with the settings that only it has."""

from __future__ import annotations

from typing import Any, Literal, get_args

from jobgen.model.fields import YES, check_choice, check_integer, check_text, describe_value
from jobgen.model.form import Check, Form, key, refuse

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
ALSO_CALLED = {
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
DTYPES = ("fp32", "bf16", "fp16")
HOOKS = ("none", "bf16", "fp16")
STATE_DICTS = ("sharded", "full")
AXIS = check_integer(1, 1 << 20)
"""Ranks along one dimension of the mesh."""


def take_word(value: object) -> object:
    """A name in lower case with dashes: names are taken in any case, and with either dash."""
    return check_text(value).lower().replace("_", "-") if isinstance(value, str) else value


def _chosen(value: object) -> Any:
    return check_choice("strategy", CHOICES, aliases=ALSO_CALLED)(take_word(value))


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
            "auto: simplest strategy that fits. What each rank keeps: ddp, fsdp-no-shard: "
            "everything. zero1: its share of the optimizer; zero2: of gradients, too; fsdp "
            "(FULL_SHARD), fsdp2, zero3: of parameters, too. fsdp-grad-op (SHARD_GRAD_OP): the "
            "same, with parameters whole from the forward to the end of the backward pass. "
            "fsdp-hybrid: its share within a node, copies across nodes. 3d: its layers (pp), its "
            "part of each layer (tp)."
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
    find_unused_parameters: bool = key(
        YES,
        default=False,
        doc="ddp: some parameters get no gradient in some steps; searches for them in each.",
    )
    broadcast_buffers: bool = key(
        YES, default=True, doc="ddp: rank 0's buffers replace the others' before each forward pass."
    )
    gradient_as_bucket_view: bool | None = key(
        YES,
        default=None,
        doc=(
            "ddp: gradients share memory with the buckets. Default: true with torch and Lightning, "
            "false with accelerate and the Trainer."
        ),
    )
    reduce_dtype: Literal["fp32", "bf16", "fp16"] | None = key(
        check_choice("dtype", DTYPES),
        default=None,
        doc="fsdp and zero: type in which gradients are reduced. Default: the framework's.",
    )
    buffer_dtype: Literal["fp32", "bf16", "fp16"] | None = key(
        check_choice("dtype", DTYPES),
        default=None,
        doc="fsdp, but not fsdp2: type of the buffers. Default: the framework's.",
    )
    state_dict: Literal["full", "sharded"] = key(
        check_choice("kind of state dict", STATE_DICTS),
        default="sharded",
        doc=(
            "fsdp: checkpoints are sharded (each rank writes its share; loads on any number of "
            "ranks) or full (rank 0 writes the whole model)."
        ),
    )
    shard: int | None = key(
        AXIS,
        default=None,
        doc=(
            "fsdp2 and fsdp-hybrid: ranks that share one copy of the model; all further ranks "
            "hold replicas. Default for fsdp-hybrid: the ranks of a node."
        ),
    )
