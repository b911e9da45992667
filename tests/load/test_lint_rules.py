"""Rules about valid files."""

from __future__ import annotations

import pytest

from jobgen.load import check
from tests.load.test_jobs import load, problem, warned


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ("env: {NCCL_SOCKET_IFNAMES: ib0}", ["J303"]),
        ("env: {NCCL_AGG_CHANNEL_SIZE: 1}", ["J310"]),
        ("nccl: {env: {NCCL_IB_TIMEOUTS: 22}}", ["J303"]),
        ("env: {NCCL_TIMEOUT: 1800}", ["J304"]),
        ("env: {NCCL_HOME: /opt}", ["J304"]),
        ("env: {NCCL_DEBUG: VERBOSE}", ["J304"]),
        ("env: {NCCL_DEBUG: WARN, NCCL_IB_HCA: mlx5_0}", []),
        ("env: {GLOO_IFNAME: eth0}", ["J304"]),
        ("env: {NCCL_DEBUG: INFO}", ["J308"]),
        ("env: {CUDA_LAUNCH_BLOCKING: 1}", ["J308"]),
        ("env: {LD_PRELOAD: /x.so}", ["J302"]),
        ("setup: '#SBATCH --mem=0'", ["J307"]),
        ("secrets: [A]\nsetup: set -euxo pipefail", ["J305"]),
        ("secrets: [A]\nsetup: set -eu", []),
        ("setup: set -x", []),
    ],
)
def test_habits_are_pointed_out(more: str, codes: list[str]) -> None:
    assert warned(more) == codes


@pytest.mark.parametrize(
    ("more", "run", "codes"),
    [
        ("setup: [LR=1, 'A=(1 2)', export B=2]", "t.py $LR ${A[$B]} $B", ["J168", "J168"]),
        ("setup: {rank: LR=1}", "t.py --lr=$LR", ["J168"]),
        ("setup: export A=(1 2)", "t.py ${A[0]}", ["J168"]),
        ("setup: [LR=1, export LR]", "t.py $LR", []),
        ("setup: [set -a, LR=1]", "t.py $LR", []),
        ("setup: LR=1", "LR=2; t.py $LR", []),
        ("setup: LR=1\nenv: {LR: 2}", "t.py $LR", []),
        ("setup: LR=1", "t.py '$LR' $OTHER", []),
        ("setup: PATH=/opt/bin:$PATH", "t.py $PATH", []),
        ("setup: A=1\nlauncher: {type: torchrun, args: [--log-dir=$A]}", "t.py", []),
    ],
)
def test_a_variable_of_setup_that_run_does_not_get_is_pointed_out(
    more: str, run: str, codes: list[str]
) -> None:
    assert warned(more, run=run) == codes


def test_node_rank_is_judged_only_where_torchrun_could_be_meant() -> None:
    assert warned(run="NODE_RANK=1 python t.py", launcher="torchrun") == ["J304"]
    for launcher in ("plain", "srun", "{type: plain}"):
        assert warned(run="NODE_RANK=1 python t.py", launcher=launcher) == []


def test_a_command_in_an_argument_of_the_launcher_is_pointed_out() -> None:
    for args in ("args", "srun_args"):
        assert warned(launcher=f"{{type: torchrun, {args}: ['--comment=$(hostname)']}}") == ["J161"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("SLURM_CPU_BIND", "launcher: {type: srun, args: [--cpu-bind=cores]}"),
        ("SLURM_HOSTFILE", "args: [--distribution=arbitrary, --nodelist=FILE]"),
        ("SLURM_JOB_ID", "remove it"),
    ],
)
def test_a_variable_that_srun_reads_leads_to_its_option(name: str, remedy: str) -> None:
    found = problem(f"env: {{{name}: cores}}")
    assert found.code == "J126"
    assert remedy in found.hint


def test_names_that_switch_something_off_are_pointed_out() -> None:
    assert warned(name="interactive") == ["J301"]


def test_a_finding_has_a_place_and_a_remedy() -> None:
    (found,) = load("env: {NCCL_SOCKET_IFNAMES: ib0}").warnings
    assert found.hint == "did you mean 'NCCL_SOCKET_IFNAME'?"
    assert found.place
    assert found.place.line == 6


def test_a_variable_that_a_step_does_not_get_is_pointed_at() -> None:
    steps = "steps: [{run: a.py}, {name: eval, run: b.py $LR, env: {}}]"
    job = f"name: a\nnodes: 2\ntime: 1h\nsetup:\n  - module load x\n  - LR=1\n{steps}\n"
    (found,) = (p for p in check(job, "job.yaml").problems if p.code == "J168")
    assert found.message == "setup[1]: LR is not exported, so steps[1].run does not get it"
    assert found.place
    assert (found.place.line, found.place.col) == (6, 5)


def test_a_wrong_name_of_a_variable_is_pointed_at_and_a_wrong_value_too() -> None:
    job = (
        "name: a\nnodes: 2\ntime: 1h\nrun: train.py\nenv:\n  NCCL_DEBG: INFO\n  NCCL_DEBUG: infoo\n"
    )
    found = {p.code: p for p in check(job, "job.yaml").problems}
    name, value = found["J303"].place, found["J320"].place
    assert name is not None
    assert value is not None
    assert (name.line, name.col, name.end_col) == (6, 3, 12)
    assert (value.line, value.col) == (7, 15)
    assert found["J320"].severity == "warning"  # NCCL would log nothing at all
