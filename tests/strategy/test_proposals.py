"""What hints propose is accepted by all checks, whatever else the job sets."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.train import FRAMEWORKS, Offload
from jobgen.strategy import ModelSizes, RankLayout, check_train
from jobgen.strategy.spec import TRAITS
from tests.strategy.hints import asked, change_keys, list_paths, read_changes

WORLD = RankLayout(2, 8, "infiniband")
MODEL = ModelSizes(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, experts=8)
KINDS: tuple[dict[str, Any], ...] = (
    *({"what": what} for what in ("none", "optimizer", "params", "both")),
    {"what": "optimizer", "path": "/x"},
    *({"what": what, "to": "nvme", "path": "/x"} for what in ("optimizer", "params", "both")),
    {"what": "optimizer", "to": "nvme"},
)
AXES: tuple[dict[str, int], ...] = ({}, {"pp": 2})


@pytest.mark.parametrize("strategy", list(TRAITS))
@pytest.mark.parametrize("framework", [None, *FRAMEWORKS])
def test_hints_about_strategies_and_offload_are_accepted(
    strategy: str, framework: str | None
) -> None:
    launcher = "accelerate" if framework == "accelerate" else "torchrun"
    for offload in KINDS:
        for axis in AXES:
            keys: dict[str, Any] = {"strategy": {"type": strategy}, "offload": offload, **axis}
            keys |= {"micro_batch": 2, "gradient_accumulation": 4, "seq_len": 4096}
            keys |= {"framework": framework} if framework else {}
            before = list_paths(keys, WORLD, MODEL, launcher)
            train = asked(**{**keys, "offload": Offload(**offload)})
            for fault in check_train(train, MODEL, WORLD, launcher=launcher):
                assert fault.hint
                changes = read_changes(fault.hint) if fault.code in {"J232", "J235"} else []
                for change in changes:
                    left = list_paths(change_keys(keys, change), WORLD, MODEL, launcher)
                    assert left <= before - {fault.path}, (keys, fault.message, fault.hint)


@pytest.mark.parametrize(
    ("strategy", "offload", "hint"),
    [
        ("ddp", {"what": "optimizer"}, "set strategy: zero2, or remove offload"),
        ("ddp", {"what": "params"}, "set strategy: zero3, or remove offload"),
        ("fsdp2", {"what": "optimizer"}, "set offload: both, or strategy: zero2"),
        ("zero2", {"what": "both"}, "set offload: optimizer, or strategy: zero3"),
        ("zero2", {"what": "optimizer", "path": "/x"}, "remove path, or remove offload"),
    ],
)
def test_the_smallest_changes_of_an_offload_are_named(
    strategy: str, offload: dict[str, str], hint: str
) -> None:
    train = asked(strategy=strategy, offload=Offload(**offload), micro_batch=1)
    assert [fault.hint for fault in check_train(train, MODEL, WORLD)] == [hint]
