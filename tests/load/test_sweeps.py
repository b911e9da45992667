"""Sweeps in job.yaml: which variables they set, and where these may be used."""

from __future__ import annotations

import pytest

from jobgen.errors import Diagnostic, Invalid
from jobgen.load import load_job
from jobgen.model.job import JobSpec

BASE = "name: scan\nnodes: 1\ntime: 1h\n"
GRID = "sweep: {grid: {LR: [1e-5, 3e-5], SEED: [0, 1]}}\n"
RUN = "run: train.py --lr ${LR} --seed $SEED\n"


def load(text: str) -> JobSpec:
    return load_job(BASE + text, "job.yaml").value


def problem(text: str) -> Diagnostic:
    with pytest.raises(Invalid) as caught:
        load(text)
    (one,) = caught.value.problems
    return one


def test_values_arrive_as_written_and_run_keeps_its_variables() -> None:
    job = load(GRID + RUN)
    assert job.sweep is not None
    assert dict(job.sweep.grid) == {"LR": ("1e-5", "3e-5"), "SEED": ("0", "1")}
    assert (job.run, job.sweep.format_indexes()) == ("train.py --lr ${LR} --seed $SEED", "0-3")


def test_env_and_the_checkpoint_directory_take_the_value_of_the_element() -> None:
    more = "env: {WANDB_NAME: 'lr-${LR}'}\ncheckpoint: {dir: '/scratch/${LR}/ckpt'}\n"
    job = load(GRID + RUN + more)
    assert job.env == {"WANDB_NAME": "lr-$LR"}
    assert job.checkpoint is not None
    assert job.checkpoint.dir == "/scratch/$LR/ckpt"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("labels: {rate: '${LR}'}\n", "labels.rate: ${LR} differs between elements; labels cannot"),
        ("env: {A: '${LR}x'}\n", "env.A: ${LR} ends where the shell's $LR does not"),
    ],
)
def test_elsewhere_a_variable_of_the_sweep_is_refused(more: str, says: str) -> None:
    found = problem(GRID + RUN + more)
    assert (found.code, found.message) == ("J149", says)
    assert found.place is not None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"{GRID}{RUN}array: 0-3\n", "J138"),
        (f"{GRID}{RUN}vars: {{LR: 1}}\n", "J138"),
        (f"{GRID}{RUN}env: {{SEED: 1}}\n", "J138"),
        ("sweep: {grid: {rank: [0, 1]}}\nrun: train.py\n", "J126"),
        ("sweep: {zip: {JOBGEN_NAME: [0, 1]}}\nrun: train.py\n", "J126"),
        ("sweep: {list: [{SLURM_JOB_ID: 1}]}\nrun: train.py\n", "J126"),
        ("sweep: {random: {samples: 2, values: {BASH_ENV: [a]}}}\nrun: train.py\n", "J126"),
        ("sweep: {grid: {A: ['b c']}}\nrun: train.py\n", "J148"),
        ("sweep: {LR: [1, 2]}\nrun: train.py\n", "J102"),
    ],
)
def test_what_a_sweep_cannot_be_is_refused_at_its_line(text: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        load(text)
    assert code in {problem.code for problem in caught.value.problems}


PACKED = "sweep: {grid: {LR: [1e-5, 3e-5]}, pack: {gpus: 1}}\nrun: train.py\n"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("array: 0-3\n", "array and sweep exclude each other"),
        ("monitor: 30s\n", "monitor and sweep.pack exclude each other"),
        ("checkpoint: {requeue: true}\n", "checkpoint.requeue and sweep.pack exclude each other"),
        ("checkpoint: {grace: 2m}\n", "checkpoint.grace and sweep.pack exclude each other"),
        ("preflight: full\n", "preflight: full and sweep.pack exclude each other"),
    ],
)
def test_keys_of_whole_nodes_do_not_go_with_a_packed_sweep(more: str, says: str) -> None:
    found = problem(PACKED + more)
    assert found.code == "J138"
    assert found.message.startswith(says)


def test_a_packed_sweep_may_have_a_checkpoint_directory_and_no_limit() -> None:
    job = load(PACKED + "checkpoint: {dir: /scratch/ckpt}\npreflight: off\n")
    assert job.sweep is not None
    assert job.sweep.pack is not None
    assert job.sweep.pack.gpus == 1
    limited = problem(PACKED.replace("pack:", "max_parallel: 2, pack:"))
    assert (limited.code, limited.message) == (
        "J148",
        "sweep: max_parallel and pack exclude each other",
    )
