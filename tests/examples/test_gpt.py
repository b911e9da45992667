"""The GPT example on four real ranks: all strategies learn what DDP learns, and survive a kill.

To start ranks takes longer than to train: one torchrun does many trainings, one after the other.
This file is the program that it starts, too.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gpt"
TINY = ("--layers", "2", "--hidden", "64", "--heads", "4", "--save-every", "2")
WHOLE = 4 * 135_808
"""Bytes of the tiny model's parameters in fp32."""
SOON = 350
"""Seconds that one torchrun may take; a quarter of a minute to a whole one, where all is quiet."""
FP32 = 1e-5
"""Of the losses and norms, relative: ranks add up in another order."""
BF16 = 5e-3
"""The same where products have 8 bits of mantissa."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
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


def train(folder: Path, runs: dict[str, Run], ranks: int = 4) -> dict[str, Said]:
    """What every rank reports of each training, by its name."""
    said = start(folder, runs, ranks)
    lines = [line for line in said.stderr.splitlines() if "Warning" not in line]
    assert said.returncode == 0, "\n".join(lines[:60])
    found: dict[str, Said] = {}
    for name in runs:
        texts = ((folder / f"{name}.{rank}.out").read_text() for rank in range(ranks))
        lines = [line for text in texts for line in text.splitlines() if line[:7] == "report "]
        found[name] = [json.loads(line[7:]) for line in lines]
        assert [report["rank"] for report in found[name]] == list(range(ranks))
    return found


def start(folder: Path, runs: dict[str, Run], ranks: int = 4) -> subprocess.CompletedProcess[str]:
    """One torchrun for all of them, on this machine's CPUs."""
    folder.mkdir(exist_ok=True)
    work = []
    for (name, run), port in zip(runs.items(), ports(), strict=False):
        file = folder / f"{name}.json"
        file.write_text(json.dumps(run.plan()))
        env = {"JOBGEN_STRATEGY": str(file), "MASTER_PORT": str(port)}
        words = [*TINY, "--steps", str(run.steps), *run.words]
        work.append((name, run.program, words, {**env, **run.env}))
    (folder / "work.json").write_text(json.dumps(work))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JOBGEN_", "ACCELERATE_"))}
    program = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    words = (*program, "--nproc-per-node", str(ranks), __file__, str(folder / "work.json"))
    with subprocess.Popen(
        words,
        env={**clean, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=SOON)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its ranks then; killed, it would leave them
            out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def ports() -> Iterator[int]:
    """Free ones below those that the system gives away: gloo takes some of these meanwhile."""
    for port in range(20000 + os.getpid() % 97 * 100, 32000):
        with socket.socket() as place, suppress(OSError):
            place.bind(("127.0.0.1", port))
            yield port


def work_off(file: Path) -> None:
    """What one rank does: all trainings of a list, each with a process group of its own."""
    sys.path.insert(0, str(EXAMPLE))
    before = dict(os.environ)
    for name, program, words, env in json.loads(file.read_text()):
        os.environ.clear()
        os.environ.update(before, TORCHELASTIC_USE_AGENT_STORE="False", **env)
        sys.argv = [program, *words]
        forget()
        said = io.StringIO()
        try:
            with redirect_stdout(said):
                runpy.run_path(str(EXAMPLE / f"{program}.py"), run_name="__main__")
        except BaseException:  # noqa: BLE001 the others would wait for this one
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        file.with_name(f"{name}.{os.environ['RANK']}.out").write_text(said.getvalue())


def forget() -> None:
    """What libraries keep for a process, which has one training elsewhere."""
    if "deepspeed" in sys.modules:
        import deepspeed.comm.comm
        from deepspeed.utils import groups

        deepspeed.comm.comm.cdb = None
        groups._release_process_group_references(group=None)
    if "accelerate" in sys.modules:
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


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
EXACT = [name for name in TORCH if not {"bf16", "clipped"} & {*name.split("-")}]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """All strategies that torch itself has; DTensor keeps something of a mesh for a process."""
    three = {name: run for name, run in TORCH.items() if name.startswith("3d")}
    rest = {name: run for name, run in TORCH.items() if name not in three}
    return {
        **train(tmp_path_factory.mktemp("torch"), rest),
        **train(tmp_path_factory.mktemp("three"), three),
    }


def far(said: Said, reference: Said, key: str = "losses") -> float:
    """The greatest relative distance from the reference's, which may have run longer."""
    found, began = said[0][key], said[0]["resumed_from"]
    right = reference[0][key][began : began + len(found)]
    assert len(found) == len(right) > 0
    return max(abs(a - b) / abs(b) for a, b in zip(found, right, strict=True))


@torch
def test_the_loss_falls_and_is_said_by_every_rank_alike(ran: dict[str, Said]) -> None:
    for name, said in ran.items():
        losses = said[0]["losses"]
        assert losses[0] > 5.5, name
        assert losses[5] < 5.0, name
        assert all(report["losses"] == losses for report in said), name


@torch
@pytest.mark.parametrize("name", [n for n in EXACT if n != "ddp"])
def test_every_strategy_gives_the_losses_and_norms_of_ddp(ran: dict[str, Said], name: str) -> None:
    assert far(ran[name], ran["ddp"]) < FP32
    assert far(ran[name], ran["ddp"], "norms") < FP32


@torch
@pytest.mark.parametrize("name", ["ddp-bf16", "fsdp-bf16", "fsdp2-bf16"])
def test_16_bits_are_used_and_give_nearly_the_same(ran: dict[str, Said], name: str) -> None:
    assert FP32 / 10 < far(ran[name], ran["ddp"]) < BF16
    assert ran[name][0]["param_bytes"] == ran[name.partition("-")[0]][0]["param_bytes"]


@torch
def test_clipping_changes_what_is_learned(ran: dict[str, Said]) -> None:
    assert min(ran["ddp"][0]["norms"]) > 1
    assert far(ran["ddp-not-clipped"], ran["ddp"]) > 10 * FP32


@torch
@pytest.mark.parametrize("name", ["ddp", "fsdp", "fsdp2"])
def test_recomputed_blocks_run_twice(ran: dict[str, Said], name: str) -> None:
    once = ran[name][0]["block_runs"] // ran[name][0]["steps"]
    assert ran[f"{name}-recompute"][0]["block_runs"] == 2 * 6 * once


@torch
@pytest.mark.parametrize("name", SHARE)
def test_each_rank_holds_its_share_to_the_byte(ran: dict[str, Said], name: str) -> None:
    for report in ran[name]:
        share = WHOLE // SHARE[name]
        assert report["param_bytes"] == report["grad_bytes"] == share
        assert report["optim_bytes"] == 2 * share


@torch
def test_tensor_parallel_shares_the_blocks_products_and_copies_the_rest(
    ran: dict[str, Said],
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


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """What DeepSpeed has, and four of the strategies by accelerate; they are saved at step 6."""
    folder = tmp_path_factory.mktemp("others")
    runs = {}
    for name, config in ZERO.items():
        file = folder / f"ds-{name}.json"
        file.write_text(json.dumps(config))
        env = {"JOBGEN_DEEPSPEED_CONFIG": str(file), "JOBGEN_CHECKPOINT_DIR": str(folder / name)}
        runs[name] = Run("train_deepspeed", {"strategy": name[:5]}, env=env)
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
    for name, env in variables.items():
        place = {"JOBGEN_CHECKPOINT_DIR": str(folder / f"accelerate-{name}")}
        runs[f"accelerate-{name}"] = Run("train_accelerate", {"strategy": name}, env=env | place)
        runs[f"accelerate-{name}-resumed"] = Run(
            "train_accelerate", {"strategy": name}, 8, env=env | place
        )
    runs["zero1-resumed"] = runs["zero1"]._replace(steps=8)
    found = train(folder, runs)
    found["folder"] = [{"path": folder}]
    return found


@accelerate
@pytest.mark.parametrize(
    "name", [*ZERO, *(f"accelerate-{s}" for s in ("ddp", "fsdp", "fsdp2", "zero2"))]
)
def test_deepspeed_and_accelerate_give_the_losses_of_ddp(
    ran: dict[str, Said], others: dict[str, Said], name: str
) -> None:
    assert far(others[name], ran["ddp"]) < FP32
    assert far(others[name], ran["ddp"], "norms") < FP32


@accelerate
@pytest.mark.parametrize(
    "name", ["zero1", *(f"accelerate-{s}" for s in ("ddp", "fsdp", "fsdp2", "zero2"))]
)
def test_they_go_on_from_their_checkpoints(
    ran: dict[str, Said], others: dict[str, Said], name: str
) -> None:
    said = others[f"{name}-resumed"]
    assert said[0]["resumed_from"] == 6
    assert far(said, ran["ddp"]) < FP32


@accelerate
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("zero1", WHOLE),
        ("zero2", WHOLE),
        ("zero3", WHOLE // 4 + WHOLE),
        ("zero3-small", WHOLE // 4),
    ],
)
def test_deepspeed_holds_its_shards_to_the_byte(
    others: dict[str, Said], name: str, params: int
) -> None:
    for report in others[name]:
        assert report["param_bytes"] == params  # small ones stay whole beside their shards
        assert report["grad_shard_bytes"] == WHOLE // 4
        assert report["optim_bytes"] == 3 * WHOLE // 4  # its own fp32 copy of fp32 parameters


@accelerate
def test_two_ranks_read_what_four_have_saved(
    ran: dict[str, Said], others: dict[str, Said], tmp_path: Path
) -> None:
    four = {
        name: TORCH[name]._replace(env={"JOBGEN_CHECKPOINT_DIR": str(tmp_path / name)})
        for name in ("ddp", "fsdp", "fsdp2")
    }
    four = {name: run._replace(steps=6) for name, run in four.items()}
    train(tmp_path / "four", four)
    two = {name: run._replace(steps=8) for name, run in four.items()}
    folder = others["folder"][0]["path"]
    for name in ("zero2", "zero3"):
        shutil.copytree(folder / name, tmp_path / name)
        env = {
            "JOBGEN_DEEPSPEED_CONFIG": str(folder / f"ds-{name}.json"),
            "JOBGEN_CHECKPOINT_DIR": str(tmp_path / name),
        }
        two[name] = Run("train_deepspeed", {"strategy": name}, 8, env=env)
    for name, said in train(tmp_path / "two", two, ranks=2).items():
        assert said[0]["resumed_from"] == 6, name
        assert far(said, ran["ddp"]) < FP32, name


TWICE = ("--lr", "0", "--windows", "32")
"""Two steps make an epoch, and the weights stay: a step's loss tells which samples it had."""


@accelerate
def test_every_epoch_has_an_order_of_its_own_and_all_the_samples(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(zero(1)))
    env = {
        "train_deepspeed": {"JOBGEN_DEEPSPEED_CONFIG": str(file)},
        "train_accelerate": {"ACCELERATE_USE_CPU": "true"},
    }
    programs = {
        "train_ddp": "ddp",
        "train_fsdp1": "fsdp",
        "train_fsdp2": "fsdp2",
        "train_deepspeed": "zero1",
        "train_accelerate": "ddp",
    }
    runs = {
        program: Run(program, {"strategy": strategy}, 4, TWICE, env.get(program, {}))
        for program, strategy in programs.items()
    }
    three = {"train_3d": Run("train_3d", {"strategy": "3d", "mesh": {"pp": 2}}, 4, TWICE)}
    for name, said in (train(tmp_path / "a", runs) | train(tmp_path / "b", three)).items():
        first, second = said[0]["losses"][:2], said[0]["losses"][2:]
        assert sum(first) == pytest.approx(sum(second), rel=FP32), name
        assert first[0] != pytest.approx(second[0], rel=FP32), name


SURVIVORS = {"ddp": "train_ddp", "fsdp": "train_fsdp1", "fsdp2": "train_fsdp2", "3d": "train_3d"}


@torch
def test_a_job_that_was_killed_goes_on_from_the_last_whole_checkpoint(tmp_path: Path) -> None:
    # with dropout and a short epoch: random numbers and the place in the text are to go on, too
    words = ("--dropout", "0.1", "--windows", "50")
    runs = {
        name: Run(
            program,
            {"strategy": name, "mesh": {"pp": 2, "dp_replicate": 2} if name == "3d" else {}},
            words=words,
            env={"JOBGEN_CHECKPOINT_DIR": str(tmp_path / name)},
        )
        for name, program in SURVIVORS.items()
    }
    whole = train(tmp_path / "whole", {n: run._replace(env={}) for n, run in runs.items()})
    first = {n: run._replace(steps=3) for n, run in runs.items()}
    victim = {"killed": runs["fsdp2"]._replace(words=(*words, "--fail", "4:2"))}
    died = start(tmp_path / "first", first | victim)
    assert died.returncode != 0
    names = sorted(p.name for p in (tmp_path / "fsdp2").iterdir())
    assert names == ["step-00000002", "step-00000003", "step-00000004.part"]
    for name, said in train(tmp_path / "again", runs).items():
        assert said[0]["resumed_from"] == 3
        right = [report["losses"][3:] for report in whole[name]]
        assert [report["losses"] for report in said] == right, name
    assert not list((tmp_path / "fsdp2").glob("*.part"))


@torch
def test_a_stop_request_ends_a_job_between_two_steps(tmp_path: Path) -> None:
    asked, done = tmp_path / "stop", tmp_path / "stopped"
    asked.touch()
    env = {
        "JOBGEN_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "JOBGEN_STOP_FILE": str(asked),
        "JOBGEN_STOPPED_FILE": str(done),
    }
    run = Run("train_fsdp2", {"strategy": "fsdp2"}, env=env)
    said = train(tmp_path / "run", {"stopped": run}, ranks=2)
    assert said["stopped"][0]["steps"] == 0
    assert done.exists()
    assert (tmp_path / "checkpoints" / "step-00000000" / "progress.json").exists()


@torch
def test_a_program_reports_how_fast_it_was(tmp_path: Path) -> None:
    told = tmp_path / "report"
    run = Run("train_ddp", {"strategy": "ddp"}, env={"JOBGEN_REPORT_FILE": str(told)}, steps=2)
    train(tmp_path / "run", {"reported": run}, ranks=2)
    numbers = json.loads(told.read_text())
    assert not [key for key in numbers if "peak" in key], "a peak is a GPU's"
    assert numbers["samples_per_second"] > 0
    assert numbers["samples_per_step"] > 0
    assert len(numbers["step_s"]) == len(numbers["data_s"]) == 1, "the first step warms up"
    assert numbers["comm_s"] >= 0
    assert 0 <= numbers["data_s"][0] < numbers["step_s"][0]


if __name__ == "__main__":
    work_off(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(0)  # many engines leave threads, and now and then abort a process that has ended
