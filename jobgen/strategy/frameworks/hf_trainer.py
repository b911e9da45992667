"""Programs on transformers' Trainer: words for HfArgumentParser behind the program's own.

Read: transformers 5.23, training_args.py and integrations/deepspeed.py. ``--fsdp`` is given its
strategy as words, which transformers 4 needs and 5.23 still takes (with a warning), and the rest
in a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from jobgen.model.bundle import BundleFile
from jobgen.shell import Raw
from jobgen.strategy import dsconfig
from jobgen.strategy.frameworks import Configured, FrameworkRequest, fsdp, program_options
from jobgen.strategy.frameworks.program_options import ProgramOption
from jobgen.strategy.spec import Note, TrainDiagnostic

FILE = "fsdp_config.json"
_BUNDLE = '"$JOBGEN_BUNDLE_DIR/{}"'
_TITLE = "the Trainer"
OPTIMIZERS = {
    "adamw8bit": "adamw_bnb_8bit",
    "adafactor": "adafactor",
    "lion": "lion_32bit",
    "sgd": "sgd",
}
"""Optimizer → its word in ``OptimizerNames``, which has neither momentum nor muon. AdamW is the
default."""
RECOMPUTES = ("--gradient_checkpointing", "--activation_checkpointing")
"""The second name is new in transformers 5, and wins there."""
_LIGER = "--use_liger_kernel"
_BOTH = "FSDP recomputes the layers; the Trainer rejects both"
"""transformers 5.23, trainer.py, ``create_accelerator_and_postprocess``."""
_BATCH = {
    "--per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "--gradient_accumulation_steps": "gradient_accumulation_steps",
}
EXCLUDED = {"zero": "--fsdp", "fsdp": "--deepspeed", "fsdp2": "--deepspeed"}
"""Family of a strategy → the option of ``run`` that the Trainer rejects beside it."""


def configure(request: FrameworkRequest) -> Configured:
    """The words, and the files that they name."""
    family = request.strategy.trait.family
    files: tuple[BundleFile, ...] = ()
    found = dsconfig.Written({})
    if family == "zero":
        found = dsconfig.build_config(request, "hf-trainer")
        files = (dsconfig.build_file(found),)
    elif family in {"fsdp", "fsdp2"}:
        files = (_fsdp_config(request),)
    asked = (*_options(request), *_same_as(found, request))
    return Configured(
        files=files,
        args=program_options.format_options(asked, "="),
        chosen={
            **program_options.explain_options(asked),
            **dsconfig.explain_choices(found),
            **{
                f"fsdp_config.{s.name}": program_options.choose(s.value, s.why)
                for s in _fsdp(request)
            },
        },
        notes=tuple(_notes(request)),
        faults=(*found.faults, *_faults(request)),
        saves="wrapper",
    )


def _options(request: FrameworkRequest) -> Iterator[ProgramOption]:
    strategy = request.strategy
    family = strategy.trait.family
    if strategy.batch:
        yield ProgramOption("--per_device_train_batch_size", strategy.batch.micro)
        yield ProgramOption("--gradient_accumulation_steps", strategy.batch.accumulation)
    if strategy.precision != "fp32":
        yield ProgramOption(f"--{strategy.precision}", "true")
    yield from _training(request)
    yield from _optimizer(request)
    yield from _kernels(request)
    if not request.gpus:
        yield ProgramOption("--use_cpu", "true", "without GPUs, the ranks communicate over gloo")
    if family == "ddp":
        yield from _ddp(request)
    elif family == "zero":
        yield ProgramOption("--deepspeed", Raw(_BUNDLE.format(dsconfig.FILE)))
    else:
        yield ProgramOption("--fsdp", Raw(f"'{_fsdp_words(request)}'"))
        yield ProgramOption("--fsdp_config", Raw(_BUNDLE.format(FILE)))


def _training(request: FrameworkRequest) -> Iterator[ProgramOption]:
    """What is the same for every strategy, and how layers are recomputed."""
    strategy = request.strategy
    if strategy.clipping is not None:
        yield ProgramOption("--max_grad_norm", float(strategy.clipping))
    recomputes = strategy.recompute == "full"
    if recomputes and strategy.trait.family not in {"fsdp", "fsdp2"}:
        yield ProgramOption("--gradient_checkpointing", "true")
    elif recomputes:
        own = (name for name in RECOMPUTES if _has(request, name))
        yield from (ProgramOption(name, "false", _BOTH) for name in own)
    if strategy.timeout is not None:
        yield ProgramOption("--ddp_timeout", strategy.timeout)


def _optimizer(request: FrameworkRequest) -> Iterator[ProgramOption]:
    """The optimizer that the plan counts; another one that run names stays."""
    strategy = request.strategy
    name = OPTIMIZERS.get(strategy.optimizer)
    if name is not None:
        if not _has(request, "--optim"):
            yield ProgramOption("--optim", name)
    elif strategy.fused is not None and strategy.optimizer == "adamw":
        yield ProgramOption("--optim", "adamw_torch_fused" if strategy.fused else "adamw_torch")


def _kernels(request: FrameworkRequest) -> Iterator[ProgramOption]:
    """The fused loss and the compiled layers that the plan counts; what run sets stays."""
    strategy = request.strategy
    if strategy.loss == "fused" and not _has(request, _LIGER):
        yield ProgramOption(_LIGER, "true", "needs the package liger-kernel")
    if strategy.compiled and not _has(request, "--torch_compile"):
        yield ProgramOption("--torch_compile", "true")


def _has(request: FrameworkRequest, name: str) -> bool:
    return program_options.has_option(request.run_args, name)


def _same_as(found: dsconfig.Written, request: FrameworkRequest) -> Iterator[ProgramOption]:
    """What a file of the user's says alone: the Trainer stops where its own default differs."""
    why = "from the DeepSpeed configuration"
    strategy = request.strategy
    clipping = found.values.get("gradient_clipping")
    if strategy.clipping is None and isinstance(clipping, int | float):
        yield ProgramOption("--max_grad_norm", float(clipping), why)
    if strategy.batch is None:
        for option, key in _BATCH.items():
            if isinstance(count := found.values.get(key), int):
                yield ProgramOption(option, count, why)


