"""Which framework has which setting: each is refused, with the reason, by the others."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.parallel import Parallel
from jobgen.model.train import FRAMEWORKS, Train
from jobgen.strategy.frameworks import hf_trainer
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.supported import OPTIMIZERS, check_supported

CASES: list[tuple[dict[str, Any], dict[str, Any], set[str]]] = [
    ({"type": "ddp", "bucket_mb": 50}, {}, {"deepspeed", "torchtitan"}),
    ({"type": "ddp", "static_graph": True}, {}, {"deepspeed", "megatron", "torchtitan"}),
    ({"type": "ddp", "find_unused_parameters": True}, {}, {"deepspeed", "megatron", "torchtitan"}),
    ({"type": "ddp", "broadcast_buffers": False}, {}, {"deepspeed", "megatron", "torchtitan"}),
    (
        {"type": "ddp", "gradient_as_bucket_view": False},
        {},
        {"deepspeed", "megatron", "torchtitan", "hf-trainer"},
    ),
    ({"type": "ddp", "hook": "bf16"}, {}, {"deepspeed", "torchtitan", "hf-trainer"}),
    ({"type": "fsdp", "reduce_dtype": "fp32"}, {}, {"hf-trainer"}),
    ({"type": "fsdp2", "reduce_dtype": "fp32"}, {}, {"hf-trainer"}),
    ({"type": "zero3", "reduce_dtype": "fp32"}, {}, set()),
    ({"type": "fsdp", "buffer_dtype": "fp32"}, {}, {"hf-trainer"}),
    ({"type": "fsdp2", "state_dict": "full"}, {}, {"torchtitan"}),
    ({"type": "fsdp2"}, {"wrap": {"min_params": 1000}}, {"lightning", "torchtitan"}),
    ({"type": "ddp"}, {"fused": True}, {"megatron"}),
    ({"type": "ddp"}, {"timeout": "20m"}, set()),
]


@pytest.mark.parametrize(("strategy", "keys", "refusing"), CASES)
def test_a_setting_is_refused_where_the_framework_has_none(
    strategy: dict[str, Any], keys: dict[str, Any], refusing: set[str]
) -> None:
    asked = Train.read({"strategy": strategy, **keys})
    able = {name for name in FRAMEWORKS if name in TRAITS[strategy["type"]].frameworks}
    found = {name: list(check_supported(asked, name)) for name in sorted(able)}
    assert {name for name, faults in found.items() if faults} == refusing
    (key,) = (name for name in {**strategy, **keys} if name != "type")
    for faults in found.values():
        for fault in faults:
            assert (fault.code, key in fault.path) == ("J236", True)
            assert fault.hint


def test_what_the_framework_does_instead_is_told() -> None:
    (fault,) = check_supported(Train(fused=True), "megatron")
    assert fault.message.endswith("its optimizers are always fused")
    asked = Train(strategy=Parallel(type="fsdp2", state_dict="full"))
    (fault,) = check_supported(asked, "torchtitan")
    assert fault.message.endswith("it always saves sharded checkpoints")


def test_settings_that_are_left_alone_are_never_refused() -> None:
    for framework in FRAMEWORKS:
        for name in TRAITS:
            asked = Train(strategy=Parallel(type=name))  # type: ignore[arg-type]
            assert list(check_supported(asked, framework)) == []


def test_the_trainer_has_a_name_for_each_of_its_optimizers() -> None:
    assert {"adamw", *hf_trainer.OPTIMIZERS} == set(OPTIMIZERS["hf-trainer"])
