"""ds_config.json: exact, without "auto", and read by DeepSpeed itself as jobgen meant it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from jobgen.strategy import ModelSizes, Strategy
from jobgen.strategy.frameworks import Configured
from tests.strategy import worlds
from tests.strategy.worlds import LLAMA, asked, content, given, grid

KINDS = ("ddp", "zero1", "zero2", "zero3")


def document(found: Configured) -> dict[str, Any]:
    values = json.loads(content(found, "ds_config.json"))
    assert isinstance(values, dict)
    return values


def config(strategy: str, **keys: Any) -> dict[str, Any]:
    found = given("deepspeed", strategy, **{"micro_batch": 2, **keys})
    assert found.faults == ()
    return document(found)


def test_the_batch_comes_out_exactly() -> None:
    values = config("zero2", gradient_accumulation=4)
    assert values["train_batch_size"] == 64
    assert values["train_micro_batch_size_per_gpu"] == 2
    assert values["gradient_accumulation_steps"] == 4


def test_a_job_that_says_nothing_of_batches_is_told_to() -> None:
    found = given("deepspeed", "zero2")
    assert [fault.path for fault in found.faults] == [("micro_batch",)]


def test_no_value_is_auto() -> None:
    for _, found in grid("deepspeed", *KINDS):
        assert b"auto" not in content(found, "ds_config.json")


def test_the_program_finds_both_files() -> None:
    found = given("deepspeed", "zero1", micro_batch=1)
    env = {name: setting.value for name, setting in found.env.items()}
    assert env == {
        "JOBGEN_DEEPSPEED_CONFIG": "$JOBGEN_BUNDLE_DIR/ds_config.json",
        "JOBGEN_STRATEGY": "$JOBGEN_BUNDLE_DIR/strategy.json",
    }


def test_without_clipping_nothing_is_clipped_whatever_the_release_does() -> None:
    assert config("zero1")["gradient_clipping"] == 0.0
    assert config("zero1", gradient_clipping=1)["gradient_clipping"] == 1.0


def test_plain_data_parallel_is_stage_0() -> None:
    assert config("ddp")["zero_optimization"] == {"stage": 0}


def test_buckets_of_stage_3_follow_the_model_where_it_is_known() -> None:
    zero = config("zero3")["zero_optimization"]
    assert zero["reduce_bucket_size"] == 64 * 64
    assert zero["stage3_prefetch_bucket_size"] == int(0.9 * 64 * 64)
    assert zero["stage3_param_persistence_threshold"] == 640
    assert config("zero3", sizes=ModelSizes())["zero_optimization"] == {"stage": 3}


def test_cpus_pin_no_memory_and_overlap_nothing() -> None:
    zero = config("zero3", gpus=False, offload={"what": "both"})["zero_optimization"]
    assert zero["overlap_comm"] is False
    assert zero["offload_optimizer"] == {"device": "cpu", "pin_memory": False}
    assert zero["offload_param"] == {"device": "cpu", "pin_memory": False}


def test_an_offloaded_optimizer_may_be_the_programs_own() -> None:
    assert config("zero2", offload={"what": "optimizer"})["zero_force_ds_cpu_optimizer"] is False
    assert "zero_force_ds_cpu_optimizer" not in config("zero3", offload={"what": "params"})


def test_nvme_has_its_path_and_what_can_be_tuned() -> None:
    values = config("zero3", offload={"what": "both", "to": "nvme", "path": "/local"})
    for name in ("offload_optimizer", "offload_param"):
        assert values["zero_optimization"][name]["nvme_path"] == "/local"
    assert values["aio"]["queue_depth"] == 8


def test_nvme_is_told_what_does_not_come_back_from_a_checkpoint() -> None:
    offload = {"what": "optimizer", "to": "nvme", "path": "/local"}
    told = given("deepspeed", "zero3", micro_batch=1, offload=offload).notes
    assert any("without the moments" in note.message for note in told)
    offload["what"] = "params"
    told = given("deepspeed", "zero3", micro_batch=1, offload=offload).notes
    assert not any("without the moments" in note.message for note in told)


def test_a_variable_in_the_path_of_nvme_is_refused() -> None:
    offload = {"what": "optimizer", "to": "nvme", "path": "/local/$USER"}
    found = given("deepspeed", "zero3", micro_batch=1, offload=offload)
    assert [fault.path for fault in found.faults] == [("offload", "path")]


def test_a_buffer_holds_a_ranks_part_of_the_embedding() -> None:
    offload = {"what": "params", "to": "nvme", "path": "/local"}
    sizes = LLAMA._replace(hidden=8192, vocab=128256)
    zero = config("zero3", offload=offload, sizes=sizes)["zero_optimization"]
    assert zero["offload_param"]["buffer_size"] * 8 >= 8192 * 128256
    assert "buffer_size" not in config("zero3", offload=offload)["zero_optimization"]


def test_what_is_recomputed_is_left_to_the_program_and_said() -> None:
    found = given("deepspeed", "zero2", micro_batch=1, activation_checkpointing="full")
    assert "deepspeed.checkpointing.checkpoint" in found.notes[0].message
    found = given("deepspeed", "zero2", micro_batch=1, activation_checkpointing="selective")
    assert [fault.path for fault in found.faults] == [("activation_checkpointing",)]


def test_degrees_of_megatron_are_refused() -> None:
    request = asked("deepspeed", "zero1", micro_batch=1, tp=2)
    assert request is not None
    found = given("deepspeed", "zero1", micro_batch=1, tp=2)
    assert [fault.path for fault in found.faults] == [("tp",)]


def test_every_value_nobody_asked_for_has_its_reason() -> None:
    said = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
    said |= {"bf16.enabled", "fp16.enabled", "zero_optimization.stage"}
    for request, found in grid("deepspeed", *KINDS):
        for path, value in leaves(document(found)):
            key = ".".join(path)
            asked_for = key in said or key.endswith((".device", ".nvme_path"))
            asked_for |= key == "gradient_clipping" and value == request.strategy.clipping
            assert asked_for or found.chosen[f"ds_config.json: {key}"].why, key


@pytest.mark.train
def test_deepspeed_reads_every_key_as_it_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deepspeed")
    count = 0
    for request, found in grid("deepspeed", *KINDS):
        values = document(found)
        read = worlds.deepspeed(values, monkeypatch)
        assert meaning(read) == meant(request.strategy)
        for path, value in leaves(values):
            assert at(read, path) == value, path
        count += 1
    assert count > 200


def leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


_BLOCKS = {
    "bf16": "bfloat16_config",
    "fp16": "float16_config",
    "zero_optimization": "zero_config",
    "aio": "aio_config",
    "activation_checkpointing": "activation_checkpointing_config",
}


def at(read: Any, path: tuple[str, ...]) -> Any:
    """DeepSpeed's own attribute for a key of the file."""
    for name in path:
        if isinstance(read, dict):
            read = read[name]
        else:
            read = getattr(read, _BLOCKS.get(name, name.removeprefix("stage3_")))
    return read if not hasattr(read, "parts") else str(read)


