"""Programs that use torch alone: a strategy.json, which says everything that was decided.

The program reads it from ``$JOBGEN_STRATEGY``. Keys and values are those of torch's own calls
(``ShardingStrategy``, ``fully_shard``, ``init_device_mesh``, ``DistributedDataParallel``; 2.13).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.model.bundle import BundleFile
from jobgen.model.decision import Setting
from jobgen.strategy.frameworks import Configured, FrameworkRequest
from jobgen.strategy.spec import Note, Strategy

FILE = "strategy.json"
SHARDING = {
    "fsdp": "FULL_SHARD",
    "fsdp-grad-op": "SHARD_GRAD_OP",
    "fsdp-no-shard": "NO_SHARD",
    "fsdp-hybrid": "HYBRID_SHARD",
}
"""Word of job.yaml → torch.distributed.fsdp.ShardingStrategy."""
_AXES = {"pp": "pp", "replicate": "dp_replicate", "shard": "dp_shard", "cp": "cp", "tp": "tp"}
"""Degree → its dimension of the mesh, outermost first: tensor parallel ranks are neighbours."""


def configure(request: FrameworkRequest) -> Configured:
    """``strategy.json`` and the variable that names it."""
    text = json.dumps(build_document(request), indent=2) + "\n"
    why = "the resolved strategy, for plain torch programs"
    return Configured(
        notes=tuple(_notes(request.strategy)),
        files=(BundleFile(FILE, text.encode()),),
        env={"JOBGEN_STRATEGY": Setting(f"$JOBGEN_BUNDLE_DIR/{FILE}", why, request.place)},
    )


def _notes(strategy: Strategy) -> Iterator[Note]:
    batch, stages = strategy.batch, strategy.mesh.pp
    if batch and batch.accumulation < stages:
        yield Note(
            f"{batch.accumulation} micro-batches in a pipeline of {stages} stages: torch's "
            "Schedule1F1B needs at least as many as stages, and ScheduleGPipe leaves "
            "stages idle",
            ("train", "pp"),
        )


def build_document(request: FrameworkRequest) -> Mapping[str, Any]:
    """What ``strategy.json`` holds. Counts are of ranks, samples and tokens; ``bucket_mb`` MiB."""
    strategy = request.strategy
    batch = strategy.batch
    return {
        "version": 1,
        "strategy": strategy.name,
        "world_size": strategy.mesh.world,
        "mesh": build_mesh(strategy),
        "precision": strategy.precision,
        "micro_batch": batch and batch.micro,
        "gradient_accumulation": batch.accumulation if batch else 1,
        "global_batch": batch and batch.total,
        "seq_len": strategy.seq_len,
        "gradient_clipping": strategy.clipping,
        "activation_checkpointing": strategy.recompute,
        "wrap": list(strategy.wrap),
        "wrap_min_params": strategy.min_params,
        "timeout_seconds": strategy.timeout,
        "fused_optimizer": strategy.fused,
        "reduce_dtype": strategy.settings.reduce_dtype,
        "buffer_dtype": strategy.settings.buffer_dtype,
        "full_state_dict": strategy.settings.state_dict == "full",
        "offload": _offload(strategy),
        **_own(strategy),
    }


def build_mesh(strategy: Strategy) -> dict[str, int]:
    """The device mesh, outermost dimension first; dimensions of one rank are left in."""
    sizes = strategy.mesh._asdict()
    return {name: sizes[axis] for axis, name in _AXES.items()}


def _offload(strategy: Strategy) -> str | None:
    return "cpu" if strategy.offload else None


def view_buckets(strategy: Strategy) -> bool:
    """Whether DDP's gradients share memory with its buckets: yes, unless the job says otherwise."""
    return strategy.settings.gradient_as_bucket_view is not False


def _own(strategy: Strategy) -> dict[str, Any]:
    """What only this strategy has."""
    family, asked = strategy.trait.family, strategy.settings
    if family == "ddp":
        return {
            "ddp": {
                "bucket_cap_mb": asked.bucket_mb,
                "static_graph": asked.static_graph,
                "find_unused_parameters": asked.find_unused_parameters,
                "broadcast_buffers": asked.broadcast_buffers,
                "gradient_as_bucket_view": view_buckets(strategy),
                "hook": asked.hook,
            }
        }
    if family == "fsdp":
        return {"fsdp": {"sharding_strategy": SHARDING[strategy.name]}}
    if family == "fsdp2":
        return {"fsdp2": {"reshard_after_forward": asked.reshard_after_forward}}
    return {}
