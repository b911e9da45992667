"""A diagnosis of files, folders and large logs, as the command line asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.app.diagnosing import diagnose
from jobgen.app.world import World
from jobgen.errors import Missing, Usage

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    go()\n'
STEPS = "".join(f"step {n} loss 1.0\n" for n in range(60_000))


@pytest.fixture
def world() -> World:
    return World.here()


def test_one_log_file_is_enough(world: World, tmp_path: Path) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_text(f"{TRACE}KeyError: 'labels'\nsrun: error: n2: task 3: Exited with exit code 1\n")
    found = diagnose(world, [str(log)])
    assert found.cause is not None
    assert (found.cause.kind, found.cause.rank, found.cause.line) == ("exception", 3, 4)
    assert found.files == 1


def test_an_error_in_the_middle_of_a_large_log_is_found_with_its_line(
    world: World, tmp_path: Path
) -> None:
    log = tmp_path / "slurm-7.out"
    error = f"{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    lost = "".join(f"frame #{n}: c10::Error::Error\n" for n in range(9000))
    log.write_text(STEPS + error + lost + "srun: error: n2: task 0: Exited with exit code 1\n")
    found = diagnose(world, [str(log)])
    assert found.cause is not None
    assert found.cause.kind == "gpu_memory"
    assert found.cause.line == 60_004


def test_a_folder_of_ranks_names_the_rank_whose_own_error_it_is(
    world: World, tmp_path: Path
) -> None:
    lost = f"{TRACE}RuntimeError: Connection closed by peer [10.0.0.2]:4711\n"
    for rank in range(4):
        own = f"{TRACE}ValueError: bad record\n" if rank == 2 else lost
        (tmp_path / f"rank_{rank}.log").write_text(f"step 1\n{own}")
    (tmp_path / "train.py").write_text("raise KeyError\n")
    found = diagnose(world, [str(tmp_path)])
    assert found.cause is not None
    assert (found.cause.kind, found.cause.rank) == ("exception", 2)
    assert found.cause.consequences == ("3 ranks lost the connection to it",)
    assert found.files == 4


def test_logs_without_a_failure_give_none(world: World, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("error rate 0.3\nstep 2 loss 1.0\ndone\n")
    assert diagnose(world, [str(tmp_path)]).cause is None


def test_what_is_neither_a_run_nor_a_path_is_said(world: World, tmp_path: Path) -> None:
    with pytest.raises(Missing, match="no such file or folder"):
        diagnose(world, [str(tmp_path / "gone" / "log")])
    with pytest.raises(Missing):
        diagnose(world, ["nothing-of-that-name"])


def test_logs_of_two_jobs_are_not_told_as_one(world: World, tmp_path: Path) -> None:
    first, newest = tmp_path / "slurm-7.out", tmp_path / "slurm-12.out"
    for log in (first, newest):
        log.write_text(f"{TRACE}KeyError: 'labels'\n")
    for words in ([str(first), str(newest)], [str(tmp_path)]):
        with pytest.raises(
            Usage, match=r"slurm-7.out is of job 7, .*slurm-12.out of job 12"
        ) as said:
            diagnose(world, words)
        assert said.value.problems[0].hint.endswith(f"jobgen diagnose {newest}")
    assert diagnose(world, [str(newest)]).cause is not None


@pytest.mark.parametrize(
    "names",
    [
        ("rank_1.log", "rank_1023.log"),
        ("slurm-7.out", "slurm-7.err"),
        ("train-81234_0.out", "train-81234_1.out"),
        ("node-1001.log", "node-1002.log"),
    ],
)
def test_logs_of_one_job_are_read_together(
    world: World, tmp_path: Path, names: tuple[str, str]
) -> None:
    for name in names:
        (tmp_path / name).write_text(f"{TRACE}KeyError: 'labels'\n")
    assert diagnose(world, [str(tmp_path)]).files == 2
    assert diagnose(world, [str(tmp_path / name) for name in names]).files == 2


def test_what_slurm_wrote_tells_jobs_apart(world: World, tmp_path: Path) -> None:
    for name, job in (("a.log", 41), ("b.log", 42)):
        end = f"slurmstepd: error: *** STEP {job}.0 ON n1 CANCELLED AT 2026-11-26T01:02:03 ***\n"
        (tmp_path / name).write_text(TRACE + "KeyError: 'x'\n" + end)
    with pytest.raises(Usage, match="of job 41"):
        diagnose(world, [str(tmp_path / "a.log"), str(tmp_path / "b.log")])


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("job", "text", "command"),
    [
        ("run: train.py --micro-batch-size 4\n", "set --micro-batch-size 1 in run, job.yaml:2", ""),
        (
            "run: train.py\ntrain: {framework: hf-trainer, micro_batch: 4}\n",
            "set train.micro_batch: 1, job.yaml:3",
            "",
        ),
        ("run: other.py --micro-batch-size 4\n", "set the batch size per GPU to 1", ""),
        ("run: [\n", "set the batch size per GPU to 1", ""),
        (
            "cluster: a100x16\nrun: train.py\ntrain: {framework: hf-trainer, strategy: ddp}\n",
            "--per_device_train_batch_size 1; ",
            "jobgen submit job.yaml --set train.micro_batch=1",
        ),
    ],
)
def test_the_job_file_of_the_folder_says_how_the_program_of_a_log_is_changed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, text: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(f"name: llama\n{job}time: 1h\nnodes: 1\n")
    (tmp_path / "train.py").write_text("from transformers import HfArgumentParser\n")
    (tmp_path / "hf.log").write_text(TRACE + OUT_OF_MEMORY)
    found = diagnose(world, ["hf.log"])
    smaller = next(fix for fix in found.remedies if "keep the batch" in fix.text)
    assert smaller.text.startswith(text)
    assert smaller.command == command


def test_the_cluster_that_is_asked_for_is_that_of_the_job_file(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train = "train: {framework: hf-trainer, strategy: ddp}\n"
    (tmp_path / "job.yaml").write_text(f"name: llama\nrun: train.py\ntime: 1h\nnodes: 1\n{train}")
    (tmp_path / "train.py").write_text("from transformers import HfArgumentParser\n")
    (tmp_path / "hf.log").write_text(TRACE + OUT_OF_MEMORY)
    found = diagnose(world, ["hf.log"], "a100x16")
    assert any("-c a100x16" in fix.command for fix in found.remedies)


def test_a_job_file_of_another_framework_is_not_that_of_the_log(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = "name: llama\nrun: train.py --per_device_train_batch_size 4\ntime: 1h\nnodes: 1\n"
    (tmp_path / "job.yaml").write_text(f"{job}train: {{framework: hf-trainer}}\n")
    trace = TRACE.replace("train.py", "/e/torchtitan/torchtitan/train.py")
    (tmp_path / "titan.log").write_text(trace + OUT_OF_MEMORY)
    found = diagnose(world, ["titan.log"])
    assert found.remedies[0].text.startswith("set --training.local_batch_size 1")
