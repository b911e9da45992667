"""Programs of Lightning: words for the end of a ``LightningCLI``'s command line.

The strategy is a class with its arguments, as Lightning 2.6 has them. What Lightning leaves to the
program (the batch of its loader, ``fully_shard`` in ``configure_model``) stands in strategy.json,
which ``$JOBGEN_STRATEGY`` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from jobgen.model.bundle import BundleFile
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Raw
from jobgen.strategy import frameworks
from jobgen.strategy.frameworks import Configured, FrameworkRequest, program_options, torch
from jobgen.strategy.frameworks.program_options import CHECKPOINTS, ProgramOption
from jobgen.strategy.spec import Note, Strategy, TrainDiagnostic

TITLE = "Lightning"
DS_CONFIG = "ds_config.json"
_STRATEGIES = "lightning.pytorch.strategies."
_CLASSES = {
    "ddp": "DDPStrategy",
    "fsdp": "FSDPStrategy",
    "fsdp2": "ModelParallelStrategy",
    "zero": "DeepSpeedStrategy",
}
_PRECISION = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
_PURE = {**_PRECISION, "bf16": "bf16-true", "fp16": "16-true"}
"""Without an fp32 copy of the parameters (plugins/precision/half.py and fsdp.py)."""
_DTYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}
_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks."


class _Told(NamedTuple):
    """The arguments of a strategy's class, and the files that they name."""

    options: tuple[ProgramOption, ...]
    files: tuple[BundleFile, ...] = ()
    notes: tuple[Note, ...] = ()
    faults: tuple[TrainDiagnostic, ...] = ()


def configure(request: FrameworkRequest) -> Configured:
    """Its options, strategy.json, and the DeepSpeed configuration where it is that."""
    found = tuple(_faults(request))
    told = _zero(request) if request.strategy.trait.family == "zero" else _Told(_own(request))
    if found or told.faults:
        return Configured(faults=(*found, *told.faults))
    chosen = (*_trainer(request), *told.options)
    document = torch.configure(request)
    files = {file.path: file for file in (*document.files, *told.files)}
    return Configured(
        files=tuple(files.values()),
        env=document.env,
        args=program_options.format_options(chosen, "="),
        chosen=program_options.explain_options(chosen),
        notes=(*told.notes, *_notes(request)),
        saves="wrapper",
    )


def _trainer(request: FrameworkRequest) -> Iterator[ProgramOption]:
    strategy = request.strategy
    yield ProgramOption("--trainer.accelerator", "gpu" if request.gpus else "cpu")
    yield ProgramOption("--trainer.devices", request.ranks_per_node)
    yield ProgramOption("--trainer.num_nodes", request.nodes)
    # DeepSpeed keeps its copy in either
    kinds = _PURE if strategy.pure and strategy.trait.family != "zero" else _PRECISION
    yield ProgramOption("--trainer.precision", kinds[strategy.precision])
    if strategy.batch:
        yield ProgramOption("--trainer.accumulate_grad_batches", strategy.batch.accumulation)
    if strategy.clipping is not None and strategy.trait.family != "zero":
        yield ProgramOption("--trainer.gradient_clip_val", strategy.clipping)
    if not program_options.has_option(request.run_args, "--trainer.default_root_dir"):
        reason = "Lightning's default directory for checkpoints, unless a logger sets one"
        yield ProgramOption("--trainer.default_root_dir", CHECKPOINTS, reason)
    # the class stands before its arguments, which come next
    yield ProgramOption("--trainer.strategy", _STRATEGIES + _CLASSES[strategy.trait.family])


def _own(request: FrameworkRequest) -> tuple[ProgramOption, ...]:
    """The arguments of its strategy's class, where that is Lightning's or torch's own."""
    made = {"ddp": _ddp, "fsdp": _fsdp, "fsdp2": _fsdp2}[request.strategy.trait.family]
    options = (*made(request.strategy), *_timeout(request.strategy))
    return tuple(o._replace(name=f"--trainer.strategy.{o.name}") for o in options)


def _timeout(strategy: Strategy) -> Iterator[ProgramOption]:
    if strategy.timeout is not None:
        minutes, seconds = divmod(strategy.timeout, 60)
        yield ProgramOption("timeout", f"{minutes // 60}:{minutes % 60:02}:{seconds:02}")


def _ddp(strategy: Strategy) -> Iterator[ProgramOption]:
    yield ProgramOption("bucket_cap_mb", strategy.settings.bucket_mb)
    yield ProgramOption("static_graph", _yes(strategy.settings.static_graph))
    if strategy.settings.find_unused_parameters:
        yield ProgramOption("find_unused_parameters", "true")
    if not strategy.settings.broadcast_buffers:
        yield ProgramOption("broadcast_buffers", "false")
    view = torch.view_buckets(strategy)
    reason = "gradients share memory with the reduction buckets" if view else ""
    yield ProgramOption("gradient_as_bucket_view", _yes(view), reason)
    if strategy.settings.hook != "none":
        yield ProgramOption("ddp_comm_hook", f"{_HOOKS}{strategy.settings.hook}_compress_hook")


def _fsdp(strategy: Strategy) -> Iterator[ProgramOption]:
    yield ProgramOption("sharding_strategy", torch.SHARDING[strategy.name])
    if strategy.name == "fsdp-hybrid":
        yield ProgramOption("device_mesh", f"[{strategy.mesh.replicate},{strategy.mesh.shard}]")
    if strategy.offload:
        yield ProgramOption("cpu_offload", "true")
    if strategy.wrap:
        yield ProgramOption("auto_wrap_policy", json.dumps(strategy.wrap))
    if strategy.recompute == "full":
        yield ProgramOption("activation_checkpointing", json.dumps(strategy.wrap))
    yield from _dtypes(strategy)
    kind = strategy.settings.state_dict
    reason = "sharded checkpoints, which load on any number of ranks"
    yield ProgramOption("state_dict_type", kind, reason if kind == "sharded" else "")


