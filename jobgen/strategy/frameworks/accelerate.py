"""Programs on accelerate's ``Accelerator``: the configuration file that its launcher reads.

What has no place in that file goes by variables (accumulation, the DeepSpeed configuration) and by
a strategy.json. Read: accelerate 1.15, commands/launch.py, utils/launch.py and state.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.model.decision import Setting
from jobgen.strategy import dsconfig
from jobgen.strategy.frameworks import Configured, FrameworkRequest, fsdp, program_options, torch
from jobgen.strategy.spec import Note, Strategy, TrainDiagnostic

_KINDS = {"ddp": "MULTI_GPU", "fsdp": "FSDP", "fsdp2": "FSDP", "zero": "DEEPSPEED"}
"""Family → ``distributed_type``. MULTI_GPU starts ranks on CPUs, too; MULTI_CPU would start one."""
_PRECISION = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}
_STRATEGY = ("train", "strategy")
_OFFLOAD = ("train", "offload")
_DDP = "DistributedDataParallelKwargs"
_AXES = {"replicate": "dp_replicate_size", "shard": "dp_shard_size", "tp": "tp_size"}
_CPU = (
    "accelerate supports {title} on GPUs only. On these CPUs the program must start with "
    "PartialState(cpu=True){more}; otherwise each rank trains alone on all of the data"
)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.,]*")
_NOT_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""What YAML 1.1 reads as something else than a word, in whatever case."""


def configure(request: FrameworkRequest) -> Configured:
    """The launcher's file, strategy.json, and for ZeRO a ds_config.json."""
    zero = request.strategy.trait.family == "zero"
    found = dsconfig.build_config(request, "accelerate") if zero else dsconfig.Written({})
    beside = torch.configure(request)
    sections = dict(_sections(request))
    return Configured(
        files=(*((dsconfig.build_file(found),) if zero else ()), *beside.files),
        env={**_variables(request), **beside.env},
        launcher=_yaml(sections).encode(),
        chosen={**dict(_chosen(request)), **dsconfig.explain_choices(found)},
        notes=tuple(_notes(request)),
        faults=(*found.faults, *_faults(request)),
    )


def _sections(request: FrameworkRequest) -> Iterator[tuple[str, Any]]:
    """Keys of the file, in its order; a mapping is a block."""
    strategy, world = request.strategy, request.nodes * request.ranks_per_node
    family = strategy.trait.family
    yield "compute_environment", "LOCAL_MACHINE"
    kind = "NO" if family == "ddp" and world == 1 else _KINDS[family]
    yield "distributed_type", kind
    yield "num_machines", request.nodes
    yield "num_processes", world
    if family != "zero":  # there it stands in ds_config.json, and would be refused here
        yield "mixed_precision", _PRECISION[strategy.precision]
    yield "use_cpu", not request.gpus
    yield "debug", False
    if family == "zero":
        block = {"deepspeed_multinode_launcher": "standard"}
        yield "deepspeed_config", {**block, "zero3_init_flag": strategy.trait.shards_parameters}
    if family in {"fsdp", "fsdp2"}:
        yield "fsdp_config", dict(_fsdp(request))
    if degrees := _degrees(request):
        yield "parallelism_config", degrees


def _fsdp(request: FrameworkRequest) -> Iterator[tuple[str, str | bool | int]]:
    first = request.strategy.trait.family == "fsdp"
    for setting in fsdp.list_settings(request):
        yield f"fsdp_{setting.name}", setting.value
        if setting.name == "version":
            name = "fsdp_sharding_strategy" if first else "fsdp_reshard_after_forward"
            yield name, fsdp.choose_resharding(request)
            yield "fsdp_offload_params", bool(request.strategy.offload)


def _degrees(request: FrameworkRequest) -> Mapping[str, int]:
    """FSDP2 over a mesh of more than one dimension."""
    mesh = request.strategy.mesh
    plain = mesh.replicate == mesh.tp == mesh.cp == 1
    if request.strategy.trait.family != "fsdp2" or plain:
        return {}
    sizes = {f"parallelism_config_{name}": getattr(mesh, axis) for axis, name in _AXES.items()}
    return {**sizes, "parallelism_config_cp_size": mesh.cp}


