"""Requests to frameworks made of a few words, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.model.train import Parallel, Train
from jobgen.strategy import TRAITS, World, decide, faults
from jobgen.strategy.frameworks import Configured, Request, configure
from jobgen.strategy.sizes import sizes
from jobgen.strategy.values import Fault

SHAPE = {"layers": 8, "hidden": 64, "heads": 8, "kv_heads": 4, "ffn": 256}
EXPERTS = {**SHAPE, "experts": 4}
BATCH = {"micro_batch": 2, "gradient_accumulation": 4}
CHECKPOINTS = '"$JOBGEN_CHECKPOINT_DIR"'

DEGREES: tuple[Mapping[str, int], ...] = (
    {},
    {"tp": 2},
    {"pp": 2},
    {"cp": 2},
    {"ep": 2},
    {"tp": 2, "pp": 2},
    {"tp": 4, "ep": 2},
    {"tp": 2, "cp": 2},
    {"tp": 2, "pp": 2, "cp": 2},
)
SETTINGS: tuple[Mapping[str, Any], ...] = (
    {},
    {"seq_len": 128, "gradient_clipping": 0.5},
    {"precision": "fp16"},
    {"precision": "fp32", "activation_checkpointing": "selective"},
    {"activation_checkpointing": "full", "micro_batch": 1, "gradient_accumulation": 8},
    {"offload": {"what": "both"}},
    {"offload": {"what": "optimizer"}},
)
KINDS: tuple[Mapping[str, Any], ...] = (
    *({"type": name} for name in TRAITS),
    {"type": "ddp", "hook": "bf16"},
    {"type": "ddp", "bucket_mb": 50, "static_graph": True},
    {"type": "fsdp2", "reshard_after_forward": False},
    {"type": "fsdp2", "shard": 2},
    {"type": "fsdp-hybrid", "shard": 2},
)


def train(framework: str, **keys: Any) -> Train:
    """What the job says."""
    kind = keys.pop("strategy", "ddp")
    kind = Parallel(**({"type": kind} if isinstance(kind, str) else kind))
    return Train(framework=framework, strategy=kind, **keys)


def refused(asked: Train, world: World) -> list[Fault]:
    """What the strategy itself says against it."""
    return list(faults(asked, sizes(asked, {})[0], world, launcher="torchrun"))


def request(asked: Train, nodes: int = 2, each: int = 4, **more: Any) -> Request:
    """What its framework is asked. The strategy has nothing against it."""
    world = World(nodes, each, "infiniband")
    assert refused(asked, world) == []
    decided = decide(asked, sizes(asked, {})[0], world, launcher="torchrun")
    return Request(decided, nodes, each, **more)


def made(
    framework: str, *, words: tuple[str, ...] = (), gpus: bool = True, **keys: Any
) -> Configured:
    """What this framework's programs are given on two nodes of four ranks."""
    return configure(request(train(framework, **{**BATCH, **keys}), words=words, gpus=gpus))


def grid(framework: str) -> Iterator[tuple[Request, Configured]]:
    """All that strategy and framework have nothing against: kinds x degrees x settings."""
    for kind in KINDS:
        for degrees in DEGREES:
            for setting in SETTINGS:
                keys = {"model": EXPERTS, **BATCH, **degrees, **setting}
                asked = train(framework, strategy=kind, **keys)
                if refused(asked, World(2, 4, "infiniband")):
                    continue
                one = request(asked)
                given = configure(one)
                if not given.faults:
                    yield one, given
