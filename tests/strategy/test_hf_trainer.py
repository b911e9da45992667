"""Words for transformers' Trainer: its own parser takes them, and they mean what was meant."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobgen.shell import join
from jobgen.strategy.frameworks import Configured, FrameworkRequest, configure, torch
from jobgen.strategy.spec import TRAITS
from tests.strategy import worlds
from tests.strategy.worlds import content, environment, ranks

KINDS: tuple[str | Mapping[str, Any], ...] = (
    *(name for name, trait in TRAITS.items() if "hf-trainer" in trait.frameworks),
    {"type": "fsdp2", "reshard_after_forward": False},
    {"type": "fsdp2", "state_dict": "full"},
    {"type": "ddp", "bucket_mb": 50, "static_graph": True},
    {"type": "ddp", "find_unused_parameters": True, "broadcast_buffers": False},
)


def given(strategy: str | Mapping[str, Any], **keys: Any) -> Configured:
    return worlds.given("hf-trainer", strategy, **{"micro_batch": 2, **keys})


def paths(strategy: str | Mapping[str, Any], **keys: Any) -> list[tuple[str, ...]]:
    return [fault.path for fault in given(strategy, **keys).faults]


def words(strategy: str | Mapping[str, Any], **keys: Any) -> list[str]:
    found = given(strategy, **keys)
    assert found.faults == ()
    return [str(word) for word in found.args]


def test_the_words_are_those_of_training_arguments() -> None:
    said = words("ddp", gradient_accumulation=4, gradient_clipping=1, precision="fp16")
    assert said == [
        "--per_device_train_batch_size=2",
        "--gradient_accumulation_steps=4",
        "--fp16=true",
        "--max_grad_norm=1.0",
    ]


def test_what_the_job_does_not_say_is_left_to_the_program() -> None:
    assert words("ddp", micro_batch=None, precision="fp32") == []
    config = json.loads(content(given("zero2", micro_batch=None), "ds_config.json"))
    assert config["gradient_clipping"] == config["train_batch_size"] == "auto"


def test_the_fused_loss_and_compiled_layers_of_the_plan_are_passed() -> None:
    said = words("ddp", loss="fused", compiled=True)
    assert {"--use_liger_kernel=true", "--torch_compile=true"} <= {*said}
    (note,) = given("ddp", loss="fused").notes
    assert note.message.endswith("which needs the package liger-kernel")
    own = ("--use-liger-kernel", "True", "--torch_compile=false")
    request = worlds.asked("hf-trainer", "ddp", loss="fused", compiled=True)
    assert request is not None
    text = str(configure(request._replace(run_args=own)).args)
    assert "liger" not in text
    assert "compile" not in text


def test_files_are_named_where_they_will_lie() -> None:
    assert '--deepspeed="$JOBGEN_BUNDLE_DIR/ds_config.json"' in words("zero3")
    assert '--fsdp_config="$JOBGEN_BUNDLE_DIR/fsdp_config.json"' in words("fsdp2")


def test_on_cpus_the_trainer_is_told_so() -> None:
    assert "--use_cpu=true" in words("zero2", gpus=False)
    assert "--use_cpu=true" not in words("zero2")


def test_layers_are_recomputed_by_fsdp_itself() -> None:
    assert "--gradient_checkpointing=true" in words("ddp", activation_checkpointing="full")
    found = given("fsdp2", activation_checkpointing="full")
    assert json.loads(content(found, "fsdp_config.json"))["activation_checkpointing"] is True
    assert "--gradient_checkpointing=true" not in found.args


def test_what_the_trainer_cannot_do_is_refused() -> None:
    assert paths("fsdp2", tp=2) == [("tp",)]
    assert paths({"type": "fsdp2", "shard": 4}) == [("strategy", "shard")]
    assert paths("fsdp", gpus=False) == [("strategy",)]
    assert paths("ddp", activation_checkpointing="selective") == [("activation_checkpointing",)]


def grid() -> Iterator[tuple[FrameworkRequest, Configured]]:
    return worlds.grid("hf-trainer", *KINDS)


@pytest.mark.train
def test_the_trainer_reads_the_fused_loss_and_compiled_layers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with ranks():
        args = parsed(given("ddp", loss="fused", compiled=True, gpus=False), tmp_path)
    assert args.use_liger_kernel
    assert args.torch_compile


@pytest.mark.train
def test_the_trainer_reads_every_word_as_it_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("deepspeed")
    count = 0
    with ranks():
        for request, found in grid():
            args = parsed(found, tmp_path)
            shared(args, request)
            family = request.strategy.trait.family
            if family == "zero":
                sharded_by_deepspeed(args, found, monkeypatch)
            elif family != "ddp":
                sharded_by_fsdp(args, request)
            count += 1
    assert count > 150


def parsed(found: Configured, folder: Path) -> Any:
    """TrainingArguments from the words, as bash would hand them over."""
    from transformers import HfArgumentParser, TrainingArguments

    for file in found.files:
        (folder / file.path).write_bytes(file.content)
    line = join(found.args).replace("$JOBGEN_BUNDLE_DIR", str(folder))
    # bf16 would ask for a GPU here; the world of ranks is one of CPUs
    own = [*shlex.split(line), f"--output_dir={folder}", "--use_cpu=true"]
    world = {"RANK": "0", "WORLD_SIZE": str(worlds.RANKS), "LOCAL_RANK": "0"}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "OMP_NUM_THREADS": "1"}
    with environment(world), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FSDP1, and its words, are deprecated there
        (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(own)
    return args


def shared(args: Any, request: FrameworkRequest) -> None:
    """What goes by words under every strategy."""
    strategy = request.strategy
    assert strategy.batch
    assert args.world_size == worlds.RANKS
    assert args.per_device_train_batch_size == strategy.batch.micro
    assert args.gradient_accumulation_steps == strategy.batch.accumulation
    assert args.train_batch_size * args.gradient_accumulation_steps * 8 == strategy.batch.total
    assert (args.bf16, args.fp16) == (strategy.precision == "bf16", strategy.precision == "fp16")
    if strategy.clipping is not None:
        assert args.max_grad_norm == strategy.clipping
    if strategy.trait.family == "ddp":
        wanted = None if strategy.settings.bucket_mb == 25 else strategy.settings.bucket_mb
        assert args.ddp_bucket_cap_mb == wanted
        assert bool(args.ddp_static_graph) is strategy.settings.static_graph
        assert bool(args.ddp_find_unused_parameters) is strategy.settings.find_unused_parameters
        assert (args.ddp_broadcast_buffers is not False) is strategy.settings.broadcast_buffers
    assert args.ddp_timeout == (strategy.timeout or 1800)
    if strategy.fused is not None:
        assert args.optim == ("adamw_torch_fused" if strategy.fused else "adamw_torch")
    if strategy.trait.family in {"ddp", "zero"}:
        assert bool(args.activation_checkpointing) is (strategy.recompute == "full")


def sharded_by_deepspeed(args: Any, found: Configured, patch: pytest.MonkeyPatch) -> None:
    """Trainer and DeepSpeed agree on the file, whose "auto" the Trainer has filled in."""
    written = json.loads(content(found, "ds_config.json"))
    config = args.hf_deepspeed_config
    assert config.mismatches == []
    for name, value in written.items():
        assert value == "auto" or config.config[name] == value
    read = worlds.deepspeed(config.config, patch)
    assert read.gradient_clipping == args.max_grad_norm
    assert read.bfloat16_config.enabled is args.bf16
    assert read.float16_config.enabled is args.fp16
    assert read.train_micro_batch_size_per_gpu == args.per_device_train_batch_size
    assert read.zero_config.gather_16bit_weights_on_model_save is (read.zero_config.stage == 3)


def sharded_by_fsdp(args: Any, request: FrameworkRequest) -> None:
    """What the Trainer hands to accelerate's plugin, and the plugin made from it."""
    from accelerate import FullyShardedDataParallelPlugin

    strategy, said = request.strategy, dict(args.fsdp_plugin_args)
    first = strategy.trait.family == "fsdp"
    assert not first or said["sync_module_states"]
    # the broadcast asks for a GPU as soon as it is switched on
    off = {"sync_module_states": False} if first else {}
    with environment({}):
        plugin = FullyShardedDataParallelPlugin(
            **{**said, **off, "cpu_ram_efficient_loading": False}
        )
    assert plugin.fsdp_version == (1 if first else 2)
    if first:
        assert plugin.reshard_after_forward.name == torch.SHARDING[strategy.name]
        assert plugin.cpu_offload.offload_params is bool(strategy.offload)
        assert plugin.use_orig_params is True
        assert plugin.backward_prefetch.name == "BACKWARD_PRE"
    else:
        assert plugin.reshard_after_forward is strategy.settings.reshard_after_forward
        name = "CPUOffloadPolicy" if strategy.offload else "OffloadPolicy"
        assert type(plugin.cpu_offload).__name__ == name
    assert plugin.activation_checkpointing is (strategy.recompute == "full")
    assert plugin.state_dict_type.name == f"{strategy.settings.state_dict.upper()}_STATE_DICT"
    assert plugin.min_num_params == strategy.min_params
    assert tuple(plugin.transformer_cls_names_to_wrap or ()) == strategy.wrap


@pytest.mark.parametrize(
    ("optimizer", "word"),
    [
        ("adamw", None),
        ("adamw8bit", "adamw_bnb_8bit"),
        ("adafactor", "adafactor"),
        ("lion", "lion_32bit"),
        ("sgd", "sgd"),
        ("muon", None),
    ],
)
def test_the_optimizer_that_is_planned_is_passed(optimizer: str, word: str | None) -> None:
    said = [one for one in words("ddp", optimizer=optimizer) if one.startswith("--optim=")]
    assert said == ([f"--optim={word}"] if word else [])
    fused = words("ddp", optimizer=optimizer, fused=True)
    assert ("--optim=adamw_torch_fused" in fused) is (optimizer == "adamw")