def _variables(request: FrameworkRequest) -> dict[str, Setting]:
    strategy, place = request.strategy, request.place
    family = strategy.trait.family
    found: dict[str, Setting] = {}
    if strategy.batch:
        why = (
            "accumulation steps for Accelerator; accelerate's configuration file has no key "
            "for them"
        )
        count = str(strategy.batch.accumulation)
        found["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = Setting(count, why, place)
    if family == "zero":
        path = f"$JOBGEN_BUNDLE_DIR/{dsconfig.FILE}"
        why = "DeepSpeed configuration; the launcher's file cannot refer to it by variable"
        found["ACCELERATE_DEEPSPEED_CONFIG_FILE"] = Setting(path, why, place)
    if not request.gpus:
        why = "without a GPU, accelerate connects the ranks over gloo"
        if family == "ddp":
            found["ACCELERATE_USE_CPU"] = Setting("true", why, place)
        else:
            why = 'the device must be "cpu" without an index: FSDP rejects cpu:0'
            found["ACCELERATE_TORCH_DEVICE"] = Setting("cpu", why, place)
    return found


def _chosen(request: FrameworkRequest) -> Iterator[tuple[str, Setting]]:
    if request.strategy.trait.family in {"fsdp", "fsdp2"}:
        for one in fsdp.list_settings(request):
            if one.why:
                yield f"fsdp_config.fsdp_{one.name}", program_options.choose(one.value, one.why)


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    strategy = request.strategy
    family, title = strategy.trait.family, strategy.trait.title
    yield from _from_program(strategy)
    if not request.gpus and family != "ddp":
        more = ""
        if family != "zero":
            more = ".distributed_type = DistributedType.MULTI_GPU"
        yield Note(_CPU.format(title=title, more=more), _STRATEGY)
    if strategy.recompute == "full" and family in {"ddp", "zero"}:
        message = (
            f"accelerate has no recompute option with {title}: the program must apply it, from "
            "strategy.json"
        )
        yield Note(message, ("train", "activation_checkpointing"))
    if strategy.mesh.tp > 1:
        message = "the program must load the model with tp_plan; accelerate shards the rest"
        yield Note(message, ("train", "tp"))
    if strategy.mesh.cp > 1:
        message = "the program must run its steps inside Accelerator.maybe_context_parallel"
        yield Note(message, ("train", "cp"))


def _from_program(strategy: Strategy) -> Iterator[Note]:
    """What the file has no key for, and the class of accelerate that the program passes it in."""
    asked, family = strategy.settings, strategy.trait.family
    plugin = "a FullyShardedDataParallelPlugin(mixed_precision_policy=...)"
    rows = (
        ("bucket_cap_mb", asked.bucket_mb != 25, _DDP),
        ("static_graph", asked.static_graph, _DDP),
        ("find_unused_parameters", asked.find_unused_parameters, _DDP),
        ("broadcast_buffers", not asked.broadcast_buffers, _DDP),
        ("gradient_as_bucket_view", asked.gradient_as_bucket_view is not None, _DDP),
        ("comm_hook", asked.hook != "none", _DDP),
        ("reduce_dtype", asked.reduce_dtype and family != "zero", plugin),
        ("buffer_dtype", asked.buffer_dtype, plugin),
        ("timeout", strategy.timeout is not None, "InitProcessGroupKwargs"),
    )
    for place in dict.fromkeys(place for _, said, place in rows if said):
        names = ", ".join(name for name, said, where in rows if said and where == place)
        yield Note(
            f"accelerate's file has no {names}: the program must pass it to Accelerator in "
            f"{place}, from strategy.json",
            ("train", "timeout") if names == "timeout" else _STRATEGY,
        )
    if strategy.offload.optimizer and strategy.fused is None and strategy.config is None:
        message = "the optimizer step runs on the CPU: set fused: true and pass fused=True to "
        yield Note(message + "torch.optim.AdamW, which is several times faster there", _OFFLOAD)
    if strategy.fused is not None:
        message = f"the program must pass fused={strategy.fused} to its optimizer, fused_optimizer "
        yield Note(message + "in strategy.json", ("train", "fused"))


def _faults(request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    strategy = request.strategy
    if strategy.trait.family in {"fsdp", "fsdp2"}:
        yield from fsdp.check_plugin(request, "accelerate")
    for axis in ("pp", "ep"):
        if strategy.trait.family == "fsdp2" and getattr(strategy.mesh, axis) > 1:
            message = f"accelerate does not support {axis}"
            yield TrainDiagnostic(
                "J236", message, (axis,), f"remove {axis}, or set framework: torch"
            )
    if strategy.trait.family != "zero" and strategy.recompute == "selective":
        message = "accelerate can only recompute whole layers"
        yield TrainDiagnostic("J236", message, ("activation_checkpointing",), "use full")


def _yaml(sections: Mapping[str, Any]) -> str:
    """The file. Its values are words, numbers and flags."""
    lines = ["# Answers to accelerate's questions, written by jobgen from train: in the job file."]
    for key, value in sections.items():
        if isinstance(value, Mapping):
            lines += [f"{key}:", *(f"  {name}: {_scalar(each)}" for name, each in value.items())]
        else:
            lines.append(f"{key}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _scalar(value: str | bool | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_WORDS
    return value if plain else "'" + value.replace("'", "''") + "'"
