"""accelerate's file: read by its own loader and launcher, it means what the strategy meant."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobgen.strategy.frameworks import Configured, FrameworkRequest
from jobgen.strategy.spec import TRAITS
from tests.strategy import worlds
from tests.strategy.worlds import asked, content, environment

KINDS: tuple[str | Mapping[str, Any], ...] = (
    *(name for name, trait in TRAITS.items() if "accelerate" in trait.frameworks),
    {"type": "fsdp2", "reshard_after_forward": False},
    {"type": "fsdp2", "shard": 4},
    {"type": "fsdp", "state_dict": "full"},
)


def given(strategy: str | Mapping[str, Any], **keys: Any) -> Configured:
    return worlds.given("accelerate", strategy, launcher="accelerate", **{"micro_batch": 1, **keys})


def file(strategy: str | Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    found = given(strategy, **keys)
    assert found.faults == ()
    return read(found)


def read(found: Configured) -> dict[str, Any]:
    assert found.launcher is not None
    values = yaml.safe_load(found.launcher)
    assert isinstance(values, dict)
    return values


def variables(found: Configured) -> dict[str, str]:
    return {name: setting.value for name, setting in found.env.items()}


def paths(strategy: str | Mapping[str, Any], **keys: Any) -> list[tuple[str, ...]]:
    return [fault.path for fault in given(strategy, **keys).faults]


def grid() -> Iterator[tuple[FrameworkRequest, Configured]]:
    return worlds.grid("accelerate", *KINDS, launcher="accelerate")


def test_ranks_are_started_on_cpus_too() -> None:
    assert file("ddp", gpus=False)["distributed_type"] == "MULTI_GPU"
    assert variables(given("ddp", gpus=False))["ACCELERATE_USE_CPU"] == "true"


def test_one_rank_is_not_distributed() -> None:
    request = asked("accelerate", "ddp", launcher="accelerate", micro_batch=1)
    assert request is not None
    from jobgen.strategy.frameworks import configure

    found = configure(request._replace(nodes=1, ranks_per_node=1))
    assert read(found)["distributed_type"] == "NO"


def test_words_that_yaml_takes_for_flags_are_quoted() -> None:
    assert file("fsdp", precision="fp32")["mixed_precision"] == "no"
    block = file("fsdp", wrap=("On",))["fsdp_config"]
    assert block["fsdp_transformer_layer_cls_to_wrap"] == "On"


def test_layers_come_from_the_model_where_the_job_names_none() -> None:
    block = file("fsdp2")["fsdp_config"]
    assert block["fsdp_auto_wrap_policy"] == "TRANSFORMER_BASED_WRAP"
    assert "fsdp_transformer_layer_cls_to_wrap" not in block


def test_weights_are_read_once_where_the_model_has_a_name() -> None:
    assert file("fsdp2")["fsdp_config"]["fsdp_cpu_ram_efficient_loading"] is True
    sizes = worlds.LLAMA._replace(name="")
    block = file("fsdp2", sizes=sizes)["fsdp_config"]
    assert block["fsdp_cpu_ram_efficient_loading"] is False


def test_fsdp2_over_a_part_of_the_ranks_is_a_mesh() -> None:
    mesh = file({"type": "fsdp2", "shard": 4})["parallelism_config"]
    assert mesh["parallelism_config_dp_replicate_size"] == 2
    assert mesh["parallelism_config_dp_shard_size"] == 4
    mesh = file("fsdp2", tp=2, cp=2)["parallelism_config"]
    assert mesh["parallelism_config_tp_size"] == mesh["parallelism_config_cp_size"] == 2


def test_zero_has_one_deepspeed_configuration_and_its_precision_there() -> None:
    found = given("zero3", offload={"what": "both"})
    assert "mixed_precision" not in read(found)
    place = "$JOBGEN_BUNDLE_DIR/ds_config.json"
    assert variables(found)["ACCELERATE_DEEPSPEED_CONFIG_FILE"] == place
    values = json.loads(content(found, "ds_config.json"))
    assert values["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] is True


def test_a_batch_that_nobody_says_is_filled_in_by_accelerate() -> None:
    found = given("zero1", micro_batch=None)
    assert json.loads(content(found, "ds_config.json"))["train_batch_size"] == "auto"
    assert "ACCELERATE_GRADIENT_ACCUMULATION_STEPS" not in variables(found)


def test_what_the_file_cannot_say_is_said_to_the_program() -> None:
    (note,) = given({"type": "ddp", "hook": "bf16", "static_graph": True}).notes
    assert "static_graph, comm_hook" in note.message
    assert "DistributedDataParallelKwargs" in note.message
    assert content(given("ddp"), "strategy.json")
    notes = given({"type": "fsdp", "reduce_dtype": "fp32"}, timeout="20m", fused=True).notes
    assert [note.path[1] for note in notes] == ["strategy", "timeout", "fused"]
    assert "FullyShardedDataParallelPlugin" in notes[0].message
    assert "InitProcessGroupKwargs" in notes[1].message


def test_an_adam_on_the_cpu_is_to_be_fused() -> None:
    offloaded = {"offload": {"what": "optimizer"}}
    (note,) = given("zero2", **offloaded).notes
    assert note.path == ("train", "offload")
    assert "fused: true" in note.message
    assert [one.path[1] for one in given("zero2", fused=True, **offloaded).notes] == ["fused"]
    assert not given("zero2", config=b'{"optimizer": {"type": "AdamW"}}', **offloaded).notes


def test_on_cpus_the_program_is_told_how_to_begin() -> None:
    (note,) = given("fsdp2", gpus=False).notes
    assert "PartialState(cpu=True).distributed_type = DistributedType.MULTI_GPU" in note.message
    (note,) = given("zero2", gpus=False).notes
    assert "PartialState(cpu=True);" in note.message


def test_what_accelerate_cannot_do_is_refused() -> None:
    reshard = {"type": "fsdp2", "reshard_after_forward": 4}
    assert paths(reshard) == [("strategy", "reshard_after_forward")]
    assert paths({"type": "fsdp-hybrid", "shard": 2}) == [("strategy", "shard")]
    assert paths("fsdp-hybrid", gpus=False) == [("strategy",)]
    assert paths("fsdp2", pp=2) == [("pp",)]
    assert paths("ddp", activation_checkpointing="selective") == [("activation_checkpointing",)]
    assert paths("zero1", tp=2) == [("tp",)]


@pytest.mark.train
def test_the_launcher_reads_the_file_as_it_was_meant(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from accelerate.commands.config.config_args import load_config_from_file

    count = 0
    for request, found in grid():
        place = tmp_path / "accelerate.yaml"
        place.write_bytes(found.launcher or b"")
        held = load_config_from_file(str(place))
        written = read(found)
        for name, value in written.items():
            kept = getattr(held, name)
            assert getattr(kept, "value", kept) == value, name
        env = launched(place, request)
        strategy = request.strategy
        if strategy.trait.family != "zero":
            wanted = {"fp32": "no"}.get(strategy.precision, strategy.precision)
            assert env["ACCELERATE_MIXED_PRECISION"] == wanted
        if strategy.trait.family in {"fsdp", "fsdp2"}:
            sharded(env, request)
        count += 1
    assert count > 150


@pytest.mark.train
def test_accelerate_reads_the_deepspeed_configuration_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deepspeed")
    pytest.importorskip("accelerate")
    from accelerate import DeepSpeedPlugin

    place, config = tmp_path / "accelerate.yaml", tmp_path / "ds_config.json"
    for request, found in worlds.grid(
        "accelerate", "zero1", "zero2", "zero3", launcher="accelerate"
    ):
        place.write_bytes(found.launcher or b"")
        config.write_bytes(content(found, "ds_config.json"))
        env = {**variables(found), "ACCELERATE_DEEPSPEED_CONFIG_FILE": str(config)}
        with environment(env):
            env = launched(place, request)
        with environment(env):
            plugin = DeepSpeedPlugin()
            plugin.set_mixed_precision(env["ACCELERATE_MIXED_PRECISION"])
        strategy, values = request.strategy, json.loads(config.read_text())
        assert plugin.zero_stage == strategy.trait.stage
        assert plugin.zero3_init_flag is (strategy.trait.stage == 3)
        assert plugin.gradient_clipping == (strategy.clipping or 0.0)
        assert strategy.batch
        assert plugin.gradient_accumulation_steps == strategy.batch.accumulation
        kept = plugin.deepspeed_config
        assert {name: kept[name] for name in values} == values
        others = {name: kept[name] for name in kept.keys() - values.keys()}
        assert all(value == {"enabled": False} for name, value in others.items() if "16" in name)
        read = worlds.deepspeed(kept, monkeypatch)
        assert read.train_batch_size == strategy.batch.total


def launched(place: Path, request: FrameworkRequest) -> dict[str, str]:
    """The environment that ``accelerate launch`` would give to the ranks of the second node."""
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    parser = launch.launch_command_parser()
    words = [f"--config_file={place}", "--num_machines=2", "--num_processes=8", "--machine_rank=1"]
    words += ["--main_process_ip=127.0.0.1", "--main_process_port=29500", "--same_network"]
    args: argparse.Namespace = parser.parse_args([*words, "--no_python", "true"])
    args, defaults, precise = launch._validate_launch_command(args)
    if not args.use_deepspeed:
        assert args.multi_gpu or args.use_fsdp
        return dict(prepare_multi_gpu_env(args))
    fields = [*defaults.deepspeed_config, *(["mixed_precision"] if precise else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    command, env = prepare_deepspeed_cmd_env(args)
    assert command is None, "torch's own agent starts the ranks"
    return dict(env)


def sharded(env: Mapping[str, str], request: FrameworkRequest) -> None:
    """accelerate's plugin, made from that environment, says what the strategy says."""
    from accelerate import FullyShardedDataParallelPlugin
    from accelerate.parallelism_config import ParallelismConfig

    strategy = request.strategy
    first = strategy.trait.family == "fsdp"
    assert not first or env["FSDP_SYNC_MODULE_STATES"] == str(request.gpus).lower()
    # the broadcast asks for a GPU as soon as it is switched on
    with environment({**env, "FSDP_SYNC_MODULE_STATES": "false", **_LOADED}):
        plugin = FullyShardedDataParallelPlugin()
        mesh = ParallelismConfig()
    assert plugin.fsdp_version == (1 if first else 2)
    if first:
        from jobgen.strategy.frameworks.torch import SHARDING

        assert plugin.sharding_strategy.name == SHARDING[strategy.name]
        assert plugin.use_orig_params is True
        assert plugin.cpu_offload.offload_params is bool(strategy.offload)
        assert plugin.backward_prefetch.name == "BACKWARD_PRE"
    else:
        assert plugin.reshard_after_forward is strategy.settings.reshard_after_forward
        name = "CPUOffloadPolicy" if strategy.offload else "OffloadPolicy"
        assert type(plugin.cpu_offload).__name__ == name
        dataclasses.asdict(plugin.cpu_offload)
    assert plugin.activation_checkpointing is (strategy.recompute == "full")
    assert plugin.state_dict_type.name == f"{strategy.settings.state_dict.upper()}_STATE_DICT"
    assert plugin.min_num_params == strategy.min_params
    assert tuple(plugin.transformer_cls_names_to_wrap or ()) == strategy.wrap
    if "ACCELERATE_USE_PARALLELISM_CONFIG" in env:
        assert mesh.dp_replicate_size == strategy.mesh.replicate
        assert mesh.dp_shard_size == strategy.mesh.shard
        assert mesh.total_size == strategy.mesh.world
    else:
        assert strategy.mesh.replicate == 1 or first


_LOADED = {"FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}
