"""The user's own ds_config.json: unknown keys anywhere, contradictions, and what is filled in."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from jobgen.data import deepspeed_keys
from jobgen.strategy.dsconfig import user_config
from jobgen.strategy.frameworks import Configured, configure
from tests.strategy import worlds
from tests.strategy.worlds import asked, content

ZERO2 = {"zero_optimization": {"stage": 2}}


def made(values: Any, *, strategy: str = "zero2", **keys: Any) -> Configured:
    config = values if isinstance(values, bytes) else json.dumps(values, indent=2).encode()
    framework = keys.pop("framework", "deepspeed")
    keys = {"micro_batch": 2, "gradient_accumulation": 4, **keys}
    keys = {name: value for name, value in keys.items() if value is not None}
    request = asked(framework, strategy, config=config, launcher="torchrun", **keys)
    assert request is not None
    request = request._replace(strategy=request.strategy._replace(config_name="ds.json"))
    return configure(request)


def completed(values: Any, **keys: Any) -> dict[str, Any]:
    found = made(values, **keys)
    assert found.faults == ()
    held = json.loads(content(found, "ds_config.json"))
    assert isinstance(held, dict)
    return held


def refused(values: Any, **keys: Any) -> list[str]:
    found = made(values, **keys).faults
    assert {fault.path for fault in found} <= {("config",)}
    return [fault.message for fault in found]


def hints(values: Any, **keys: Any) -> list[str]:
    return [fault.hint for fault in made(values, **keys).faults]


def test_what_train_says_is_filled_in() -> None:
    held = completed({"steps_per_print": 10}, gradient_clipping=1.0, offload={"what": "optimizer"})
    assert held == {
        "steps_per_print": 10,
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "zero_force_ds_cpu_optimizer": False,
    }


def test_auto_is_filled_in_and_said() -> None:
    zero = {"stage": "auto", "reduce_bucket_size": "auto"}
    values = {"train_batch_size": "auto", "fp16": {"enabled": "auto"}, "zero_optimization": zero}
    held = completed(values, strategy="zero3")
    assert held["train_batch_size"] == 64
    assert held["fp16"] == {"enabled": False}
    assert held["zero_optimization"] == {"stage": 3, "reduce_bucket_size": 64 * 64}
    chosen = made(values, strategy="zero3").chosen
    said = chosen["ds_config.json: train_batch_size"]
    assert said.value == "64"
    assert said.why == "not set in ds.json: train.global_batch"


def test_an_auto_that_nobody_fills_in_is_refused() -> None:
    values = {
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
        "zero_optimization": {"allgather_bucket_size": "auto"},
        "gradient_clipping": "auto",
    }
    only = 'is "auto", which only accelerate and the Trainer fill in'
    assert refused(values) == [
        f"ds.json:5: optimizer.params.lr {only}",
        f"ds.json:9: zero_optimization.allgather_bucket_size {only}",
    ]


def test_auto_stays_for_the_trainer_and_for_deepspeeds_own_words() -> None:
    values = {"zero_optimization": {"allgather_bucket_size": "auto"}}
    assert refused(values, framework="hf-trainer") == []
    assert refused({"data_types": {"keep_in_fp32_modules": "auto"}}) == []


def test_an_unknown_key_is_found_at_any_depth_with_its_line() -> None:
    text = b"""{
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {
      "device": "none",
      "pin_memmory": true
    }
  },
  "gradient_cliping": 1.0,
  "aio": {"block_sizes": 1}
}"""
    inner = "zero_optimization.offload_optimizer.pin_memmory"
    assert refused(text) == [
        f"ds.json:6: unknown DeepSpeed key {inner}; DeepSpeed rejects it",
        "ds.json:9: unknown DeepSpeed key gradient_cliping; DeepSpeed silently ignores it",
        "ds.json:10: unknown DeepSpeed key aio.block_sizes; DeepSpeed silently ignores it",
    ]
    assert hints(text) == [
        "did you mean 'pin_memory'?",
        "did you mean 'gradient_clipping'?",
        "did you mean 'block_size'?",
    ]


def test_a_key_in_the_wrong_block_is_sent_to_the_right_one() -> None:
    assert hints({"stage3_max_live_parameters": 1}) == ["it belongs in zero_optimization"]


def test_a_metric_of_a_curriculum_may_have_any_name() -> None:
    metric = {"schedule_type": "fixed_linear", "schedule_config": {"max_step": 1}, "nope": 2}
    block: dict[str, Any] = {"curriculum_metrics": {"of_mine": metric}}
    values = {"data_efficiency": {"data_sampling": {"curriculum_learning": block}}}
    (found,) = refused(values)
    assert "curriculum_metrics.of_mine.nope;" in found


def test_names_that_deepspeed_gave_up_are_refused() -> None:
    (found,) = made({"zero_optimization": {"cpu_offload": True}}).faults
    assert found.hint == "use zero_optimization.offload_optimizer"
    (found,) = made({"nebula": {"enabled": True}}).faults
    assert found.hint == "remove it"


def test_a_block_is_a_mapping() -> None:
    assert refused({"fp16": True})[0] == "ds.json:2: fp16 must be a mapping"


def test_two_precisions_are_refused() -> None:
    values = {"fp16": {"enabled": True}, "bf16": {"enabled": True}}
    assert refused(values)[0] == "ds.json:2: fp16 and bf16 are both enabled"


def test_offload_has_its_stage_and_its_path() -> None:
    param = {"zero_optimization": {"offload_param": {"device": "cpu"}}}
    assert "needs ZeRO-3, but stage is 2" in refused(param)[0]
    nvme = {"zero_optimization": {"offload_optimizer": {"device": "nvme"}}}
    messages = refused(nvme, strategy="zero3")
    assert "ds.json:3: device nvme needs nvme_path" in messages
    nvme["zero_optimization"]["offload_optimizer"]["nvme_path"] = "/local/$USER"
    assert any("nothing expands" in message for message in refused(nvme, strategy="zero3"))


@pytest.mark.parametrize("value", [{}, {"a": 1}, [2], True, "2", 4])
def test_a_stage_and_a_device_are_of_those_that_deepspeed_has(value: object) -> None:
    stage = refused({"zero_optimization": {"stage": value}, "pipeline": {"stages": 2}})
    assert any("zero_optimization.stage is" in message for message in stage)
    device = refused({"zero_optimization": {"stage": 2, "offload_param": {"device": value}}})
    assert any("offload_param.device is" in message for message in device)


def test_a_pipeline_does_not_go_with_sharded_gradients() -> None:
    assert "does not support pipeline parallelism" in refused({"pipeline": {"stages": 2}})[0]


def test_both_sides_of_a_contradiction_are_named() -> None:
    values = {
        "train_batch_size": 32,
        "gradient_clipping": 0.5,
        "fp16": {"enabled": True},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    }
    messages = refused(values, gradient_clipping=1.0, precision="fp32")
    assert (
        "ds.json:3: gradient_clipping is 0.5, but train.gradient_clipping sets it to 1.0"
        in messages
    )
    assert "ds.json:8: zero_optimization.stage is 3, but train.strategy sets it to 2" in messages
    assert "ds.json:5: fp16.enabled is true, but train.precision is fp32" in messages
    assert any("train.offload does not offload it" in message for message in messages)
    batch = "train: sets the batch to 2 x 4 x 8 ranks = 64"
    assert f"ds.json:2: ds.json sets train_batch_size 32, but {batch}" in messages


def test_batches_of_the_file_and_of_train_differ_in_one_fault() -> None:
    values = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    (fault,) = made(values).faults
    assert fault.code == "J230"
    assert fault.message == (
        "ds.json:2: ds.json sets train_micro_batch_size_per_gpu 4 and gradient_accumulation_steps "
        "2, but train: sets the batch to 2 x 4 x 8 ranks = 64"
    )
    assert fault.hint == (
        "set global_batch: 64, micro_batch: 4 and gradient_accumulation: 2 under train:, or remove "
        "them from ds.json"
    )
    assert refused(values, global_batch=64, micro_batch=4, gradient_accumulation=2) == []
    (fault,) = made({"gradient_accumulation_steps": 2, "train_batch_size": 60}).faults
    assert fault.hint == "remove them from ds.json", "60 is no multiple of 2 x 8"


def test_a_batch_of_the_file_alone_has_to_fit_the_ranks() -> None:
    bare = {"micro_batch": None, "gradient_accumulation": None}
    assert refused({"train_batch_size": 64}, **bare) == []
    assert refused({"train_micro_batch_size_per_gpu": 2}, **bare) == []
    (message,) = refused({"train_batch_size": 60}, **bare)
    assert message == "ds.json:2: train_batch_size 60 is not a multiple of 8 ranks"
    assert hints({"train_batch_size": 60}, **bare) == ["set 56 or 64"]
    both = {"train_batch_size": 60, "gradient_accumulation_steps": 3}
    (message,) = refused(both, **bare)
    assert message.endswith("not a multiple of gradient_accumulation_steps 3 x 8 ranks = 24")
    both = {"train_micro_batch_size_per_gpu": 2, **both}
    assert "is 60, but train_micro_batch_size_per_gpu 2 x" in refused(both, **bare)[0]
    assert hints(both, **bare) == ["set 48, or remove it"]
    assert "must be an integer" in hints({"train_batch_size": True}, **bare)[0]
    assert "sets no batch" in refused({}, **bare)[0]
    assert refused({}, framework="hf-trainer", **bare) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b'{"a": 1,}', "ds.json is not valid JSON"),
        (b'{// zero\n"zero_optimization": {}}', "ds.json is not valid JSON"),
        (b'{"fp16": {}, "fp16": {}}', "duplicate key 'fp16'"),
        (b"[1]", "ds.json must contain a mapping"),
        (b'{"gradient_clipping": NaN}', "NaN is not a JSON number"),
        (b"\xff", "ds.json is not valid JSON"),
        (b"[" * 100_000, "ds.json is not valid JSON"),
    ],
)
def test_what_is_no_plain_json_is_refused(text: bytes, word: str) -> None:
    assert word in refused(text)[0]


def test_the_trainer_is_told_what_only_the_file_says() -> None:
    bare = {"micro_batch": None, "gradient_accumulation": None, "framework": "hf-trainer"}
    values = {"train_micro_batch_size_per_gpu": 3, "gradient_clipping": 0.5}
    args = made(values, **bare).args
    assert "--per_device_train_batch_size=3" in args
    assert "--max_grad_norm=0.5" in args


def test_unknown_keys_are_judged_without_a_strategy() -> None:
    found, faults = user_config.read(b'{"zero_optimisation": {}}', "ds.json")
    assert not faults
    (fault,) = user_config.check_unknown(found, auto=True)
    assert fault.message.startswith("ds.json:1: unknown DeepSpeed key zero_optimisation")


@pytest.mark.train
def test_deepspeed_accepts_what_was_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deepspeed")
    files = (
        {},
        ZERO2,
        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}},
        {
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "flops_profiler": {"enabled": True},
        },
    )
    for values in files:
        read = worlds.deepspeed(completed(values, gradient_clipping=0.5), monkeypatch)
        assert (read.train_batch_size, read.zero_optimization_stage) == (64, 2)
        assert (read.bfloat16_config.enabled, read.gradient_clipping) == (True, 0.5)


@pytest.mark.train
def test_the_catalogue_is_that_of_the_installed_deepspeed() -> None:
    deepspeed = pytest.importorskip("deepspeed")
    from tests.strategy import deepspeed_catalogue

    with deepspeed_catalogue.FILE.open(encoding="utf-8", newline="") as stream:
        held = list(csv.reader(stream))[1:]
    assert held == [list(row) for row in deepspeed_catalogue.rows()]
    text = "".join(
        path.read_text(encoding="utf-8")
        for name in ("runtime.config", "runtime.pipe.engine", "runtime.zero.config")
        for path in [Path(str(import_module(f"deepspeed.{name}").__file__))]
    )
    assert deepspeed
    for path in deepspeed_catalogue.OTHERS:
        name = path.rpartition(".")[2]
        assert path.startswith("expert_parallel") or name in text, path


def test_the_catalogue_knows_where_each_key_comes_from() -> None:
    assert all(key.source for key in deepspeed_keys().values())
    assert all(key.instead for key in deepspeed_keys().values() if key.status == "deprecated")