def _ddp(request: FrameworkRequest) -> Iterator[ProgramOption]:
    strategy = request.strategy
    if strategy.settings.bucket_mb != 25:
        yield ProgramOption("--ddp_bucket_cap_mb", strategy.settings.bucket_mb)
    if strategy.settings.static_graph:
        yield ProgramOption("--ddp_static_graph", "true")
    if strategy.settings.find_unused_parameters:
        yield ProgramOption("--ddp_find_unused_parameters", "true")
    if not strategy.settings.broadcast_buffers:
        yield ProgramOption("--ddp_broadcast_buffers", "false")


def _fsdp_words(request: FrameworkRequest) -> str:
    """``--fsdp``: the strategy, in the words of transformers 4."""
    resharding = fsdp.choose_resharding(request)
    if isinstance(resharding, bool):
        resharding = "full_shard" if resharding else "shard_grad_op"
    offload = " offload" if request.strategy.offload else ""
    return f"{resharding.lower()} auto_wrap{offload}"


def _fsdp_config(request: FrameworkRequest) -> BundleFile:
    values: dict[str, str | bool | int | list[str]] = {}
    for name, value, _ in fsdp.list_settings(request):
        values[name] = value.split(",") if name == "transformer_layer_cls_to_wrap" else value  # type: ignore[union-attr]
        if name == "version":
            resharding = fsdp.choose_resharding(request)
            values["reshard_after_forward"] = (
                resharding if isinstance(resharding, bool) else resharding.lower()
            )
            values["cpu_offload"] = bool(request.strategy.offload)
    return BundleFile(FILE, (json.dumps(values, indent=2) + "\n").encode())


def _fsdp(request: FrameworkRequest) -> Iterator[fsdp.FsdpSetting]:
    """What of FSDP's settings jobgen chose."""
    if request.strategy.trait.family in {"fsdp", "fsdp2"}:
        yield from (setting for setting in fsdp.list_settings(request) if setting.why)


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    if request.strategy.trait.family == "fsdp":
        message = "FSDP1 is deprecated in transformers 5 and will be removed; use strategy: fsdp2"
        yield Note(message, ("train", "strategy"))
    if any(option.name == _LIGER for option in _kernels(request)):
        message = f"train.loss: fused passes {_LIGER}, which needs the package liger-kernel"
        yield Note(message, ("train", "loss"))


def _faults(request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    strategy = request.strategy
    family = strategy.trait.family
    if family in {"fsdp", "fsdp2"}:
        yield from fsdp.check_plugin(request, _TITLE)
        yield from _mesh(request)
        if not request.gpus:
            message = f"{_TITLE} shards on GPUs only: on CPUs it silently falls back to DDP"
            yield TrainDiagnostic("J236", message, ("strategy",), "set strategy: zero2, or ddp")
    if family != "zero" and strategy.recompute == "selective":
        message = f"{_TITLE} can only recompute whole layers"
        yield TrainDiagnostic("J236", message, ("activation_checkpointing",), "use full")


def _mesh(request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    mesh = request.strategy.mesh
    for axis in ("tp", "pp", "cp", "ep"):
        if getattr(mesh, axis) > 1:
            message = f"{_TITLE} has no option for {axis}"
            yield TrainDiagnostic(
                "J236", message, (axis,), f"remove {axis}, or set framework: accelerate"
            )
    if request.strategy.trait.family == "fsdp2" and mesh.replicate > 1:
        message = f"{_TITLE} has no option for FSDP2 over a subset of the ranks"
        hint = "remove shard, or set framework: accelerate"
        yield TrainDiagnostic("J236", message, ("strategy", "shard"), hint)
