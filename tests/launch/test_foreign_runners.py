"""``docker run`` and ``conda run`` in ``run:``: the keys that do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobgen.cli.main import run as run_command
from jobgen.launch.foreign_runners import suggest_keys
from jobgen.load import check

Lint = Callable[[str], str]


@pytest.fixture
def lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lint:
    """What ``lint`` says of errors in a job on two nodes with these keys, in one line."""

    def say(keys: str) -> str:
        text = f"name: x\ncluster: a100x16\nnodes: 2\ntime: 1h\n{keys}"
        (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        assert run_command(["lint", "job.yaml"]) == 3
        return " ".join(capsys.readouterr().out.replace("|", " ").split())

    return say


RUNS = {
    "docker run img python train.py --lr 1": (
        "write run: python train.py --lr 1 and container: {image: img, runtime: docker}"
    ),
    "docker run --rm --gpus all -v /data:/data:ro -v $PWD:/w nvcr.io/x:1 python train.py": (
        "write run: python train.py and "
        "container: {image: nvcr.io/x:1, runtime: docker, mounts: [/data:/data:ro]}"
    ),
    "singularity exec --nv --bind=/data x.sif python -m pkg.train": (
        "write run: python -m pkg.train and "
        "container: {image: x.sif, runtime: apptainer, mounts: [/data]}"
    ),
    "enroot start img python train.py": "write run: python train.py and container: img",
    "docker run img mytool": (
        "write the program alone and set container: {image: IMAGE, runtime: docker} and "
        "launcher: srun, one process per rank"
    ),
    "apptainer exec x.sif mytool": (
        "write the program alone and set container: {image: x.sif, runtime: apptainer} and "
        "launcher: srun, one process per rank"
    ),
    "conda run -n llm python train.py": (
        "write run: python train.py and setup: source PATH/bin/activate llm"
    ),
    "uv run python train.py": "write run: python train.py and setup: source PATH/bin/activate",
    "bash train.sh": "",
    "echo docker run img": "",
}


@pytest.mark.parametrize("run", RUNS)
def test_a_command_that_enters_something_is_led_to_its_key(run: str) -> None:
    assert suggest_keys(run) == RUNS[run]


@pytest.mark.parametrize("run", [run for run in RUNS if " run: " in RUNS[run]])
def test_the_keys_can_be_written(run: str) -> None:
    program, _, key = RUNS[run].removeprefix("write run: ").partition(" and ")
    job = f"name: a\nnodes: 2\ntime: 1h\nrun: {program}\n{key}\n"
    assert [p for p in check(job, "job.yaml").problems if p.severity == "error"] == []


@pytest.mark.parametrize(
    ("run", "keys"),
    [
        ("uv run torchrun train.py", "{type: torchrun, command: uv run torchrun}"),
        (
            "uv run --extra gpu python -m torch.distributed.run train.py",
            "{type: torchrun, command: uv run --extra gpu torchrun}",
        ),
        (
            "poetry run accelerate launch --config_file c.yaml train.py",
            "{type: accelerate, command: poetry run accelerate, config: c.yaml}",
        ),
    ],
)
def test_a_launcher_of_an_environment_keeps_its_runner(run: str, keys: str, lint: Lint) -> None:
    screen = lint(f"run: {run}\n")
    assert f"write 'train.py' and set launcher: {keys}" in screen
    assert "bin/activate" not in screen


def test_the_advice_for_multi_prog_is_groups(lint: Lint) -> None:
    screen = lint("run: ./programs\nlauncher: {type: srun, args: [--multi-prog]}\n")
    assert "set groups instead" in screen


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        ("srun torchrun --nproc-per-node 4 train.py", "'train.py' and set gpus_per_node: 4"),
        (
            "srun -N 2 uv run accelerate launch train.py",
            "'train.py' and set launcher: {type: accelerate, command: uv run accelerate}",
        ),
        (
            "srun singularity exec --nv /x/image.sif torchrun --nnodes 1 train.py",
            "'train.py' and set nodes: 1 and container: {image: /x/image.sif, runtime: apptainer}",
        ),
    ],
)
def test_the_launcher_inside_srun_is_the_one_to_set(run: str, advice: str, lint: Lint) -> None:
    screen = lint(f"run: {run}\n")
    assert f"write {advice}" in screen
