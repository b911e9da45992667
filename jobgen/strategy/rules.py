"""What does not go together: a strategy with its settings, its framework, offload, precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.strategy.spec import TRAITS, ModelSizes, TrainDiagnostic, Trait
from jobgen.strategy.supported import check_supported
from jobgen.wording import join_words

if TYPE_CHECKING:
    from jobgen.model.train import Train

_FSDP1 = ("fsdp", "fsdp-grad-op", "fsdp-no-shard", "fsdp-hybrid")
_SETTINGS: dict[str, tuple[str, ...]] = {
    "bucket_mb": ("ddp",),
    "static_graph": ("ddp",),
    "hook": ("ddp",),
    "find_unused_parameters": ("ddp",),
    "broadcast_buffers": ("ddp",),
    "gradient_as_bucket_view": ("ddp",),
    "reshard_after_forward": ("fsdp2",),
    "reduce_dtype": (*_FSDP1, "fsdp2", "zero1", "zero2", "zero3"),
    "buffer_dtype": _FSDP1,
    "state_dict": (*_FSDP1, "fsdp2"),
    "shard": ("fsdp2", "fsdp-hybrid"),
}
"""Setting of a strategy → the strategies that have it."""

_DEEPSPEED = ("deepspeed", "accelerate", "hf-trainer", "lightning", "none")
"""Frameworks that run ZeRO by DeepSpeed; Megatron-LM's is its own."""

_LAUNCHERS: dict[str, tuple[str, ...]] = {
    "accelerate": ("accelerate",),
    "lightning": ("srun", "torchrun"),
}
"""Framework → the launchers that go with it; the others go with all that start ranks."""


def check_rules(train: Train, framework: str) -> Iterator[TrainDiagnostic]:
    """What cannot work, whatever the cluster is."""
    trait = TRAITS[train.strategy.type]
    yield from _framework(train, trait, framework)
    yield from _settings(train, trait)
    yield from _wrap(train)
    yield from check_supported(train, framework)
    yield from check_offload(train, trait)
    yield from _config(train, framework)


def check_launcher(framework: str, chosen: str) -> Iterator[TrainDiagnostic]:
    """A framework whose configuration this launcher would not hand over."""
    known = _LAUNCHERS.get(framework, ())
    if known and chosen not in known:
        message = f"framework: {framework} is configured by {' or '.join(known)}, "
        message += f"but the launcher is {chosen}"
        yield TrainDiagnostic("J236", message, ("framework",), f"set launcher: {known[0]}")


def _framework(train: Train, trait: Trait, framework: str) -> Iterator[TrainDiagnostic]:
    if framework in trait.frameworks:
        return
    known = [name for name, other in TRAITS.items() if framework in other.frameworks]
    frameworks = ", ".join(f for f in trait.frameworks if f != "none")
    message = f"{framework} does not support {trait.title}"
    hint = f"{framework} supports {', '.join(known)}; {train.strategy.type} runs with {frameworks}"
    path = ("framework",) if train.framework else ("strategy",)
    yield TrainDiagnostic("J236", message, path, hint)


def check_length(train: Train, sizes: ModelSizes) -> Iterator[TrainDiagnostic]:
    """Sequences that are longer than a model's learned positions: it has no embedding for the
    last tokens."""
    positions, seq_len = sizes.positions, train.seq_len
    if positions and seq_len is not None and seq_len > positions:
        message = f"seq_len {seq_len} is longer than the model's {positions} learned positions"
        yield TrainDiagnostic("J138", message, ("seq_len",))


def _settings(train: Train, trait: Trait) -> Iterator[TrainDiagnostic]:
    for name, owners in _SETTINGS.items():
        value = getattr(train.strategy, name)
        default = train.strategy.keys[name].default
        if value != default and train.strategy.type not in owners:
            message = (
                f"strategy.{name} has no effect with {trait.title}, only with "
                f"{join_words(owners, 'and')}"
            )
            yield TrainDiagnostic("J236", message, ("strategy", name), "remove it")


def _wrap(train: Train) -> Iterator[TrainDiagnostic]:
    if train.wrap.min_params and train.wrap.classes:
        message = "wrap has both classes and min_params, but FSDP wraps by one of the two"
        yield TrainDiagnostic("J236", message, ("wrap", "min_params"), "remove one of them")


def check_offload(train: Train, trait: Trait) -> Iterator[TrainDiagnostic]:
    """What of the offload the strategy does not have; ``proposals`` has the hints."""
    asked = train.offload
    if asked.what == "none":
        return
    if asked.to == "nvme" and asked.path is None:
        message = "offload to nvme needs a directory on a node-local disk"
        yield TrainDiagnostic("J235", message, ("offload", "to"))
    if asked.to == "cpu" and asked.path is not None:
        message = "offload.path is for nvme, but the offload goes to cpu"
        yield TrainDiagnostic("J235", message, ("offload", "path"))
    message = _describe_lacking(asked.what, asked.to, trait)
    if message:
        yield TrainDiagnostic("J235", message, ("offload",))


def _describe_lacking(what: str, to: str, trait: Trait) -> str:
    """Why this strategy cannot offload that; empty where it can."""
    zero = trait.family == "zero"
    if not (zero or trait.family == "fsdp2" or (trait.family == "fsdp" and trait.stage)):
        return f"{trait.title} shards nothing, so that nothing can be offloaded"
    if zero and what in {"params", "both"} and not trait.shards_parameters:
        return f"{trait.title} cannot offload parameters: below ZeRO-3 every GPU holds them whole"
    if zero and to == "nvme" and not trait.shards_parameters:
        return f"offloading to NVMe needs ZeRO-3, but this is {trait.title}"
    if not zero and to == "nvme":
        return f"only DeepSpeed offloads to NVMe, but this is {trait.title}"
    if not zero and what != "both":
        return f"{trait.title} offloads parameters, gradients and optimizer only together"
    return ""


def _config(train: Train, framework: str) -> Iterator[TrainDiagnostic]:
    if train.config is None:
        return
    zero = TRAITS[train.strategy.type].family == "zero" and framework in _DEEPSPEED
    if not zero and framework != "deepspeed":
        message = (
            "train.config is a DeepSpeed configuration, but the strategy does not use DeepSpeed"
        )
        yield TrainDiagnostic(
            "J236", message, ("config",), "remove it, or set strategy: zero1, zero2 or zero3"
        )
