"""The GPT example on four real ranks: all strategies learn what DDP learns, and survive a kill."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.examples.starts import EXAMPLE, NO_CACHE, Start, Warm
from tests.products import one_of_each

TINY = ("--layers", "2", "--hidden", "64", "--heads", "4", "--save-every", "2")
WHOLE = 4 * 135_808
"""Bytes of the tiny model's parameters in fp32."""
FP32 = 1e-5
"""Of the losses and norms, relative: ranks add up in another order."""
BF16 = 5e-3
"""The same where products have 8 bits of mantissa."""

pytestmark = pytest.mark.slow
torch = pytest.mark.train("torch")
deepspeed = pytest.mark.train("torch", "deepspeed")
accelerate = pytest.mark.train("torch", "accelerate", "deepspeed")
Said = list[dict[str, Any]]
"""What each rank reports of a training."""


class Run(NamedTuple):
    """One training: a program, its strategy.json, its words and its variables."""

    program: str
    strategy: dict[str, Any]
    steps: int = 6
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})

    def plan(self) -> dict[str, Any]:
        """The strategy.json: 16 samples a step, however the ranks are divided."""
        mesh = self.strategy.get("mesh", {})
        alike = mesh.get("tp", 1) * mesh.get("pp", 1)
        common = {"micro_batch": 2, "gradient_accumulation": 2 * alike, "global_batch": 16}
        return {"seq_len": 64, "gradient_clipping": 1.0, **common, **self.strategy}


def begin(warm: Warm, folder: Path, run: Run, ranks: int = 4) -> Start:
    """Start the ranks of a training."""
    folder.mkdir()
    file = folder / "strategy.json"
    file.write_text(json.dumps(run.plan()))
    words = [*TINY, "--steps", str(run.steps), *run.words]
    env = {"JOBGEN_STRATEGY": str(file), **run.env}
    return warm.start(folder / "start", run.program, words, env, ranks)


def train(warm: Warm, folder: Path, run: Run, ranks: int = 4) -> Said:
    """What every rank reports of a training."""
    start = begin(warm, folder, run, ranks)
    assert start.wait() == [0] * ranks, start.said()
    lines = (re.search(r"^report (\{.*\})$", start.text(rank), re.M) for rank in range(ranks))
    said = [json.loads(line[1]) for line in lines if line]
    assert [report["rank"] for report in said] == list(range(ranks)), start.said()
    return said


