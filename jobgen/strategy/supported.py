"""Settings of ``train`` that only some frameworks have; the others refuse them, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.spec import TRAITS, TrainDiagnostic

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy.setup import Loss

TITLES = {
    "torch": "torch",
    "accelerate": "accelerate",
    "hf-trainer": "the Trainer",
    "deepspeed": "DeepSpeed",
    "megatron": "Megatron-LM",
    "torchtitan": "torchtitan",
    "lightning": "Lightning",
}


class _Setting(NamedTuple):
    """A key of ``train``, and the frameworks that have it."""

    path: tuple[str, ...]
    frameworks: tuple[str, ...]
    families: tuple[str, ...] = ()
    """Families of strategies that this row is about; empty: all."""


_OWN_DDP = ("torch", "accelerate", "lightning")
_DDP = (*_OWN_DDP, "hf-trainer")
_FSDP = ("fsdp", "fsdp2")
_DEEPSPEED = ("deepspeed", "accelerate", "hf-trainer", "lightning")

_SETTINGS = (
    _Setting(("strategy", "bucket_mb"), (*_DDP, "megatron")),
    _Setting(("strategy", "static_graph"), _DDP),
    _Setting(("strategy", "find_unused_parameters"), _DDP),
    _Setting(("strategy", "broadcast_buffers"), _DDP),
    _Setting(("strategy", "gradient_as_bucket_view"), _OWN_DDP),
    _Setting(("strategy", "hook"), (*_OWN_DDP, "megatron")),
    _Setting(("strategy", "reduce_dtype"), (*_OWN_DDP, "torchtitan"), _FSDP),
    _Setting(("strategy", "reduce_dtype"), (*_DEEPSPEED, "megatron"), ("zero",)),
    _Setting(("strategy", "buffer_dtype"), _OWN_DDP),
    _Setting(("strategy", "state_dict"), _DDP, _FSDP),
    _Setting(("wrap", "min_params"), ("torch", "accelerate", "hf-trainer")),
    _Setting(("fused",), (*_DDP, "deepspeed", "torchtitan")),
)
"""DistributedDataParallel and FullyShardedDataParallel of torch 2.13; TrainingArguments of
transformers 5.23 (which has ``fsdp_config`` without dtypes); torchtitan 0.3, ``config/configs.py``;
Lightning 2.6, ``FSDPStrategy``; Megatron-LM core 0.16.1, whose optimizers are always fused."""

_INSTEAD = {
    ("megatron", "fused"): "its optimizers are always fused",
    ("torchtitan", "state_dict"): "it always saves sharded checkpoints",
    ("lightning", "min_params"): "LightningCLI takes classes only",
}
"""What a framework does instead of having the setting."""


OPTIMIZERS = {
    "megatron": ("adamw", "sgd", "muon"),
    "torchtitan": ("adamw", "muon"),
    "hf-trainer": ("adamw", "adamw8bit", "adafactor", "lion", "sgd"),
}
"""Framework → optimizers that it has; programs of the others make their own. Megatron-LM core
0.16.1, core/optimizer; torchtitan 0.3, components/optimizer/optimizer.py
(``_resolve_optimizer_factory``); transformers 5.23, ``OptimizerNames``."""

_SMALL_LOSSES: dict[str, Loss | None] = {"megatron": None, "torchtitan": "chunked"}
"""Framework → the loss with the smallest logits that it has. Megatron-LM core 0.16.1 has none but
in place (core/fusions/fused_cross_entropy.py); torchtitan 0.3, ``ChunkedLossWrapper``."""


def has_optimizer(framework: str, optimizer: str) -> bool:
    """Whether programs of this framework can have this optimizer."""
    return framework not in OPTIMIZERS or optimizer in OPTIMIZERS[framework]


def get_small_loss(framework: str) -> Loss | None:
    """The ``train.loss`` that keeps the least of the logits; None where there is no choice."""
    return _SMALL_LOSSES.get(framework.partition("-")[0], "fused")


def check_supported(train: Train, framework: str) -> Iterator[TrainDiagnostic]:
    """One fault for each setting that the job changes and that the framework does not have."""
    family = TRAITS[train.strategy.type].family
    for path, frameworks, families in _SETTINGS:
        if framework in {*frameworks, "none"} or (families and family not in families):
            continue
        value, default = _read(train, path)
        if value != default:
            instead = _INSTEAD.get((framework, path[-1]), "")
            message = f"{TITLES[framework]} has no option for {path[-1]}"
            message += f": {instead}" if instead else ""
            hint = "remove it, or set framework: torch"
            if "torch" not in frameworks:
                hint = "remove it"
            yield TrainDiagnostic("J236", message, path, hint)


def _read(train: Train, path: tuple[str, ...]) -> tuple[Any, Any]:
    """The value of a key of ``train``, and its default."""
    form: Any = train
    for name in path[:-1]:
        form = getattr(form, name)
    return getattr(form, path[-1]), form.keys[path[-1]].default


WITHOUT_BITSANDBYTES = ("megatron", "torchtitan")
"""Frameworks that quantize in ways of their own."""


def can_shard(name: str, train: Train, framework: str) -> bool:
    """Whether this strategy can shard the frozen weights: FSDP and ZeRO-3 cannot those of
    bitsandbytes in 8 bits.

    FSDP1 flattens no integers (torch 2.13, fsdp/_flat_param.py); FSDP2 makes plain parameters of
    them, without the scales that ``Linear8bitLt.forward`` reads (bitsandbytes 0.50,
    nn/modules.py); accelerate 1.15 leaves only 4-bit ones out of it (utils/fsdp_utils.py). ZeRO-3
    frees the parameter (DeepSpeed 0.19, runtime/zero/partition_parameters.py), while the layer
    keeps the whole weight in its own ``state.CB``.
    """
    integers = train.lora is not None and train.lora.bits == 8
    trait = TRAITS[name]
    sharded = trait.family in {"fsdp", "fsdp2"} or (trait.family, trait.stage) == ("zero", 3)
    return not (integers and sharded) or framework in WITHOUT_BITSANDBYTES
