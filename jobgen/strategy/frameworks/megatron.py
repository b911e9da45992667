"""Programs of Megatron-LM: words for the end of ``pretrain_gpt.py``'s command line.

Names, choices and refusals are those of ``megatron/training/arguments.py`` and of megatron-core's
configurations (tag core_v0.16.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from jobgen.model.plan import Setting, by_rule
from jobgen.strategy.frameworks import Configured, Request, megatron_model, options
from jobgen.strategy.frameworks.options import CHECKPOINTS, Option
from jobgen.strategy.mesh import balanced
from jobgen.strategy.values import Fault, Note, Strategy

TITLE = "Megatron-LM"
SAVE_INTERVAL = 500
"""Steps between two checkpoints, where the program's own words say nothing."""
_DEGREES = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
}
_PRECISION = {"fp32": (), "bf16": (Option("--bf16"),), "fp16": (Option("--fp16"),)}
_RECOMPUTE = {
    "none": (),
    "selective": (Option("--recompute-granularity", "selective"),),
    "full": (
        Option("--recompute-granularity", "full"),
        Option("--recompute-method", "uniform", "every layer alike, not the first ones of a stage"),
        Option("--recompute-num-layers", 1, "one layer at a time: the least memory"),
    ),
}


def configure(request: Request) -> Configured:
    """Its arguments and its variable; what it refuses, as faults."""
    model, wrong = megatron_model.describe_model(request)
    found = (*_faults(request), *wrong)
    if found:
        return Configured(faults=found)
    chosen = (*_options(request), *model, *_checkpoints(request))
    strategy = request.strategy
    env = {}
    if strategy.mesh.tp > 1 or strategy.mesh.cp > 1:
        reason = "Megatron-LM asks for it with tp or cp on GPUs before Blackwell: communication is "
        reason += "queued before the computation that could hide it"
        env["CUDA_DEVICE_MAX_CONNECTIONS"] = Setting("1", reason, by_rule("megatron"))
    return Configured(
        env=env,
        args=options.words(chosen),
        chosen=options.explained(chosen),
        notes=tuple(_notes(request)),
        saves="signal",
        signal=_exit_signal(request.words),
    )


def _options(request: Request) -> Iterator[Option]:
    strategy = request.strategy
    mesh = strategy.mesh._asdict()
    for axis, name in _DEGREES.items():
        # tp and pp are always said: what stands in run must not divide the ranks otherwise
        if mesh[axis] > 1 or axis in {"tp", "pp"}:
            yield Option(name, mesh[axis])
    layers = strategy.sizes.layers
    if layers and layers % strategy.mesh.pp and balanced(layers, strategy.mesh.pp):
        reason = f"{layers} layers come out even where embedding and output layer count as one each"
        yield Option("--account-for-embedding-in-pipeline-split", None, reason)
        yield Option("--account-for-loss-in-pipeline-split", None, reason)
    if strategy.mesh.tp > 1:
        reason = "with tp, norms and dropout are divided too: less memory, the same bytes moved"
        yield Option("--sequence-parallel", None, reason)
    if strategy.batch:
        yield Option("--micro-batch-size", strategy.batch.micro)
        yield Option("--global-batch-size", strategy.batch.total)
    yield from _PRECISION[strategy.precision]
    yield from _data_parallel(strategy)
    yield from _RECOMPUTE[strategy.recompute]
    if strategy.clipping is not None:
        yield Option("--clip-grad", strategy.clipping)
    if strategy.seq_len is not None:
        yield Option("--seq-length", strategy.seq_len)


def _data_parallel(strategy: Strategy) -> Iterator[Option]:
    if strategy.trait.stage == 1:
        yield Option("--use-distributed-optimizer")
        reason = "gradients are reduced while the backward pass goes on"
        yield Option("--overlap-grad-reduce", None, reason)
        reason = "parameters are gathered while the forward pass goes on"
        yield Option("--overlap-param-gather", None, reason)
    if strategy.offload.optimizer:
        yield Option("--optimizer-cpu-offload")
        reason = "Megatron-LM offloads this kind of optimizer only"
        yield Option("--use-precision-aware-optimizer", None, reason)
    if strategy.hook == "bf16":
        yield Option("--grad-reduce-in-bf16")
    if strategy.bucket_mb != 25:
        yield Option("--overlap-grad-reduce", None, "without it, there are no buckets")
        size = (strategy.bucket_mb << 20) // _gradient_bytes(strategy)
        yield Option(
            "--ddp-bucket-size", size, f"parameters, {strategy.bucket_mb} MiB of gradients"
        )


