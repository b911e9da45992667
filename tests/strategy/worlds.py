"""Worlds of more ranks than there are processes, for reading configurations back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from jobgen.model.parallel import Parallel
from jobgen.model.train import Offload, Train
from jobgen.strategy import ModelSizes, RankLayout, check_train, decide
from jobgen.strategy.frameworks import Configured, FrameworkRequest, configure

RANKS = 8
LLAMA = ModelSizes("org/model", 4, 64, 8, 8, 256, 1000)
PRECISIONS = ("fp32", "bf16", "fp16")
BATCHES: tuple[Mapping[str, int], ...] = (
    {"micro_batch": 2, "gradient_accumulation": 4},
    {"global_batch": 48},
)
OFFLOADS: tuple[Mapping[str, str], ...] = (
    {"what": "none"},
    {"what": "optimizer"},
    {"what": "params"},
    {"what": "both"},
    {"what": "optimizer", "to": "nvme", "path": "/local/scratch"},
    {"what": "params", "to": "nvme", "path": "/local/scratch"},
    {"what": "both", "to": "nvme", "path": "/local/scratch"},
)
EXTRAS: tuple[Mapping[str, Any], ...] = (
    {},
    {"gradient_clipping": 0.5, "activation_checkpointing": "full", "wrap": ("Block", "On")},
    {"timeout": "90s", "fused": True, "wrap": {"min_params": 1000}},
    {"timeout": "20m", "fused": False},
)


def asked(
    framework: str,
    strategy: str | Mapping[str, Any],
    *,
    launcher: str = "torchrun",
    gpus: bool = True,
    sizes: ModelSizes = LLAMA,
    config: bytes | None = None,
    **keys: Any,
) -> FrameworkRequest | None:
    """The request on two nodes of four ranks; None where the strategy itself says no."""
    kind = {"type": strategy} if isinstance(strategy, str) else strategy
    offload = keys.pop("offload", {"what": "none"})
    train = Train(
        framework=framework, strategy=Parallel(**kind), offload=Offload(**offload), **keys
    )
    world = RankLayout(2, 4, "infiniband", gpus=gpus)
    if list(check_train(train, sizes, world, launcher=launcher)):
        return None
    decided = decide(train, sizes, world, launcher=launcher, config=config)
    return FrameworkRequest(decided, 2, 4, gpus)


def given(framework: str, strategy: str | Mapping[str, Any], **keys: Any) -> Configured:
    """What the framework makes of it; the strategy itself has nothing against it."""
    request = asked(framework, strategy, **keys)
    assert request is not None
    return configure(request)


def content(found: Configured, path: str) -> bytes:
    """A file of what was made."""
    return next(file.content for file in found.files if file.path == path)


def grid(
    framework: str, *kinds: str | Mapping[str, Any], launcher: str = "torchrun"
) -> Iterator[tuple[FrameworkRequest, Configured]]:
    """Strategies x precision x offload x batch x extras x GPUs, as far as nobody refuses it."""
    for kind in kinds:
        for precision in PRECISIONS:
            for offload in OFFLOADS:
                for batch in BATCHES:
                    for extra in EXTRAS:
                        for gpus in (True, False):
                            keys = {"precision": precision, "offload": offload, **batch, **extra}
                            request = asked(framework, kind, launcher=launcher, gpus=gpus, **keys)
                            if request is None:
                                continue
                            found = configure(request)
                            if not found.faults:
                                yield request, found


@contextmanager
def ranks(count: int = RANKS) -> Iterator[None]:
    """A process group of so many ranks, of which this process is the first, without a network."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables, and afterwards what there was before."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def deepspeed(values: Mapping[str, Any], patch: pytest.MonkeyPatch, count: int = RANKS) -> Any:
    """DeepSpeed's own reading of a configuration, as the first of so many ranks."""
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig

    patch.setattr(comm, "get_rank", lambda: 0)
    patch.setattr(comm, "get_world_size", lambda: count)
    return DeepSpeedConfig(dict(values))