def _dtypes(strategy: Strategy) -> Iterator[ProgramOption]:
    """FSDP's MixedPrecision whole: it replaces the one that Lightning makes of its precision."""
    asked, computed = strategy.settings, strategy.precision
    if asked.reduce_dtype is None and asked.buffer_dtype is None:
        return
    for name, dtype in (
        ("param_dtype", computed),
        ("reduce_dtype", asked.reduce_dtype or computed),
        ("buffer_dtype", asked.buffer_dtype or computed),
    ):
        yield ProgramOption(f"mixed_precision.{name}", _DTYPES[dtype])


def _fsdp2(strategy: Strategy) -> Iterator[ProgramOption]:
    yield ProgramOption("data_parallel_size", strategy.mesh.data)
    yield ProgramOption("tensor_parallel_size", strategy.mesh.tp)
    if strategy.settings.state_dict == "full":
        yield ProgramOption("save_distributed_checkpoint", "false")


def _zero(request: FrameworkRequest) -> _Told:
    """DeepSpeed's own configuration, without the one key that Lightning insists to set itself."""
    strategy = request.strategy._replace(framework="deepspeed")
    made = frameworks.configure(request._replace(strategy=strategy))
    if made.faults:
        return _Told((), faults=made.faults)
    files = {file.path: file for file in made.files}
    config = json.loads(files[DS_CONFIG].content)
    config.pop("gradient_accumulation_steps", None)
    text = json.dumps(config, indent=2) + "\n"
    named = ProgramOption("--trainer.strategy.config", Raw(f'"$JOBGEN_BUNDLE_DIR/{DS_CONFIG}"'))
    files[DS_CONFIG] = files[DS_CONFIG]._replace(content=text.encode())
    timeout = (o._replace(name="--trainer.strategy.timeout") for o in _timeout(strategy))
    return _Told((named, *timeout), tuple(files.values()), made.notes)


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _faults(request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    strategy = request.strategy
    family = strategy.trait.family
    if not request.gpus and family in {"fsdp", "zero"}:
        message = (
            f"{TITLE} supports {strategy.trait.title} on GPUs only, but these ranks have no GPUs"
        )
        yield TrainDiagnostic("J236", message, ("strategy",), "set strategy: ddp, or request GPUs")
    if family == "fsdp":
        yield from _fsdp_faults(strategy)
    if family == "fsdp2":
        yield from _fsdp2_faults(strategy)


def _fsdp_faults(strategy: Strategy) -> Iterator[TrainDiagnostic]:
    if strategy.clipping:
        message = f"{TITLE} cannot clip gradients by norm with {strategy.trait.title}"
        hint = "set strategy: fsdp2, or remove it"
        yield TrainDiagnostic("J236", message, ("gradient_clipping",), hint)
    named = [name for name in strategy.wrap if "." not in name]
    if named:
        message = f"{TITLE} imports the classes to wrap, but {named[0]} has no module path"
        hint = f"write the full path, such as model.{named[0]}"
        yield TrainDiagnostic("J236", message, ("wrap",), hint)
    if strategy.recompute == "selective" or (strategy.recompute == "full" and not strategy.wrap):
        message = f"{TITLE} can only recompute whole layers, of the classes in wrap"
        hint = "set activation_checkpointing: full and wrap: [model.Block]"
        yield TrainDiagnostic("J236", message, ("activation_checkpointing",), hint)


def _fsdp2_faults(strategy: Strategy) -> Iterator[TrainDiagnostic]:
    """ModelParallelStrategy has a mesh of two dimensions, data and tensor."""
    for axis in ("pp", "cp", "ep"):
        degree = getattr(strategy.mesh, axis)
        if degree > 1:
            message = f"{TITLE} supports data and tensor parallelism, not {axis}"
            hint = f"remove {axis}, or set framework: torch"
            yield TrainDiagnostic("J232", message, (axis,), hint)
    if strategy.mesh.replicate > 1:
        message = f"{TITLE} always shards over all data-parallel ranks"
        yield TrainDiagnostic(
            "J236", message, ("strategy", "shard"), "remove it, or use fsdp-hybrid"
        )
    if strategy.precision == "fp16":
        message = f"{TITLE} has no loss scaling with ModelParallelStrategy"
        yield TrainDiagnostic("J236", message, ("precision",), "set precision: bf16")


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    strategy = request.strategy
    if not request.stops and not program_options.has_option(request.run_args, "--ckpt_path"):
        yield Note(
            "to resume from the last checkpoint, add --ckpt_path=last after fit in run: "
            "and keep one with ModelCheckpoint(save_last=True)",
            ("run",),
        )
    if strategy.batch:
        yield Note(
            f"the program's data loader must use batches of {strategy.batch.micro} samples "
            "per rank, micro_batch in $JOBGEN_STRATEGY",
            ("train", "micro_batch"),
        )
    if strategy.fused is not None:
        yield Note(
            f"the program must pass fused={strategy.fused} to its optimizer, fused_optimizer in "
            "$JOBGEN_STRATEGY",
            ("train", "fused"),
        )
    if strategy.trait.family == "fsdp2":
        yield Note(
            "the program must call fully_shard in configure_model, over self.device_mesh "
            "and with the settings in $JOBGEN_STRATEGY",
            ("train", "strategy"),
        )
    if strategy.recompute != "none" and strategy.trait.family in {"ddp", "fsdp2"}:
        yield Note(
            "Lightning recomputes with FSDP only: the program must apply it, from $JOBGEN_STRATEGY",
            ("train", "activation_checkpointing"),
        )
