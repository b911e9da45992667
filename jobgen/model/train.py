"""How the model is trained: the mapping ``train`` of job.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from jobgen.model.fields import (
    DURATION,
    LINE,
    YES,
    check_choice,
    check_integer,
    check_number,
    check_remote_path,
    describe_value,
    hint_at,
)
from jobgen.model.form import Check, Form, check_form, check_list, key, refuse
from jobgen.model.parallel import ALSO_CALLED, AXIS, CHOICES, DTYPES, Parallel, take_word
from jobgen.model.profiling import TracedSteps
from jobgen.model.trained import FUNCTION, LOSSES, MODEL, MOST, OPTIMIZERS, Lora, ModelShape
from jobgen.model.units import Walltime

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
RECOMPUTE = ("none", "selective", "full")
OFFLOADED = ("none", "optimizer", "params", "both")

_COUNT = check_integer(1, MOST)


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


class Wrap(Form):
    """What FSDP shards as one unit: layers by their classes, or modules by their size."""

    classes: tuple[str, ...] = key(check_list(LINE), default=(), doc="Names of layer classes.")
    min_params: int | None = key(
        check_integer(1, MOST),
        default=None,
        doc="Parameters of the smallest module that is sharded as a unit of its own.",
    )


def _read_wrap(value: object) -> Wrap:
    """A mapping as it is written; a word or a list are classes."""
    if isinstance(value, (Wrap, Mapping)):
        return _WRAP_FORM(value)
    return Wrap(classes=_CLASSES(value))


_CLASSES = check_list(LINE)
_WRAP_FORM = check_form(Wrap)
_WRAP_SCHEMA = {**_WRAP_FORM.schema, "expand": lambda value: {"classes": value}}
_WRAP = Check(_read_wrap, {"anyOf": [*_CLASSES.schema["anyOf"], _WRAP_SCHEMA]})


def _read_fp8(value: object) -> bool | Literal["rowwise"]:
    """True or false, or the word for a scale for each row."""
    if value == "rowwise":
        return "rowwise"
    try:
        return YES(value)
    except ValueError:
        message = f"expected true, false or rowwise, got {describe_value(value)}"
        raise refuse("J123", message, "write true, false or rowwise") from None


_FP8 = "set train.fp8: true (8-bit products) beside precision: bf16"
_HINTS: dict[str, dict[str, str]] = {
    "precision": dict.fromkeys(("fp8", "float8", "fp8-mixed", "transformer-engine"), _FP8),
    "lora": {"true": "set the rank of the adapters: lora: 16", "false": "remove lora"},
    "recompute": {
        "true": "set activation_checkpointing: full, or selective",
        "false": "set activation_checkpointing: none",
    },
}
"""Key → what is written elsewhere for it, and what to write here."""


class Train(Form):
    """How the model is trained. What it says is decided with the cluster, in resolve."""

    model: str | ModelShape | None = key(
        MODEL,
        default=None,
        doc=(
            "Hub id, path of a config.json in the workdir, a mapping of sizes, or a function "
            "that builds your own model: FILE.py:NAME (see batch)."
        ),
        example="meta-llama/Llama-3.1-8B",
    )
    batch: str | None = key(
        FUNCTION,
        default=None,
        doc=(
            "With model: FILE.py:NAME, a function that returns one micro-batch, so that "
            "jobgen plan --measure can measure the memory of a training step."
        ),
        example="train.py:example_batch",
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
        check_form(Parallel, short="type", shortly={"enum": [*CHOICES, *ALSO_CALLED]}),
        default=Parallel(type="ddp"),
        doc="Parallelization strategy: a word, or a mapping with its settings.",
    )
    tp: int = key(
        AXIS, default=1, doc="Tensor parallel size: ranks that share each layer.", example="8"
    )
    pp: int = key(AXIS, default=1, doc="Pipeline parallel size: number of stages.")
    cp: int = key(AXIS, default=1, doc="Context parallel size: ranks that share each sequence.")
    ep: int = key(AXIS, default=1, doc="Expert parallel size: ranks that share the experts.")
    etp: int | None = key(
        AXIS,
        default=None,
        doc=(
            "With ep and tp: ranks that share each expert. Default: tp in Megatron-LM, or 1 where "
            "ep needs the ranks of tp, too; 1 in torchtitan."
        ),
    )
    dp: int | None = key(
        AXIS, default=None, doc="Data parallel size: ranks divided by the other parallel sizes."
    )
    precision: Literal["fp32", "bf16", "fp16"] = key(
        hint_at(check_choice("precision", DTYPES), _HINTS["precision"]),
        default="bf16",
        doc="fp32, bf16 or fp16 (mixed precision: the optimizer keeps fp32).",
    )
    pure: bool = key(
        YES,
        default=False,
        doc=(
            "The program keeps parameters, gradients and optimizer in 16 bits, too. This key "
            "and the next five are for the planner and do not change what is rendered, except "
            "that torchtitan and Lightning are passed pure, and the Trainer optimizer."
        ),
    )
    fp8: bool | Literal["rowwise"] = key(
        Check(_read_fp8, {"anyOf": [YES.schema, {"enum": ["rowwise"]}]}),
        default=False,
        doc=(
            "The program multiplies in 8 bits: true with a scale for each tensor, or rowwise with "
            "one for each row, which takes longer."
        ),
    )
    optimizer: Literal["adamw", "adamw8bit", "adafactor", "lion", "momentum", "muon", "sgd"] = key(
        check_choice("optimizer", OPTIMIZERS),
        default="adamw",
        doc="Optimizer of the program.",
    )
    fused: bool | None = key(
        YES,
        default=None,
        doc=(
            "Use the fused implementation of the optimizer, which updates all parameters in one "
            "kernel and without temporaries. Default: the framework's."
        ),
    )
    lora: Lora | None = key(
        hint_at(check_form(Lora, short="rank", shortly={"type": "integer"}), _HINTS["lora"]),
        default=None,
        doc="The program trains adapters next to frozen parameters: their rank, or a mapping.",
    )
    loss: Literal["plain", "compiled", "chunked", "fused"] = key(
        check_choice("kind of loss", LOSSES),
        default="plain",
        doc=(
            "How the program computes the loss from the logits: plain (all at once, in fp32), "
            "compiled, chunked, or fused with the output layer (Liger). hf-trainer is passed "
            "--use_liger_kernel for fused; other programs compute it themselves."
        ),
    )
    compiled: bool = key(
        YES,
        default=False,
        doc=(
            "The program compiles its layers. hf-trainer is passed --torch_compile, torchtitan "
            "--compile.enable; other programs call torch.compile themselves."
        ),
    )
    seq_len: int | None = key(_COUNT, default=None, doc="Tokens per sequence.", example="4096")
    micro_batch: int | None = key(
        _COUNT, default=None, doc="Samples per rank and forward pass.", example="2"
    )
    gradient_accumulation: int | None = key(
        _COUNT, default=None, doc="Micro-batches per rank and optimizer step.", example="4"
    )
    global_batch: int | None = key(
        _COUNT, default=None, doc="Samples per optimizer step, over all ranks.", example="256"
    )
    activation_checkpointing: Literal["none", "selective", "full"] = key(
        hint_at(check_choice("kind of activation checkpointing", RECOMPUTE), _HINTS["recompute"]),
        default="none",
        doc=(
            "Activations to recompute instead of storing: none; full, each layer from its input; "
            "selective, what is cheap (Megatron-LM: the core of attention; others: all but the "
            "outputs of attention and of every second matrix product)."
        ),
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
    wrap: Wrap = key(
        _WRAP,
        default=Wrap(),
        doc="Layer classes to shard and recompute one by one, or {min_params: N}.",
    )
    timeout: Walltime | None = key(
        DURATION,
        default=None,
        doc=(
            "How long a collective may take before the job is stopped (timeout of the process "
            "groups). Default: the framework's, 10 minutes with NCCL in most. DeepSpeed and "
            "Megatron-LM count in minutes: rounded up."
        ),
    )
    profile: TracedSteps | None = key(
        check_form(TracedSteps, short="steps", shortly={"type": ["string", "integer"]}),
        default=None,
        doc=(
            "Trace these steps with torch.profiler into the run directory, under profile/: "
            "10-12, or a mapping."
        ),
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
        return {k: take_word(v) if k in words else v for k, v in data.items()}
