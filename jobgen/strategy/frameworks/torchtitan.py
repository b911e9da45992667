"""Programs of torchtitan: words for the end of ``torchtitan.train``'s command line.

Since 0.3 a run is ``--module M --config F`` (a function of Python that makes a configuration) with
options ``--section.key`` over it; there is no toml file any more. Names, choices and refusals are
those of torchtitan 0.3.0 (``config/configs.py``, ``trainer.py``, ``components/checkpointer``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from jobgen.strategy.frameworks import Configured, FrameworkRequest, program_options
from jobgen.strategy.frameworks.program_options import CHECKPOINTS, ProgramOption
from jobgen.strategy.shapes import build_model
from jobgen.strategy.spec import Note, Strategy, TrainDiagnostic
from jobgen.wording import count

TITLE = "torchtitan"
RECOMPUTE = "activation-checkpoint:"
"""A command of tyro, not an option: it stands last, and a second one is refused."""
_DTYPE = {"bf16": "bfloat16", "fp32": "float32"}
_DEGREES = {
    "replicate": "data_parallel_replicate_degree",
    "shard": "data_parallel_shard_degree",
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree",
}


def configure(request: FrameworkRequest) -> Configured:
    """Its options; what it refuses, as faults."""
    found = tuple(_faults(request))
    if found:
        return Configured(faults=found)
    chosen = tuple(_options(request))
    return Configured(
        args=(*program_options.format_options(chosen), RECOMPUTE + request.strategy.recompute),
        chosen=program_options.explain_options(chosen),
        notes=tuple(_notes(request)),
        saves="interval",
    )


def _options(request: FrameworkRequest) -> Iterator[ProgramOption]:
    strategy = request.strategy
    mesh = strategy.mesh._asdict()
    for axis, name in _DEGREES.items():
        # all are said: what the configuration of the model has must not divide the ranks otherwise
        yield ProgramOption(f"--parallelism.{name}", mesh[axis])
    if strategy.trait.family == "fsdp2":
        policy = "always" if strategy.settings.reshard_after_forward else "never"
        yield ProgramOption("--parallelism.fsdp_reshard_after_forward", policy)
    yield from _batch(strategy)
    if strategy.seq_len is not None:
        yield ProgramOption("--training.seq_len", strategy.seq_len)
    yield from _training(strategy)
    own = ("--compile.enable", "--compile.no-enable")
    if strategy.compiled and not program_options.has_option(request.run_args, *own):
        yield ProgramOption("--compile.enable")
    if strategy.mesh.pp > 1 or strategy.mesh.ep > 1:
        reason = "its CUDA graphs work neither with pp nor with most expert dispatchers"
        yield ProgramOption("--training.disable_cuda_graphs", None, reason)
    yield from _checkpoints(request)


def _training(strategy: Strategy) -> Iterator[ProgramOption]:
    """What is the same for every division of the ranks."""
    if strategy.pure:
        yield ProgramOption("--training.dtype", _DTYPE[strategy.precision])
    else:
        yield ProgramOption("--training.dtype", "float32", "parameters and optimizer state in fp32")
    yield ProgramOption("--training.mixed_precision_param", _DTYPE[strategy.precision])
    if strategy.timeout is not None:
        for phase in ("init", "train"):
            yield ProgramOption(f"--comm.{phase}_timeout_seconds", strategy.timeout)
    if strategy.fused is not None:
        kind = "fused" if strategy.fused else "foreach"
        yield ProgramOption("--optimizer.implementation", kind)
    if strategy.clipping is not None:
        yield ProgramOption("--training.max_norm", strategy.clipping)
    if strategy.offload:
        yield ProgramOption("--training.enable_cpu_offload")


def _batch(strategy: Strategy) -> Iterator[ProgramOption]:
    """With pp one forward pass of the schedule is the whole step, micro-batch by micro-batch."""
    batch = strategy.batch
    if batch is None:
        return
    if strategy.mesh.pp > 1:
        reason = "all micro-batches of a step enter the pipeline at once, which keeps it full"
        yield ProgramOption("--training.local_batch_size", batch.micro * batch.accumulation, reason)
        yield ProgramOption("--parallelism.pipeline_parallel_microbatch_size", batch.micro)
    else:
        yield ProgramOption("--training.local_batch_size", batch.micro)
    yield ProgramOption("--training.global_batch_size", batch.total)


def _checkpoints(request: FrameworkRequest) -> Iterator[ProgramOption]:
    """Saved in torch's distributed format, which any number of ranks loads; run's own stays."""
    reason = "resume from the checkpoint after a restart"
    own = ("--checkpoint.enable", "--checkpoint.no-enable")
    if not program_options.has_option(request.run_args, *own):
        yield ProgramOption("--checkpoint.enable", None, reason)
    if not program_options.has_option(request.run_args, "--checkpoint.folder"):
        yield ProgramOption("--checkpoint.folder", CHECKPOINTS, reason)


def _faults(request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    strategy = request.strategy
    yield from program_options.require_gpus(request.gpus, TITLE)
    yield from program_options.check_layers(strategy, TITLE)
    if strategy.precision not in _DTYPE:
        message = f"{TITLE} computes in bf16 or fp32 and has no loss scaling"
        yield TrainDiagnostic("J236", message, ("precision",), "set precision: bf16")
    if not isinstance(strategy.settings.reshard_after_forward, bool):
        message = (
            f"{TITLE} reshards after every forward pass or never, not over a subset of the ranks"
        )
        path = ("strategy", "reshard_after_forward")
        yield TrainDiagnostic("J236", message, path, "use true or false")
    if strategy.settings.reduce_dtype not in {None, "fp32"}:
        message = f"{TITLE} always reduces gradients in fp32"
        path = ("strategy", "reduce_dtype")
        yield TrainDiagnostic("J236", message, path, "remove it, or set framework: torch")
    if any(word.startswith(RECOMPUTE) for word in request.run_args):
        message = f"run: has {RECOMPUTE} itself, and {TITLE} accepts no options after it"
        hint = "remove it from run: and set activation_checkpointing: none, selective or full"
        yield TrainDiagnostic("J236", message, ("activation_checkpointing",), hint)
    yield from _divided(strategy)


def _divided(strategy: Strategy) -> Iterator[TrainDiagnostic]:
    """Sequences over tp and cp; experts inside the ranks that one copy is sharded over."""
    mesh, length = strategy.mesh, strategy.seq_len
    step = mesh.tp * (2 * mesh.cp if mesh.cp > 1 else 1)
    if length is not None and length % step:
        message = f"seq_len {length} is not a multiple of {step} = tp {mesh.tp}"
        message += f" x 2 x cp {mesh.cp}" if mesh.cp > 1 else ""
        near = -(-length // step) * step
        yield TrainDiagnostic("J233", message, ("seq_len",), f"set seq_len: {near}")
    if mesh.etp > 1:
        message = f"torchtitan keeps each expert on one rank, but etp is {mesh.etp}"
        yield TrainDiagnostic("J232", message, ("etp",), "remove etp, or set framework: megatron")
    within = prod((mesh.shard, mesh.cp, mesh.tp))
    if within % mesh.ep:
        message = f"ep {mesh.ep} does not divide the {within} ranks of one copy of the model"
        yield TrainDiagnostic(
            "J231", message, ("ep",), "set strategy: fsdp2, which shards over all ranks"
        )


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    strategy = request.strategy
    if request.stops:
        yield Note(
            "torchtitan handles neither signals nor a stop file: it saves every "
            "--checkpoint.interval steps (500 by default), and a requeue repeats the steps "
            "since then",
            ("checkpoint",),
        )
    if strategy.sizes != type(strategy.sizes)():
        message = "train.model is not passed on: --module and --config in run: select the model"
        yield Note(message, ("train", "model"))
    yield from _other_size(request)
    if strategy.clipping is None and not program_options.has_option(
        request.run_args, *_named("training.max_norm")
    ):
        message = "torchtitan clips gradients at 1.0 unless gradient_clipping is set"
        yield Note(message, ("train", "framework"))
    reshards = strategy.trait.family == "fsdp2" and strategy.settings.reshard_after_forward is True
    if strategy.mesh.pp > 1 and reshards:
        yield Note(
            "with pp, parameters are gathered again for every micro-batch; "
            "reshard_after_forward: false gathers them once per step",
            ("train", "pp"),
        )
    yield from _short_pipeline(strategy)
    if strategy.mesh.cp > 1:
        message = "cp needs a configuration with FlexAttention"
        yield Note(message, ("train", "cp"))


def _short_pipeline(strategy: Strategy) -> Iterator[Note]:
    """Fewer micro-batches than stages: what the schedule refuses as it starts."""
    batch, stages = strategy.batch, strategy.mesh.pp
    if batch is None or batch.accumulation >= stages:
        return
    micros = count(batch.accumulation, "micro-batch", "micro-batches")
    fills = "does not fill" if batch.accumulation == 1 else "do not fill"
    least = batch.total // batch.accumulation * stages
    yield Note(
        f"{micros} {fills} a pipeline of {stages} stages, and the 1F1B schedule rejects that",
        ("train", "pp"),
        "warning",
        f"set gradient_accumulation: {stages}, or global_batch: {least}",
    )


def _other_size(request: FrameworkRequest) -> Iterator[Note]:
    """A configuration whose name has another size than the planned model: ``llama3_70b``."""
    name = program_options.read_values(request.run_args).get("--config") or ""
    size = _SIZE.search(name)
    if size is None or request.model is None or not request.model.vocab:
        return
    billions = float(size[1].replace("_", "."))
    planned = build_model(request.model).count / 1e9
    if abs(planned - billions) > _ROUNDED * billions:
        yield Note(
            f"run: has --config {name}, but train.model has {planned:.1f} billion "
            "parameters: the estimates are for train.model",
            ("run",),
        )


_SIZE = re.compile(r"_(\d{1,4}(?:_\d)?)b(?:_|$)")
_ROUNDED = 0.3
"""Names round: Qwen3-0.6B has 0.75 billion parameters with its output layer."""


def _named(key: str) -> tuple[str, str]:
    return f"--{key}", "--" + key.replace("_", "-")
