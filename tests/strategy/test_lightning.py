"""Lightning's words: read back by LightningCLI's parser, and by the classes that it makes."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobgen.shell import quote
from jobgen.strategy.frameworks import Configured, FrameworkRequest, configure
from jobgen.strategy.spec import Strategy
from tests.products import one_of_each
from tests.strategy.made import BATCH, grid, made, request, train

READ = pytest.mark.train("torch", "lightning", "jsonargparse")
PRECISION = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
SHARDING = {
    "fsdp": "FULL_SHARD",
    "fsdp-grad-op": "SHARD_GRAD_OP",
    "fsdp-no-shard": "NO_SHARD",
    "fsdp-hybrid": "HYBRID_SHARD",
}


@pytest.fixture(scope="module")
def parser() -> Any:
    """The part of LightningCLI's parser that reads ``--trainer``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.pytorch import Trainer
        from lightning.pytorch.cli import LightningArgumentParser

        found = LightningArgumentParser(exit_on_error=False)
        found.add_lightning_class_args(Trainer, "trainer")
    return found


def words(given: Configured, bundle: Path) -> list[str]:
    """The words as the program gets them, after bash."""
    text = " ".join(quote(arg) for arg in given.args)
    text = text.replace("$JOBGEN_BUNDLE_DIR", str(bundle))
    return shlex.split(text.replace("$JOBGEN_CHECKPOINT_DIR", "/checkpoints"))


