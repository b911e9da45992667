"""``docker run`` and ``conda run`` in ``run:``: the keys that do it."""

from __future__ import annotations

import pytest

from jobgen.launch.foreign_runners import suggest_keys
from jobgen.load import check

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
