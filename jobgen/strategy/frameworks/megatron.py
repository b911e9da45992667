"""Programs of Megatron-LM: words for the end of ``pretrain_gpt.py``'s command line.

Names, choices and refusals are those of ``megatron/training/arguments.py`` and of megatron-core's
configurations (tag core_v0.16.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from jobgen.model.decision import Setting, cite_rule
from jobgen.shell import Raw
from jobgen.strategy.frameworks import (
    Configured,
    FrameworkRequest,
    megatron_model,
    megatron_notes,
    program_options,
)
from jobgen.strategy.frameworks.program_options import CHECKPOINTS, ProgramOption
from jobgen.strategy.mesh import is_balanced
from jobgen.strategy.spec import Note, Strategy, TrainDiagnostic

TITLE = "Megatron-LM"
SAVE_INTERVAL = 500
"""Steps between two checkpoints, where the program's own words say nothing."""
_DEGREES = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
}
_PRECISION = {"fp32": (), "bf16": (ProgramOption("--bf16"),), "fp16": (ProgramOption("--fp16"),)}
_REDUCED = {("fp32", "fp32"), ("fp32", "bf16"), ("bf16", "bf16"), ("fp16", "fp16")}
"""(type in which gradients are reduced, precision): bf16 gradients are kept and reduced in fp32,
or as they are with ``--grad-reduce-in-bf16`` (``accumulate_allreduce_grads_in_fp32``)."""
_RECOMPUTE = {
    "none": (),
    "selective": (ProgramOption("--recompute-granularity", "selective"),),
    "full": (
        ProgramOption("--recompute-granularity", "full"),
        ProgramOption(
            "--recompute-method",
            "uniform",
            "recompute all layers alike, not only the first ones of a stage",
        ),
        ProgramOption("--recompute-num-layers", 1, "one layer at a time: least memory"),
    ),
}


def configure(request: FrameworkRequest) -> Configured:
    """Its arguments and its variable; what it refuses, as faults."""
    model, wrong = megatron_model.describe_model(request)
    found = (*_faults(request), *wrong)
    if found:
        return Configured(faults=found)
    chosen = (*_options(request), *model, *_checkpoints(request), *_profile(request))
    strategy = request.strategy
    env = {}
    if strategy.mesh.tp > 1 or strategy.mesh.cp > 1:
        reason = "required by Megatron-LM with tp or cp on GPUs before Blackwell: communication is "
        reason += "queued before the computation that overlaps it"
        env["CUDA_DEVICE_MAX_CONNECTIONS"] = Setting("1", reason, cite_rule("megatron"))
    return Configured(
        env=env,
        args=program_options.format_options(chosen),
        chosen=program_options.explain_options(chosen),
        notes=tuple(_notes(request)),
        saves="signal",
        signal=_exit_signal(request.run_args),
        traces_itself=True,
    )


def _options(request: FrameworkRequest) -> Iterator[ProgramOption]:
    strategy = request.strategy
    mesh = strategy.mesh._asdict()
    for axis, name in _DEGREES.items():
        # tp and pp are always said: what stands in run must not divide the ranks otherwise
        if mesh[axis] > 1 or axis in {"tp", "pp"}:
            yield ProgramOption(name, mesh[axis])
    if strategy.mesh.tp > 1 and (strategy.mesh.ep > 1 or strategy.mesh.etp):
        reason = f"ranks that share each expert, of the {strategy.mesh.tp} of tp"
        yield ProgramOption("--expert-tensor-parallel-size", strategy.mesh.expert_tp, reason)
    layers = strategy.sizes.layers
    if layers and layers % strategy.mesh.pp and is_balanced(layers, strategy.mesh.pp):
        reason = f"{layers} layers divide evenly if embedding and output layer count as one each"
        yield ProgramOption("--account-for-embedding-in-pipeline-split", None, reason)
        yield ProgramOption("--account-for-loss-in-pipeline-split", None, reason)
    if strategy.mesh.tp > 1:
        reason = "with tp, shard norms and dropout too: less memory, same traffic"
        yield ProgramOption("--sequence-parallel", None, reason)
    if strategy.batch:
        yield ProgramOption("--micro-batch-size", strategy.batch.micro)
        yield ProgramOption("--global-batch-size", strategy.batch.total)
    yield from _PRECISION[strategy.precision]
    yield from _data_parallel(strategy)
    yield from _RECOMPUTE[strategy.recompute]
    yield from _training(strategy)