def read(parser: Any, given: Configured, bundle: Path) -> tuple[Any, Any]:
    """Lightning's trainer arguments, and the strategy that it makes of them."""
    for file in given.files:
        (bundle / file.path).write_bytes(file.content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.distributed.fsdp import MixedPrecision

        trainer = parser.parse_args(words(given, bundle)).trainer
        made = trainer.strategy
        module, name = made.class_path.rsplit(".", 1)
        kind = getattr(importlib.import_module(module), name)
        values = {**made.init_args.as_dict(), **(made.get("dict_kwargs") or {})}
        if values.get("mixed_precision"):  # which instantiate_classes makes of a dataclass
            values["mixed_precision"] = MixedPrecision(**values["mixed_precision"])
        return trainer, kind(**values)


def differences(trainer: Any, strategy: Any, one: FrameworkRequest) -> Mapping[str, Any]:
    """Key → what Lightning has and what was meant, where they are not the same."""
    said = one.strategy
    assert said.batch is not None
    pairs = {
        "accelerator": (trainer.accelerator, "gpu" if one.gpus else "cpu"),
        "devices": (int(trainer.devices), one.ranks_per_node),
        "nodes": (trainer.num_nodes, one.nodes),
        "precision": (trainer.precision, PRECISION[said.precision]),
        "accumulation": (trainer.accumulate_grad_batches, said.batch.accumulation),
        "root": (trainer.default_root_dir, "/checkpoints"),
    }
    family = said.trait.family
    if family != "zero":
        pairs["clipping"] = (trainer.gradient_clip_val, said.clipping)
    pairs.update(
        {"ddp": _ddp, "fsdp": _fsdp, "fsdp2": _fsdp2, "zero": _zero}[family](strategy, one)
    )
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _ddp(made: Any, one: FrameworkRequest) -> dict[str, tuple[Any, Any]]:
    keys, said = made._ddp_kwargs, one.strategy
    hook = made._ddp_comm_hook
    wanted = None if said.settings.hook == "none" else f"{said.settings.hook}_compress_hook"
    return {
        "bucket": (keys["bucket_cap_mb"], said.settings.bucket_mb),
        "static": (keys["static_graph"], said.settings.static_graph),
        "unused": (keys["find_unused_parameters"], said.settings.find_unused_parameters),
        "buffers": (keys["broadcast_buffers"] is not False, said.settings.broadcast_buffers),
        "view": (
            keys["gradient_as_bucket_view"],
            said.settings.gradient_as_bucket_view is not False,
        ),
        "timeout": (made._timeout.total_seconds(), said.timeout or 1800),
        "hook": (hook and hook.__name__, wanted),
    }


def _fsdp(made: Any, one: FrameworkRequest) -> dict[str, tuple[Any, Any]]:
    said = one.strategy
    hybrid = (said.mesh.replicate, said.mesh.shard) if said.name == "fsdp-hybrid" else None
    mesh = made.kwargs.get("device_mesh")
    return {
        "sharding": (made.sharding_strategy.name, SHARDING[said.name]),
        "offload": (made.cpu_offload.offload_params, bool(said.offload)),
        "mesh": (mesh and tuple(mesh), hybrid),
        "saved": (made._state_dict_type, said.settings.state_dict),
        "dtypes": (made.mixed_precision and _dtypes(made.mixed_precision), _asked(said)),
        "timeout": (made._timeout.total_seconds(), said.timeout or 1800),
    }


def _dtypes(found: Any) -> list[str]:
    kinds = (found.param_dtype, found.reduce_dtype, found.buffer_dtype)
    return [str(kind).removeprefix("torch.") for kind in kinds]


def _asked(said: Strategy) -> list[str] | None:
    """FSDP's types: those of the job, else that of the computation."""
    asked = said.settings
    if asked.reduce_dtype is None and asked.buffer_dtype is None:
        return None
    kinds = (said.precision, asked.reduce_dtype, asked.buffer_dtype)
    return [DTYPES[kind or said.precision] for kind in kinds]


def _fsdp2(made: Any, one: FrameworkRequest) -> dict[str, tuple[Any, Any]]:
    mesh = one.strategy.mesh
    return {
        "data": (made._data_parallel_size, mesh.data),
        "tensor": (made._tensor_parallel_size, mesh.tp),
        "saved": (
            made._save_distributed_checkpoint,
            one.strategy.settings.state_dict == "sharded",
        ),
    }


def _zero(made: Any, one: FrameworkRequest) -> dict[str, tuple[Any, Any]]:
    config, said = made.config, one.strategy
    assert said.batch is not None
    return {
        "stage": (config["zero_optimization"]["stage"], said.trait.stage),
        "micro": (config["train_micro_batch_size_per_gpu"], said.batch.micro),
        "accumulation": (config.get("gradient_accumulation_steps"), None),
        "clipping": (config.get("gradient_clipping", 0.0), said.clipping or 0.0),
        "reduced": (config.get("communication_data_type"), said.settings.reduce_dtype),
        "timeout": (made._timeout.total_seconds(), said.timeout or 1800),
    }


@READ
@pytest.mark.parametrize("family", ["ddp", "fsdp", "fsdp2", "zero"])
def test_its_parser_and_its_classes_mean_what_was_decided(
    family: str, parser: Any, tmp_path: Path
) -> None:
    if family == "zero":
        pytest.importorskip("deepspeed")
    seen = set()
    for one, given in grid("lightning"):
        strategy = one.strategy
        if strategy.trait.family != family:
            continue
        seen.add(strategy.name)
        assert differences(*read(parser, given, tmp_path), one) == {}
    assert seen


@READ
def test_layers_are_wrapped_and_recomputed_by_their_import_path(
    parser: Any, tmp_path: Path
) -> None:
    from torch.nn import TransformerEncoderLayer

    keys = {"wrap": ["torch.nn.TransformerEncoderLayer"], "activation_checkpointing": "full"}
    _, strategy = read(parser, made("lightning", strategy="fsdp", **keys), tmp_path)
    policy = strategy.kwargs["auto_wrap_policy"]
    assert policy._module_classes == {TransformerEncoderLayer}
    assert strategy._activation_checkpointing_kwargs


@pytest.mark.parametrize(
    ("keys", "precision"),
    [
        ({"strategy": "fsdp2"}, "bf16-mixed"),
        ({"strategy": "fsdp2", "pure": True}, "bf16-true"),
        ({"strategy": "ddp", "pure": True, "precision": "fp16"}, "16-true"),
        ({"strategy": "ddp", "pure": True, "precision": "fp32"}, "32-true"),
        ({"strategy": "zero2", "pure": True}, "bf16-mixed"),
    ],
)
def test_what_is_planned_in_16_bits_trains_in_them(keys: dict[str, Any], precision: str) -> None:
    given = configure(request(train("lightning", **{**keys, **BATCH}), 2, 4))
    assert given.faults == ()
    assert f"--trainer.precision={precision}" in given.args


@READ
@pytest.mark.slow
def test_the_trainer_itself_is_made_of_them_on_cpus(tmp_path: Path) -> None:
    """DDP is what Lightning runs without GPUs; its CLI makes the trainer."""
    given = made("lightning", gpus=False, gradient_clipping=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.pytorch.cli import LightningCLI
        from lightning.pytorch.demos.boring_classes import BoringModel

        quiet = {"logger": False, "enable_checkpointing": False}
        told = words(given, tmp_path)
        cli = LightningCLI(
            BoringModel, args=told, run=False, save_config_callback=None, trainer_defaults=quiet
        )
    trainer = cli.trainer
    assert (trainer.num_nodes, trainer.num_devices, trainer.world_size) == (2, 4, 8)
    assert (trainer.accumulate_grad_batches, trainer.gradient_clip_val) == (4, 0.5)
    assert trainer.precision == "bf16-mixed"


@READ
@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "elements"), one_of_each([("ddp", 64), ("fsdp2", 32)], kept=[("fsdp2", 32)])
)
def test_two_ranks_train_with_them(strategy: str, elements: int, tmp_path: Path) -> None:
    """On CPUs, under torchrun, as a job does; FSDP2 holds half of the layer's 2 x 32 weights."""
    asked = train("lightning", strategy=strategy, gradient_clipping=0.5, **BATCH)
    given = configure(request(asked, 1, 2, gpus=False))
    assert given.faults == ()
    for file in given.files:
        (tmp_path / file.path).write_bytes(file.content)
    told = [word.replace("/checkpoints", str(tmp_path)) for word in words(given, tmp_path)]
    start = ["-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *start, str(Path(__file__).with_name("lit.py")), "fit", *told],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "JOBGEN_STRATEGY": str(tmp_path / "strategy.json"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kind = {"ddp": "DDPStrategy", "fsdp2": "ModelParallelStrategy"}[strategy]
    for rank in range(2):
        said = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert said == {"strategy": kind, "steps": 2, "elements": elements}
    assert list(tmp_path.glob("checkpoints/*.ckpt"))


def test_the_class_stands_before_its_arguments() -> None:
    for _, given in grid("lightning"):
        names = [str(arg).split("=")[0] for arg in given.args]
        assert all("=" in str(arg) for arg in given.args)
        first = names.index("--trainer.strategy")
        assert all(n.startswith("--trainer.strategy.") for n in names[first + 1 :])
        assert not any(n.startswith("--trainer.strategy.") for n in names[:first])


def test_every_program_gets_the_whole_strategy_too() -> None:
    for one, given in grid("lightning"):
        assert "JOBGEN_STRATEGY" in given.env
        files = {file.path: json.loads(file.content) for file in given.files}
        assert len(files) == len(given.files)
        batch = one.strategy.batch
        assert batch is not None
        assert files["strategy.json"]["micro_batch"] == batch.micro


def test_the_root_that_run_names_stays() -> None:
    args = made("lightning", words=("--trainer.default_root_dir=mine",)).args
    assert not any(str(arg).startswith("--trainer.default_root_dir") for arg in args)


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"strategy": "fsdp", "gradient_clipping": 1.0}, ("gradient_clipping",)),
        ({"strategy": "fsdp", "gpus": False}, ("strategy",)),
        ({"strategy": "zero2", "gpus": False}, ("strategy",)),
        ({"strategy": "fsdp", "wrap": ["Block"]}, ("wrap",)),
        (
            {"strategy": "fsdp", "activation_checkpointing": "full"},
            ("activation_checkpointing",),
        ),
        (
            {"strategy": "fsdp", "activation_checkpointing": "selective", "wrap": ["m.B"]},
            ("activation_checkpointing",),
        ),
        ({"strategy": "fsdp2", "pp": 2}, ("pp",)),
        ({"strategy": "fsdp2", "precision": "fp16"}, ("precision",)),
        ({"strategy": {"type": "fsdp2", "shard": 2}}, ("strategy", "shard")),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_way_out(
    keys: dict[str, Any], path: tuple[str, ...]
) -> None:
    (fault,) = made("lightning", **keys).faults
    assert fault.path == path
    assert fault.hint


def test_without_a_batch_nothing_is_said_of_accumulation() -> None:
    given = configure(request(train("lightning")))
    assert not any("accumulate" in str(arg) for arg in given.args)
