"""The commands that a diagnosis proposes do what they say for the job that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.app.checked_fixes import check_fixes, generalize
from jobgen.app.world import World
from jobgen.diagnose.remedies import Remedy
from jobgen.model.record import JobId, Login, RunRecord, Site

JOB = "name: llama\nnodes: 2\nprocs_per_node: 2\ntime: 1h\nrun: train.py\n"
FASTER = "jobgen submit job.yaml --set env.NCCL_DEBUG=INFO"
LONGER = Remedy("if a long phase is expected", "jobgen submit job.yaml --set train.timeout=2h")
TIMEOUT = "the timeout of its process group to 2h"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    (tmp_path / "hang.py").write_text("import torch.distributed\n")
    monkeypatch.chdir(tmp_path)
    return World.here()


def run(*sets: str) -> RunRecord:
    site = Site("local", "local", Login("local"), "/runs")
    record = RunRecord("t" * 26, "llama-3", "llama", site, "0", 1.0, "/runs/llama", JobId(7))
    return record._replace(shape={"sets": list(sets)})


def test_a_command_keeps_what_the_job_was_submitted_with(world: World) -> None:
    (fix,) = check_fixes(world, run("run=hang.py"), [Remedy("", FASTER)])
    assert fix.command == (
        "jobgen submit job.yaml --set run=hang.py --set env.NCCL_DEBUG=INFO -c local"
    )


def test_a_setting_that_changes_nothing_is_one_of_the_program(world: World) -> None:
    (fix,) = check_fixes(world, run(), [LONGER])
    assert fix == Remedy(f"if a long phase is expected: set {TIMEOUT} in the program")


def test_a_job_that_names_its_cluster_needs_no_option(world: World, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"{JOB}cluster: local\n")
    (fix,) = check_fixes(world, run(), [Remedy("", FASTER)])
    assert fix.command == FASTER


def test_monitoring_is_not_proposed_where_it_is_on(world: World) -> None:
    alone = Remedy("shows memory", "jobgen submit job.yaml --set monitor=30s")
    both = Remedy("", "jobgen submit job.yaml --set preflight=full --set monitor=30s")
    off = check_fixes(world, run(), [alone, both])
    assert ["monitor=30s" in fix.command for fix in off] == [True, True]
    (fix,) = check_fixes(world, run("monitor=1m"), [alone, both])
    assert fix.command == ("jobgen submit job.yaml --set monitor=1m --set preflight=full -c local")


def test_a_setting_that_the_job_refuses_is_left_out(world: World) -> None:
    assert not check_fixes(world, run(), [Remedy("", "jobgen submit job.yaml --set nodes=99")])


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (FASTER, "set NCCL_DEBUG=INFO"),
        ("jobgen submit job.yaml --set slurm.exclude=n3", "set --exclude=n3 for sbatch"),
        ("jobgen submit job.yaml --set mem=0", "set --mem=0 for sbatch"),
        ("jobgen submit job.yaml", "submit again"),
    ],
)
def test_without_a_job_file_a_setting_is_named(command: str, text: str) -> None:
    assert generalize([Remedy("", command)]) == [Remedy(text)]


def test_what_jobgen_alone_does_is_left_out_without_a_job_file() -> None:
    assert not generalize([Remedy("more next time", "jobgen submit job.yaml --set monitor=30s")])


def test_a_plan_is_proposed_for_jobs_of_jobgen_alone(world: World) -> None:
    plan = Remedy("what would make it fit", "jobgen plan job.yaml -c local --section memory")
    assert [fix.command for fix in check_fixes(world, run(), [plan])] == [plan.command]
    assert not generalize([plan])


def test_the_file_that_the_run_was_submitted_from_is_named(world: World, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(JOB.replace("nodes: 2", "nodes: 1"))
    record = run()
    record = record._replace(shape={**record.shape, "file": str(tmp_path / "other.yaml")})
    doctor = Remedy("", "jobgen doctor -c local --job job.yaml")
    fixes = check_fixes(world, record, [Remedy("", FASTER), doctor])
    assert [fix.command for fix in fixes] == [
        "jobgen submit other.yaml --set env.NCCL_DEBUG=INFO -c local",
        "jobgen doctor -c local --job other.yaml",
    ]


SMALLER = Remedy("keep the batch", "jobgen submit job.yaml --set train.micro_batch=1")
SHARDED = Remedy("shard it", "jobgen submit job.yaml --set train.strategy=zero3")
PLAN = Remedy("what would help", "jobgen plan job.yaml -c local --section memory")


def fix(world: World, remedy: Remedy, run_line: str, train: str = "") -> list[Remedy]:
    text = JOB.replace("run: train.py", f"run: {run_line}") + train
    Path("job.yaml").write_text(text)
    return check_fixes(world, run(), [remedy])


@pytest.mark.parametrize(
    ("run_line", "text"),
    [
        (
            "train.py --per_device_train_batch_size=4",
            "--per_device_train_batch_size=1 in run, job.yaml:5: keep the batch",
        ),
        (
            "train.py --micro-batch-size 4",
            "--micro-batch-size 1 in run, job.yaml:5: keep the batch",
        ),
        (
            "-m torchtitan.train --config llama3_8b",
            "--training.local_batch_size 1: keep the batch with --training.global_batch_size",
        ),
        ("train.py", "the batch size per GPU to 1 in the program: keep the batch"),
    ],
)
def test_a_setting_of_a_job_without_train_is_an_option_of_its_program(
    world: World, run_line: str, text: str
) -> None:
    assert fix(world, SMALLER, run_line) == [Remedy(f"set {text}")]


def test_an_option_is_named_with_those_that_it_needs(world: World) -> None:
    less = Remedy("", "jobgen submit job.yaml --set train.activation_checkpointing=full")
    (found,) = fix(world, less, "train.py --recompute-granularity selective")
    assert "--recompute-granularity full --recompute-method uniform" in found.text


def test_a_setting_that_only_the_plan_reads_is_named_with_its_line(world: World) -> None:
    (found,) = fix(world, SMALLER, "train.py", "train:\n  framework: none\n  micro_batch: 4\n")
    assert found.text == (
        "set the batch size per GPU to 1 in the program, and train.micro_batch in job.yaml:8: "
        "keep the batch"
    )


def test_a_command_names_the_option_that_it_passes(world: World, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from transformers import HfArgumentParser\n")
    train = "train: {framework: hf-trainer, strategy: ddp, micro_batch: 4}\n"
    (found,) = fix(world, SMALLER, "train.py", train)
    assert found.command == "jobgen submit job.yaml --set train.micro_batch=1 -c local"
    assert found.text == "--per_device_train_batch_size 1; keep the batch"


def test_a_strategy_that_the_framework_lacks_is_left_out(world: World) -> None:
    assert not fix(world, SHARDED, "-m torchtitan.train --config llama3_8b")


def test_a_setting_that_submit_would_refuse_is_left_out(world: World) -> None:
    text = (
        "name: llama\nnodes: 1\ntime: 1h\nrun: train.py\n"
        "train: {framework: hf-trainer, model: meta-llama/Llama-3.1-70B, seq_len: 8192}\n"
    )
    Path("job.yaml").write_text(text)
    Path("train.py").write_text("from transformers import HfArgumentParser\n")
    site = Site("a100x16", "slurm", Login("local"), "/runs")
    record = run()._replace(site=site)
    less = Remedy("", "jobgen submit job.yaml --set train.activation_checkpointing=full")
    (found,) = check_fixes(world, record, [less, Remedy("", FASTER)])
    assert (found.text, found.command) == ("set NCCL_DEBUG=INFO", "")


def test_the_plan_is_that_of_the_submitted_job(world: World) -> None:
    (found,) = check_fixes(world, run("nodes=1"), [PLAN])
    assert found.command == "jobgen plan job.yaml --set nodes=1 -c local --section memory"
    assert found.text == "what would help; needs train.model in job.yaml"


def test_a_log_names_the_options_of_its_framework() -> None:
    less = "set --training.local_batch_size 1: keep the batch with --training.global_batch_size"
    assert generalize([SMALLER], "torchtitan") == [Remedy(less)]
    full = Remedy("", "jobgen submit job.yaml --set train.activation_checkpointing=full")
    assert generalize([full], "torchtitan") == [
        Remedy("set activation-checkpoint:full (a subcommand, last on the command line)")
    ]
    assert not generalize([SHARDED], "megatron")


LESS_LOSS = Remedy("no logits", "jobgen submit job.yaml --set train.loss=fused")


@pytest.mark.parametrize(
    ("framework", "text"),
    [
        ("hf-trainer", "set --use_liger_kernel=true: no logits"),
        ("torchtitan", "set the loss to one in chunks (ChunkedLossWrapper) in the program"),
        ("", "set the loss to a fused cross-entropy, such as Liger's, in the program: no logits"),
    ],
)
def test_the_loss_is_named_as_its_framework_has_it(framework: str, text: str) -> None:
    (found,) = generalize([LESS_LOSS], framework)
    assert found.text.startswith(text)
    assert not generalize([LESS_LOSS], "megatron")


def test_a_sharding_is_named_in_words_or_with_the_key_of_its_file() -> None:
    assert generalize([SHARDED]) == [Remedy("set the sharding to ZeRO-3 in the program: shard it")]
    assert generalize([SHARDED], "hf-trainer") == [
        Remedy("set --deepspeed=FILE (zero_optimization.stage: 3 in FILE): shard it")
    ]


def test_a_loss_and_an_option_of_run_are_settings_of_the_program(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("from transformers import HfArgumentParser\n")
    train = "train: {framework: hf-trainer, strategy: ddp}\n"
    program = "train.py --per_device_train_batch_size 4"
    assert fix(world, LESS_LOSS, program, train) == [
        Remedy(
            "--use_liger_kernel=true; no logits",
            "jobgen submit job.yaml --set train.loss=fused -c local",
        )
    ]
    assert fix(world, LESS_LOSS, program, train.replace("hf-trainer", "none")) == [
        Remedy("set the loss to a fused cross-entropy, such as Liger's, in the program: no logits")
    ]
    assert fix(world, SMALLER, program, train) == [
        Remedy("set --per_device_train_batch_size 1 in run, job.yaml:5: keep the batch")
    ]


def test_what_the_job_has_already_is_left_out(world: World, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from transformers import HfArgumentParser\n")
    train = "train: {framework: hf-trainer, strategy: ddp, activation_checkpointing: full}\n"
    full = Remedy("", "jobgen submit job.yaml --set train.activation_checkpointing=full")
    assert fix(world, full, "train.py", train) == []
    variable = Remedy("", "jobgen submit job.yaml --set env.NCCL_DEBUG=INFO")
    assert fix(world, variable, "train.py", "env: {NCCL_DEBUG: INFO}\n") == []