def meant(strategy: Strategy) -> dict[str, Any]:
    """What jobgen decided."""
    offload, batch = strategy.offload, strategy.batch
    assert batch is not None
    place = (offload.to, offload.path if offload.to == "nvme" else None)
    return {
        "batch": (batch.total, batch.micro, batch.accumulation),
        "stage": strategy.trait.stage if strategy.trait.family == "zero" else 0,
        "precision": strategy.precision,
        "clipping": strategy.clipping or 0.0,
        "optimizer": place if offload.optimizer else None,
        "params": place if offload.params else None,
        "dynamic": strategy.precision == "fp16",
    }


def meaning(read: Any) -> dict[str, Any]:
    """The same, as DeepSpeed understood the file."""
    fp16, bf16, zero = read.float16_config, read.bfloat16_config, read.zero_config
    batch = (read.train_batch_size, read.train_micro_batch_size_per_gpu)
    return {
        "batch": (*batch, read.gradient_accumulation_steps),
        "stage": int(zero.stage),
        "precision": "fp16" if fp16.enabled else "bf16" if bf16.enabled else "fp32",
        "clipping": read.gradient_clipping,
        "optimizer": offloaded(zero.offload_optimizer),
        "params": offloaded(zero.offload_param),
        "dynamic": fp16.enabled and fp16.loss_scale == 0,
    }


def offloaded(block: Any) -> tuple[str, str | None] | None:
    if block is None or block.device == "none":
        return None
    return str(block.device), str(block.nvme_path) if block.nvme_path else None