def zero(stage: int, **more: Any) -> dict[str, Any]:
    """A ds_config.json."""
    batch = {"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2}
    return {
        **batch,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": stage, **more},
    }


HALF = {"dp_replicate": 2, "dp_shard": 2}
TORCH = {
    "ddp": Run("train_ddp", {"strategy": "ddp"}, 8),
    "ddp-static": Run("train_ddp", {"strategy": "ddp", "ddp": {"static_graph": True}}),
    "ddp-more-micro-batches": Run(
        "train_ddp", {"strategy": "ddp", "micro_batch": 1, "gradient_accumulation": 4}
    ),
    "ddp-not-clipped": Run("train_ddp", {"strategy": "ddp", "gradient_clipping": None}),
    "ddp-settings": Run(
        "train_ddp",
        {
            "strategy": "ddp",
            "fused_optimizer": True,
            "timeout_seconds": 600,
            "ddp": {
                "find_unused_parameters": True,
                "broadcast_buffers": False,
                "gradient_as_bucket_view": False,
            },
        },
    ),
    "ddp-bf16": Run("train_ddp", {"strategy": "ddp", "precision": "bf16"}),
    "ddp-recompute": Run("train_ddp", {"strategy": "ddp", "activation_checkpointing": "full"}),
    "fsdp": Run("train_fsdp1", {"strategy": "fsdp", "fsdp": {"sharding_strategy": "FULL_SHARD"}}),
    "fsdp-grad-op": Run(
        "train_fsdp1", {"strategy": "fsdp-grad-op", "fsdp": {"sharding_strategy": "SHARD_GRAD_OP"}}
    ),
    "fsdp-no-shard": Run(
        "train_fsdp1", {"strategy": "fsdp-no-shard", "fsdp": {"sharding_strategy": "NO_SHARD"}}
    ),
    "fsdp-hybrid": Run(
        "train_fsdp1",
        {"strategy": "fsdp-hybrid", "fsdp": {"sharding_strategy": "HYBRID_SHARD"}, "mesh": HALF},
    ),
    "fsdp-settings": Run(
        "train_fsdp1",
        {
            "strategy": "fsdp",
            "reduce_dtype": "fp32",
            "buffer_dtype": "fp32",
            "wrap_min_params": 10_000,
            "full_state_dict": True,
        },
    ),
    "fsdp-bf16": Run("train_fsdp1", {"strategy": "fsdp", "precision": "bf16"}),
    "fsdp-recompute": Run(
        "train_fsdp1", {"strategy": "fsdp", "activation_checkpointing": "selective"}
    ),
    "fsdp2": Run("train_fsdp2", {"strategy": "fsdp2", "mesh": {"dp_shard": 4}}),
    "fsdp2-keep": Run(
        "train_fsdp2", {"strategy": "fsdp2", "fsdp2": {"reshard_after_forward": False}}
    ),
    "fsdp2-two": Run("train_fsdp2", {"strategy": "fsdp2", "fsdp2": {"reshard_after_forward": 2}}),
    "fsdp2-mesh": Run("train_fsdp2", {"strategy": "fsdp2", "mesh": HALF}),
    "fsdp2-tp": Run("train_fsdp2", {"strategy": "fsdp2", "mesh": {"dp_shard": 2, "tp": 2}}),
    "fsdp2-offload": Run("train_fsdp2", {"strategy": "fsdp2", "offload": "cpu"}),
    "fsdp2-settings": Run(
        "train_fsdp2",
        {
            "strategy": "fsdp2",
            "reduce_dtype": "fp32",
            "wrap_min_params": 10_000,
            "full_state_dict": True,
            "fused_optimizer": True,
        },
    ),
    "fsdp2-bf16": Run("train_fsdp2", {"strategy": "fsdp2", "precision": "bf16"}),
    "fsdp2-recompute": Run(
        "train_fsdp2", {"strategy": "fsdp2", "activation_checkpointing": "full"}
    ),
    "3d-tp2-dp2": Run("train_3d", {"strategy": "3d", "mesh": {"tp": 2, "dp_replicate": 2}}),
    "3d-pp2-dp2": Run("train_3d", {"strategy": "3d", "mesh": {"pp": 2, "dp_replicate": 2}}),
    "3d-tp2-pp2": Run("train_3d", {"strategy": "3d", "mesh": {"tp": 2, "pp": 2}}),
}
SHARE = {
    "ddp": 1,
    "fsdp": 4,
    "fsdp-grad-op": 4,
    "fsdp-no-shard": 1,
    "fsdp-hybrid": 2,
    "fsdp2": 4,
    "fsdp2-keep": 4,
    "fsdp2-two": 4,
    "fsdp2-mesh": 2,
}
"""Strategy → the ranks that share parameters, gradients and optimizer state; without padding."""
KEPT = (
    *("ddp-settings", "fsdp-settings", "fsdp2-settings"),
    *("ddp", "ddp-more-micro-batches", "ddp-not-clipped", "ddp-bf16", "ddp-recompute"),
    *("fsdp", "fsdp-bf16", "fsdp2", "fsdp2-bf16", "fsdp2-mesh", "3d-tp2-pp2"),
    *("zero2", "zero3", "accelerate-ddp", "accelerate-fsdp2"),
)
"""What ``make test`` trains; tests/e2e/test_strategies.py trains others of the strategies."""
EXACT = [name for name in TORCH if not {"bf16", "clipped"} & {*name.split("-")}]


def some(names: Iterable[str]) -> list[object]:
    """Those of them that are kept, and the others with ``--full``."""
    every = list(names)
    return one_of_each(every, [name for name in KEPT if name in every])


def far(said: Said, reference: Said, key: str = "losses") -> float:
    """The greatest relative distance from the reference's, which may have run longer."""
    found, began = said[0][key], said[0]["resumed_from"]
    right = reference[0][key][began : began + len(found)]
    assert len(found) == len(right) > 0
    return max(abs(a - b) / abs(b) for a, b in zip(found, right, strict=True))


@torch
@pytest.mark.parametrize("name", some(TORCH))
def test_the_loss_falls_and_is_said_by_every_rank_alike(ran: Trained, name: str) -> None:
    losses = ran[name][0]["losses"]
    assert losses[0] > 5.5
    assert losses[5] < 5.0
    assert all(report["losses"] == losses for report in ran[name])


@torch
@pytest.mark.parametrize("name", some(n for n in EXACT if n != "ddp"))
def test_every_strategy_gives_the_losses_and_norms_of_ddp(ran: Trained, name: str) -> None:
    assert far(ran[name], ran["ddp"]) < FP32
    assert far(ran[name], ran["ddp"], "norms") < FP32


@torch
@pytest.mark.parametrize("name", ["ddp-bf16", "fsdp-bf16", "fsdp2-bf16"])
def test_16_bits_are_used_and_give_nearly_the_same(ran: Trained, name: str) -> None:
    assert FP32 / 10 < far(ran[name], ran["ddp"]) < BF16
    assert ran[name][0]["param_bytes"] == ran[name.partition("-")[0]][0]["param_bytes"]


@torch
def test_clipping_changes_what_is_learned(ran: Trained) -> None:
    assert min(ran["ddp"][0]["norms"]) > 1
    assert far(ran["ddp-not-clipped"], ran["ddp"]) > 10 * FP32


@torch
@pytest.mark.parametrize("name", one_of_each(["ddp", "fsdp", "fsdp2"], ["ddp"]))
def test_recomputed_blocks_run_twice(ran: Trained, name: str) -> None:
    once = ran[name][0]["block_runs"] // ran[name][0]["steps"]
    assert ran[f"{name}-recompute"][0]["block_runs"] == 2 * 6 * once


@torch
@pytest.mark.parametrize("name", some(SHARE))
def test_each_rank_holds_its_share_to_the_byte(ran: Trained, name: str) -> None:
    for report in ran[name]:
        share = WHOLE // SHARE[name]
        assert report["param_bytes"] == report["grad_bytes"] == share
        assert report["optim_bytes"] == 2 * share


@torch
@pytest.mark.exhaustive
def test_tensor_parallel_shares_the_blocks_products_and_copies_the_rest(
    ran: Trained,
) -> None:
    products = 2 * (4 * 64 * 64 + 2 * 64 * 256) * 4
    rest = WHOLE - products
    assert ran["fsdp2-tp"][0]["param_bytes"] == (products // 2 + rest) // 2
    assert ran["3d-tp2-dp2"][0]["param_bytes"] == products // 2 + rest


ZERO = {f"zero{stage}": zero(stage) for stage in (1, 2, 3)} | {
    "zero3-small": zero(3, stage3_param_persistence_threshold=0),
    "zero1-offload": zero(1, offload_optimizer={"device": "cpu"}),
    "zero3-offload": zero(
        3,
        stage3_param_persistence_threshold=0,
        offload_optimizer={"device": "cpu"},
        offload_param={"device": "cpu"},
    ),
}
FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "ACCELERATE_TORCH_DEVICE": "cpu",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
    "FSDP_OFFLOAD_PARAMS": "false",
}
"""What ``accelerate launch`` makes of its configuration file."""


ACCELERATE = ("ddp", "fsdp", "fsdp2", "zero2")


def saving(folder: Path) -> dict[str, Run]:
    """What is saved at step 6: torch's strategies, DeepSpeed's, and those of accelerate."""
    runs = {}
    for name, config in ZERO.items():
        file = folder / f"ds-{name}.json"
        file.write_text(json.dumps(config))
        env = {"JOBGEN_DEEPSPEED_CONFIG": str(file), "JOBGEN_CHECKPOINT_DIR": str(folder / name)}
        runs[name] = Run("train_deepspeed", {"strategy": name[:5]}, env=env)
    for name in ("ddp", "fsdp", "fsdp-settings", "fsdp2", "fsdp2-settings"):
        env = {"JOBGEN_CHECKPOINT_DIR": str(folder / name)}
        runs[f"{name}-saved"] = TORCH[name]._replace(steps=6, env=env)
    variables = {
        "ddp": {"ACCELERATE_USE_CPU": "true"},
        "fsdp": {**FSDP, "FSDP_VERSION": "1", "FSDP_SHARDING_STRATEGY": "FULL_SHARD"},
        "fsdp2": {**FSDP, "FSDP_VERSION": "2", "FSDP_RESHARD_AFTER_FORWARD": "true"},
        "zero2": {
            "ACCELERATE_USE_DEEPSPEED": "true",
            "ACCELERATE_TORCH_DEVICE": "cpu",
            "ACCELERATE_DEEPSPEED_CONFIG_FILE": str(folder / "ds-zero2.json"),
        },
    }
    for name in ACCELERATE:
        place = {"JOBGEN_CHECKPOINT_DIR": str(folder / f"accelerate-{name}")}
        runs[f"accelerate-{name}"] = Run(
            "train_accelerate", {"strategy": name}, env=variables[name] | place
        )
    return runs


class Trained:
    """What the ranks of each training report; a training is done when it is first asked for."""

    def __init__(self, warm: Warm, folder: Path) -> None:
        self.warm, self.folder = warm, folder
        self.runs = {**TORCH, **saving(folder)}
        self._said: dict[str, Said] = {}

    def __getitem__(self, name: str) -> Said:
        if name not in self._said:
            # a training that failed is tried again by the next test that asks for it
            folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.folder))
            self._said[name] = train(self.warm, folder / "run", self._run(name))
        return self._said[name]

    def _run(self, name: str) -> Run:
        """One that is called ``NAME-resumed`` goes on where NAME was saved."""
        first = name.removesuffix("-resumed")
        if first == name:
            return self.runs[name]
        assert self[first]
        return self.runs[first]._replace(steps=8)