def _gradient_bytes(strategy: Strategy) -> int:
    """Of one parameter: bf16 gradients are kept and reduced in fp32 unless told otherwise."""
    return 2 if strategy.precision == "fp16" or strategy.hook == "bf16" else 4


def _checkpoints(request: Request) -> Iterator[Option]:
    """Saved and loaded in one place, by ranks of any number; what run says itself stays."""
    own = request.words
    if not options.said(own, "--save"):
        yield Option("--save", CHECKPOINTS)
    if not options.said(own, "--load"):
        yield Option("--load", CHECKPOINTS, "a job that starts again goes on from its checkpoint")
    if not options.said(own, "--save-interval", "--persistent-save-interval"):
        reason = "Megatron-LM saves nothing without one; write your own in run"
        yield Option("--save-interval", SAVE_INTERVAL, reason)
    if not options.said(own, "--ckpt-format"):
        yield Option("--ckpt-format", "torch_dist", "other numbers of ranks can load it")
    if not options.said(own, "--exit-signal-handler"):
        reason = "a rank that gets SIGTERM lets all ranks save and end"
        yield Option("--exit-signal-handler", None, reason)


def _exit_signal(words: tuple[str, ...]) -> str:
    """The signal at which all ranks save and end: SIGTERM in all releases, or what run says."""
    return (options.read_values(words).get("--exit-signal") or "SIGTERM").removeprefix("SIG")


def _faults(request: Request) -> Iterator[Fault]:
    strategy = request.strategy
    yield from options.on_gpus(request.gpus, TITLE)
    yield from options.whole_layers(strategy, TITLE)
    if strategy.batch is None:
        message = f"{TITLE} starts with a micro batch only, and train says nothing of batches"
        yield Fault("J230", message, ("micro_batch",), "write micro_batch: 1, and global_batch")
    if strategy.static_graph:
        message = f"{TITLE} has its own data parallel code, without static_graph"
        yield Fault("J236", message, ("strategy", "static_graph"), "remove it")
    if strategy.hook == "fp16" or (strategy.hook == "bf16" and strategy.precision != "bf16"):
        message = f"{TITLE} reduces gradients in their own dtype, or in bf16 with precision: bf16"
        hint = "write hook: bf16 and precision: bf16, or remove it"
        yield Fault("J236", message, ("strategy", "hook"), hint)
    yield from _divided(strategy)


def _divided(strategy: Strategy) -> Iterator[Fault]:
    """Sequence parallel scatters each rank's part of the sequence over tp."""
    tp, cp, length = strategy.mesh.tp, strategy.mesh.cp, strategy.seq_len
    step = lcm(tp * cp, 2 * cp) if cp > 1 else tp
    if length is not None and length % step:
        message = f"seq_len {length} is no multiple of {step}, and sequence parallel over "
        message += f"tp {tp}" + (f" and cp {cp}" if cp > 1 else "") + " divides it"
        yield Fault("J233", message, ("seq_len",), f"write seq_len: {-(-length // step) * step}")


def _notes(request: Request) -> Iterator[Note]:
    strategy, mesh = request.strategy, request.strategy.mesh
    yield from megatron_model.list_notes(request)
    if strategy.clipping is None and not options.said(request.words, "--clip-grad"):
        message = "Megatron-LM clips gradients at 1.0 unless gradient_clipping says otherwise"
        yield Note(message, ("train", "framework"))
    if strategy.name == "3d" and mesh.data > 1:
        yield Note(
            "3d keeps the optimizer whole on every data parallel rank; strategy: zero1 divides it, "
            "with the same tp and pp",
            ("train", "strategy"),
        )
    if mesh.ep > 1 and strategy.sizes.experts is None:
        message = f"ep {mesh.ep} needs --num-experts in run, a multiple of it"
        yield Note(message, ("train", "ep"))
    if strategy.offload:
        message = "Megatron-LM offloads the optimizer with Transformer Engine installed only"
        yield Note(message, ("train", "offload"))
    if request.nodes > 1 and mesh.pp > 1:
        yield Note(
            "ranks of a node are neighbours, so tp stays inside it; torchrun's c10d rendezvous "
            "orders the nodes by address: rdzv: static keeps Slurm's order for the pipeline",
            ("train", "pp"),
        )
