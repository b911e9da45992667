"""What goes together: frameworks, launchers, settings, offload, the user's own configuration."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.parallel import Parallel
from jobgen.model.train import Offload, Train
from jobgen.strategy import TrainDiagnostic, check_train, choose_framework
from jobgen.strategy.frameworks import MODULES
from jobgen.strategy.rules import check_launcher, check_length, check_rules
from jobgen.strategy.spec import TRAITS, ModelSizes


def refused(strategy: Any = "ddp", framework: str = "torch", **keys: Any) -> list[TrainDiagnostic]:
    kind = {"type": strategy} if isinstance(strategy, str) else strategy
    return list(
        check_rules(Train(strategy=Parallel(**kind), framework=framework, **keys), framework)
    )


def one(*args: Any, **keys: Any) -> TrainDiagnostic:
    (fault,) = refused(*args, **keys)
    return fault


def test_every_strategy_runs_with_the_frameworks_that_it_names() -> None:
    for name, trait in TRAITS.items():
        assert set(trait.frameworks) <= {*MODULES, "none"}
        for chosen in (*MODULES, "none"):
            found = refused(name, chosen)
            assert bool(found) is (chosen not in trait.frameworks)
            for fault in found:
                assert (fault.code, fault.path) == ("J236", ("framework",))
                assert name in fault.hint


@pytest.mark.parametrize(
    ("strategy", "started", "wanted"),
    [
        ("ddp", "torchrun", "torch"),
        ("ddp", "accelerate", "accelerate"),
        ("zero2", "accelerate", "accelerate"),
        ("zero2", "torchrun", "deepspeed"),
        ("3d", "accelerate", "torch"),
    ],
)
def test_a_framework_that_is_left_out_follows(strategy: str, started: str, wanted: str) -> None:
    assert choose_framework(Train(strategy=Parallel(type=strategy)), started) == wanted


@pytest.mark.parametrize(
    ("setting", "owner"),
    [
        ({"bucket_mb": 50}, "ddp"),
        ({"static_graph": True}, "ddp"),
        ({"hook": "bf16"}, "ddp"),
        ({"find_unused_parameters": True}, "ddp"),
        ({"broadcast_buffers": False}, "ddp"),
        ({"gradient_as_bucket_view": False}, "ddp"),
        ({"reshard_after_forward": False}, "fsdp2"),
        ({"shard": 2}, "fsdp-hybrid"),
    ],
)
def test_a_setting_belongs_to_its_strategy(setting: dict[str, Any], owner: str) -> None:
    (name,) = setting
    assert refused({"type": owner, **setting}) == []
    fault = one({"type": "fsdp", **setting})
    assert (fault.code, fault.path) == ("J236", ("strategy", name))
    assert owner in fault.message


@pytest.mark.parametrize(
    ("strategy", "framework", "offload", "path"),
    [
        ("ddp", "torch", {"what": "both"}, ("offload",)),
        ("fsdp-no-shard", "torch", {"what": "both"}, ("offload",)),
        ("3d", "torch", {"what": "both"}, ("offload",)),
        ("fsdp2", "torch", {"what": "optimizer"}, ("offload",)),
        ("zero2", "deepspeed", {"what": "params"}, ("offload",)),
        ("zero1", "megatron", {"what": "both"}, ("offload",)),
        ("zero2", "deepspeed", {"what": "optimizer", "to": "nvme", "path": "/l"}, ("offload",)),
        ("fsdp", "torch", {"what": "both", "to": "nvme", "path": "/local"}, ("offload",)),
        ("zero3", "deepspeed", {"what": "both", "to": "nvme"}, ("offload", "to")),
        ("zero3", "deepspeed", {"what": "both", "path": "/local"}, ("offload", "path")),
    ],
)
def test_what_cannot_be_offloaded_is_refused(
    strategy: str, framework: str, offload: dict[str, str], path: tuple[str, ...]
) -> None:
    fault = one(strategy, framework, offload=Offload(**offload))
    assert (fault.code, fault.path) == ("J235", path)


@pytest.mark.parametrize(
    ("strategy", "framework", "offload"),
    [
        ("fsdp", "torch", {"what": "both"}),
        ("fsdp2", "torchtitan", {"what": "both"}),
        ("zero1", "megatron", {"what": "optimizer"}),
        ("zero2", "deepspeed", {"what": "optimizer"}),
        ("zero3", "deepspeed", {"what": "params"}),
        ("zero3", "lightning", {"what": "both", "to": "nvme", "path": "/local/scratch"}),
    ],
)
def test_what_can_be_offloaded_is_not(
    strategy: str, framework: str, offload: dict[str, str]
) -> None:
    assert refused(strategy, framework, offload=Offload(**offload)) == []


@pytest.mark.parametrize(
    ("strategy", "framework", "taken"),
    [
        ("zero2", "deepspeed", True),
        ("zero2", "lightning", True),
        ("ddp", "deepspeed", True),
        ("ddp", "torch", False),
        ("zero1", "megatron", False),
    ],
)
def test_a_deepspeed_configuration_needs_deepspeed(
    strategy: str, framework: str, taken: bool
) -> None:
    found = refused(strategy, framework, config="ds.json")
    assert [fault.path for fault in found] == ([] if taken else [("config",)])


@pytest.mark.parametrize(
    ("framework", "started", "wanted"),
    [
        ("accelerate", "torchrun", "accelerate"),
        ("lightning", "deepspeed", "srun"),
        ("lightning", "torchrun", None),
        ("megatron", "deepspeed", None),
    ],
)
def test_a_framework_may_need_a_launcher(framework: str, started: str, wanted: str | None) -> None:
    hints = [fault.hint for fault in check_launcher(framework, started)]
    assert hints == ([f"set launcher: {wanted}"] if wanted else [])


def test_a_sequence_has_a_position_for_every_token() -> None:
    gpt2 = ModelSizes("openai-community/gpt2", positions=1024)
    (fault,) = check_train(Train(model="openai-community/gpt2", seq_len=2048), gpt2, None)
    assert (fault.code, fault.path, fault.hint) == ("J138", ("seq_len",), "set seq_len: 1024")
    assert "1024 learned positions" in fault.message
    for seq_len, sizes in ((1024, gpt2), (None, gpt2), (4096, ModelSizes(positions=0))):
        assert not list(check_length(Train(seq_len=seq_len), sizes))