COUNTED = """\
import gc
import torch.distributed as dist
import train_ddp
from torch.nn.parallel import DistributedDataParallel

def count() -> None:
    alive = any(type(o) is DistributedDataParallel for o in gc.get_objects())
    print("alive" if alive else "freed")

dist.destroy_process_group = count
train_ddp.main()
"""


@torch
def test_ddp_is_freed_before_the_process_group() -> None:
    """Else its destructor may wait for a thread of gloo that waits for Python's lock: a hang."""
    words = [sys.executable, "-W", "ignore", "-c", COUNTED, *TINY, "--steps", "1"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("JOBGEN_")}
    done = subprocess.run(
        words, cwd=EXAMPLE, env=env | NO_CACHE, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "freed"


@pytest.fixture(scope="session")
def ran(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """All trainings of the table."""
    return Trained(warm, tmp_path_factory.mktemp("trained"))


@accelerate
@pytest.mark.parametrize("name", some([*ZERO, *(f"accelerate-{s}" for s in ACCELERATE)]))
def test_deepspeed_and_accelerate_give_the_losses_of_ddp(ran: Trained, name: str) -> None:
    assert far(ran[name], ran["ddp"]) < FP32
    assert far(ran[name], ran["ddp"], "norms") < FP32


@accelerate
@pytest.mark.parametrize(
    "name",
    one_of_each(["zero1", *(f"accelerate-{s}" for s in ACCELERATE)], ["accelerate-ddp"]),
)
def test_they_go_on_from_their_checkpoints(ran: Trained, name: str) -> None:
    said = ran[f"{name}-resumed"]
    assert said[0]["resumed_from"] == 6
    assert far(said, ran["ddp"]) < FP32


@accelerate
@pytest.mark.parametrize(
    ("name", "params"),
    [
        pytest.param("zero1", WHOLE, marks=pytest.mark.exhaustive),
        ("zero2", WHOLE),
        ("zero3", WHOLE // 4 + WHOLE),
        pytest.param("zero3-small", WHOLE // 4, marks=pytest.mark.exhaustive),
    ],
)
def test_deepspeed_holds_its_shards_to_the_byte(ran: Trained, name: str, params: int) -> None:
    for report in ran[name]:
        assert report["param_bytes"] == params  # small ones stay whole beside their shards
        assert report["grad_shard_bytes"] == WHOLE // 4
        assert report["optim_bytes"] == 3 * WHOLE // 4  # its own fp32 copy of fp32 parameters


@accelerate
@pytest.mark.parametrize(
    "name",
    one_of_each(
        ["ddp", "fsdp", "fsdp-settings", "fsdp2", "fsdp2-settings", "zero2", "zero3"],
        kept=["ddp", "fsdp", "fsdp-settings", "fsdp2", "fsdp2-settings", "zero3"],
    ),
)
def test_two_ranks_read_what_four_have_saved(
    warm: Warm, ran: Trained, tmp_path: Path, name: str
) -> None:
    four = ran.runs[f"{name}-saved" if name in TORCH else name]
    assert ran[f"{name}-saved" if name in TORCH else name]
    saved = Path(four.env["JOBGEN_CHECKPOINT_DIR"])
    shutil.copytree(saved, tmp_path / name)
    env = {**four.env, "JOBGEN_CHECKPOINT_DIR": str(tmp_path / name)}
    said = train(warm, tmp_path / "two", four._replace(steps=8, env=env), ranks=2)
    assert said[0]["resumed_from"] == 6
    assert far(said, ran["ddp"]) < FP32


TWICE = ("--lr", "0", "--windows", "32")
"""Two steps make an epoch, and the weights stay: a step's loss tells which samples it had."""
PROGRAMS = {
    "train_ddp": "ddp",
    "train_fsdp1": "fsdp",
    "train_fsdp2": "fsdp2",
    "train_deepspeed": "zero1",
    "train_accelerate": "ddp",
    "train_3d": "3d",
}


@accelerate
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_epoch_has_an_order_of_its_own_and_all_the_samples(
    warm: Warm, tmp_path: Path, program: str
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(zero(1)))
    env = {"JOBGEN_DEEPSPEED_CONFIG": str(file), "ACCELERATE_USE_CPU": "true"}
    strategy = {"strategy": PROGRAMS[program], "mesh": {"pp": 2} if program == "train_3d" else {}}
    losses = train(warm, tmp_path / "run", Run(program, strategy, 4, TWICE, env))[0]["losses"]
    first, second = losses[:2], losses[2:]
    assert sum(first) == pytest.approx(sum(second), rel=FP32)
    assert first[0] != pytest.approx(second[0], rel=FP32)


SURVIVORS = {"ddp": "train_ddp", "fsdp": "train_fsdp1", "fsdp2": "train_fsdp2", "3d": "train_3d"}


@torch
@pytest.mark.parametrize("name", one_of_each(SURVIVORS, kept=["3d"]))
def test_a_job_that_was_killed_goes_on_from_the_last_whole_checkpoint(
    warm: Warm, tmp_path: Path, name: str
) -> None:
    # with dropout and a short epoch: random numbers and the place in the text are to go on, too
    words = ("--dropout", "0.1", "--windows", "50")
    mesh = {"pp": 2, "dp_replicate": 2} if name == "3d" else {}
    run = Run(SURVIVORS[name], {"strategy": name, "mesh": mesh}, words=words)
    whole = train(warm, tmp_path / "whole", run)
    run = run._replace(env={"JOBGEN_CHECKPOINT_DIR": str(tmp_path / "saved")})
    died = begin(warm, tmp_path / "died", run._replace(words=(*words, "--fail", "4:2")))
    assert died.wait()[2] == -signal.SIGKILL, died.said()
    names = sorted(p.name for p in (tmp_path / "saved").iterdir())
    assert names == ["step-00000002", "step-00000004.part"]
    for report, right in zip(train(warm, tmp_path / "again", run), whole, strict=True):
        assert report["resumed_from"] == 2
        assert report["losses"] == right["losses"][2:]
    assert not list((tmp_path / "saved").glob("*.part"))


@torch
def test_a_stop_request_ends_a_job_between_two_steps(warm: Warm, tmp_path: Path) -> None:
    asked, done = tmp_path / "stop", tmp_path / "stopped"
    asked.touch()
    env = {
        "JOBGEN_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "JOBGEN_STOP_FILE": str(asked),
        "JOBGEN_STOPPED_FILE": str(done),
    }
    run = Run("train_fsdp2", {"strategy": "fsdp2"}, env=env)
    assert train(warm, tmp_path / "run", run, ranks=2)[0]["steps"] == 0
    assert done.exists()
    assert (tmp_path / "checkpoints" / "step-00000000" / "progress.json").exists()


@torch
def test_a_program_reports_how_fast_it_was(warm: Warm, tmp_path: Path) -> None:
    told = tmp_path / "report"
    run = Run("train_ddp", {"strategy": "ddp"}, env={"JOBGEN_REPORT_FILE": str(told)}, steps=2)
    train(warm, tmp_path / "run", run, ranks=2)
    numbers = json.loads(told.read_text())
    assert not [key for key in numbers if "peak" in key], "a peak is a GPU's"
    assert numbers["samples_per_second"] > 0
    assert numbers["samples_per_step"] > 0
    assert len(numbers["step_s"]) == len(numbers["data_s"]) == 1, "the first step warms up"
    assert numbers["comm_s"] >= 0
    assert 0 <= numbers["data_s"][0] < numbers["step_s"][0]