def _training(strategy: Strategy) -> Iterator[ProgramOption]:
    """What is the same for every strategy."""
    if strategy.clipping is not None:
        yield ProgramOption("--clip-grad", strategy.clipping)
    if strategy.timeout is not None:
        yield ProgramOption("--distributed-timeout-minutes", -(-strategy.timeout // 60))
    if strategy.seq_len is not None:
        yield ProgramOption("--seq-length", strategy.seq_len)


def _data_parallel(strategy: Strategy) -> Iterator[ProgramOption]:
    if strategy.trait.stage == 1:
        yield ProgramOption("--use-distributed-optimizer")
        reason = "overlap gradient reduction with the backward pass"
        yield ProgramOption("--overlap-grad-reduce", None, reason)
        reason = "overlap parameter gathering with the forward pass"
        yield ProgramOption("--overlap-param-gather", None, reason)
    if strategy.offload.optimizer:
        yield ProgramOption("--optimizer-cpu-offload")
        reason = "Megatron-LM can offload only this kind of optimizer"
        yield ProgramOption("--use-precision-aware-optimizer", None, reason)
    if _reduces_in_bf16(strategy):
        yield ProgramOption("--grad-reduce-in-bf16")
    if strategy.settings.bucket_mb != 25:
        yield ProgramOption("--overlap-grad-reduce", None, "required for gradient buckets")
        size = (strategy.settings.bucket_mb << 20) // _gradient_bytes(strategy)
        yield ProgramOption(
            "--ddp-bucket-size", size, f"parameters, {strategy.settings.bucket_mb} MiB of gradients"
        )


def _reduces_in_bf16(strategy: Strategy) -> bool:
    return "bf16" in (strategy.settings.hook, strategy.settings.reduce_dtype)


def _gradient_bytes(strategy: Strategy) -> int:
    """Of one parameter: bf16 gradients are kept and reduced in fp32 unless told otherwise."""
    return 2 if strategy.precision == "fp16" or _reduces_in_bf16(strategy) else 4


def _checkpoints(request: FrameworkRequest) -> Iterator[ProgramOption]:
    """Saved and loaded in one place, by ranks of any number; what run says itself stays."""
    own = request.run_args
    if not program_options.has_option(own, "--save"):
        yield ProgramOption("--save", CHECKPOINTS)
    if not program_options.has_option(own, "--load"):
        yield ProgramOption("--load", CHECKPOINTS, "resume from the checkpoint after a restart")
    if not program_options.has_option(own, "--save-interval", "--persistent-save-interval"):
        reason = "Megatron-LM saves no checkpoint without an interval; set your own in run:"
        yield ProgramOption("--save-interval", SAVE_INTERVAL, reason)
    if not program_options.has_option(own, "--ckpt-format"):
        yield ProgramOption("--ckpt-format", "torch_dist", "loads on any number of ranks")
    if not program_options.has_option(own, "--exit-signal-handler"):
        reason = "on SIGTERM to one rank, all ranks save and exit"
        yield ProgramOption("--exit-signal-handler", None, reason)


def _profile(request: FrameworkRequest) -> Iterator[ProgramOption]:
    """Its own profiler, which counts steps from 0 and stops before the last."""
    asked = request.strategy.profile
    if asked is None:
        return
    yield ProgramOption("--profile")
    yield ProgramOption("--use-pytorch-profiler")
    yield ProgramOption("--profile-step-start", asked.steps.first - 1)
    yield ProgramOption("--profile-step-end", asked.steps.last)
    yield ProgramOption("--profile-ranks", Raw(" ".join(map(str, asked.ranks))))
    if not program_options.has_option(request.run_args, "--tensorboard-dir"):
        place = Raw('"$JOBGEN_RUN_DIR/profile"')
        yield ProgramOption("--tensorboard-dir", place, "where it writes traces")


def _exit_signal(words: tuple[str, ...]) -> str:
    """The signal at which all ranks save and end: SIGTERM in all releases, or what run says."""
    return (program_options.read_values(words).get("--exit-signal") or "SIGTERM").removeprefix(
        "SIG"
    )


def _faults(request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    strategy = request.strategy
    yield from program_options.require_gpus(request.gpus, TITLE)
    yield from program_options.check_layers(strategy, TITLE)
    if strategy.batch is None:
        message = f"{TITLE} needs a micro batch size, and train: sets none"
        yield TrainDiagnostic(
            "J230", message, ("micro_batch",), "set micro_batch: 1, and global_batch"
        )
    hook = strategy.settings.hook
    if hook == "fp16" or (hook == "bf16" and strategy.precision != "bf16"):
        message = f"{TITLE} reduces gradients in their own dtype, or in bf16 with precision: bf16"
        hint = "set hook: bf16 and precision: bf16, or remove it"
        yield TrainDiagnostic("J236", message, ("strategy", "hook"), hint)
    dtype = strategy.settings.reduce_dtype
    if dtype is not None and (dtype, strategy.precision) not in _REDUCED:
        message = f"{TITLE} with precision: {strategy.precision} does not reduce in {dtype}"
        hint = "remove it, or set reduce_dtype: bf16 and precision: bf16"
        yield TrainDiagnostic("J236", message, ("strategy", "reduce_dtype"), hint)
    yield from _divided(strategy)


def _divided(strategy: Strategy) -> Iterator[TrainDiagnostic]:
    """Sequence parallel scatters each rank's part of the sequence over tp."""
    tp, cp, length = strategy.mesh.tp, strategy.mesh.cp, strategy.seq_len
    step = lcm(tp * cp, 2 * cp) if cp > 1 else tp
    if length is not None and length % step:
        message = f"seq_len {length} is not a multiple of {step}: sequence parallelism over "
        message += f"tp {tp}" + (f" and cp {cp}" if cp > 1 else "") + " must divide it"
        yield TrainDiagnostic(
            "J233", message, ("seq_len",), f"set seq_len: {-(-length // step) * step}"
        )


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    strategy, mesh = request.strategy, request.strategy.mesh
    yield from megatron_notes.list_requirements(request)
    yield from megatron_notes.list_notes(request)
    if strategy.clipping is None and not program_options.has_option(
        request.run_args, "--clip-grad"
    ):
        message = "Megatron-LM clips gradients at 1.0 unless gradient_clipping is set"
        yield Note(message, ("train", "framework"))
    if strategy.name == "3d" and mesh.data > 1:
        yield Note(
            "3d keeps the whole optimizer on every data-parallel rank; strategy: zero1 "
            "shards it, with the same tp and pp",
            ("train", "strategy"),
        )
    if mesh.ep > 1 and strategy.sizes.experts is None:
        message = f"ep {mesh.ep} needs --num-experts in run:, a multiple of it"
        yield Note(message, ("train", "ep"))
    if strategy.offload:
        message = "Megatron-LM offloads the optimizer only if Transformer Engine is installed"
        yield Note(message, ("train", "offload"))
    if request.nodes > 1 and mesh.pp > 1:
        yield Note(
            "ranks of a node are adjacent, so tp stays inside a node; torchrun's c10d "
            "rendezvous orders nodes by address, rdzv: static in Slurm's order, which "
            "suits the pipeline",
            ("train", "pp"),
        )
