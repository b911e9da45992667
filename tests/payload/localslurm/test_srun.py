"""srun: the tasks of a step, their output, and how they end together."""

from __future__ import annotations

from tests.payload.localslurm.cluster import Local


def test_every_task_finds_its_place(local: Local) -> None:
    script = (
        "#SBATCH --nodes=2 --ntasks-per-node=2\n"
        "srun bash -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURMD_NODENAME"
        " $SLURM_NTASKS $SLURM_NNODES $SLURM_STEP_ID $SLURM_TASKS_PER_NODE'\n"
        "srun --nodes=1 --ntasks=1 --cpus-per-task=3 bash -c"
        " 'echo one $SLURM_STEP_ID $SLURM_CPUS_PER_TASK'\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    assert sorted(local.log(job).splitlines()) == [
        "0 0 0 local1 4 2 0 2(x2)",
        "1 0 1 local1 4 2 0 2(x2)",
        "2 1 0 local2 4 2 0 2(x2)",
        "3 1 1 local2 4 2 0 2(x2)",
        "one 1 3",
    ]


def test_a_bad_exit_ends_the_other_tasks_and_the_highest_code_is_told(local: Local) -> None:
    script = (
        "#SBATCH --nodes=2 --ntasks-per-node=1\n"
        "srun --kill-on-bad-exit=1 bash -c '[ $SLURM_PROCID = 1 ] && exit 3; exec sleep 3600'\n"
        "echo rc=$?\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    log = local.log(job)
    assert "srun: error: local2: task 1: Exited with exit code 3\n" in log
    assert "srun: error: local1: task 0: Terminated\n" in log
    assert "rc=143\n" in log


def test_without_it_the_others_go_on(local: Local) -> None:
    script = (
        "#SBATCH --nodes=2 --ntasks-per-node=1\n"
        "srun --kill-on-bad-exit=0 bash -c '[ $SLURM_PROCID = 1 ] && exit 3; sleep 1; echo on'\n"
        "echo rc=$?\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    assert "on\n" in local.log(job)
    assert "rc=3\n" in local.log(job)


def test_wait_bounds_how_long_the_last_may_follow_the_first(local: Local) -> None:
    script = (
        "#SBATCH --nodes=2 --ntasks-per-node=1\n"
        "srun --wait=1 bash -c '[ $SLURM_PROCID = 1 ] && exit 0; exec sleep 300'\necho rc=$?\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    assert "srun: First task exited 1s ago" in local.log(job)
    assert "rc=143" in local.log(job)


def test_nothing_of_a_task_outlives_its_step(local: Local) -> None:
    script = (
        "child=$(srun bash -c 'setsid sleep 300 >/dev/null & echo $!')\n"
        "kill -0 $child 2>/dev/null && echo alive || echo gone\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    assert local.log(job) == "gone\n"


def test_lines_of_many_tasks_stay_whole(local: Local) -> None:
    script = (
        "#SBATCH --nodes=4 --ntasks-per-node=1\n"
        'srun bash -c \'for i in {1..200}; do printf "<$SLURM_PROCID"; printf ":$i>\\n"; done\'\n'
    )
    job = local.sbatch(script)
    local.wait(job)
    expected = [f"<{rank}:{n}>" for rank in range(4) for n in range(1, 201)]
    assert sorted(local.log(job).splitlines()) == sorted(expected)


def test_output_without_a_last_newline_arrives_too(local: Local) -> None:
    job = local.sbatch("srun printf 'no end'\n")
    local.wait(job)
    assert local.log(job) == "no end"


def test_labels_say_whose_line_it_is(local: Local) -> None:
    job = local.sbatch("#SBATCH --nodes=2\nsrun --label bash -c 'echo $SLURM_PROCID; echo e >&2'\n")
    local.wait(job)
    assert sorted(local.log(job).splitlines()) == ["0: 0", "0: e", "1: 1", "1: e"]


def test_tasks_can_have_files_of_their_own(local: Local) -> None:
    job = local.sbatch(
        "#SBATCH --nodes=2\nsrun --output=o-%t-%N.txt bash -c 'echo $SLURM_NODEID'\n"
    )
    local.wait(job)
    assert (local.home / "o-0-local1.txt").read_text() == "0\n"
    assert (local.home / "o-1-local2.txt").read_text() == "1\n"


def test_signals_are_passed_on_to_the_tasks(local: Local) -> None:
    script = (
        "srun bash -c 'trap \"echo got; exit 4\" USR1; touch up; while :; do sleep 0.05; done' &\n"
        "pid=$!; until [ -e up ]; do sleep 0.1; done; kill -USR1 $pid; wait $pid; echo rc=$?\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    assert "got\n" in local.log(job)
    assert "rc=4\n" in local.log(job)


def test_a_signal_reaches_every_process_of_a_task_once(local: Local) -> None:
    """As slurmstepd signals all that it keeps track of, and not the task's first process alone."""
    script = (
        "cat >child.sh <<'END'\n"
        "trap 'echo child USR1' USR1; trap 'echo child TERM; exit 5' TERM\n"
        "touch up; while :; do sleep 0.05; done\n"
        "END\n"
        "srun bash -c 'trap \"echo parent USR1\" USR1; trap : TERM; bash child.sh; exit $?' &\n"
        "until [ -e up ]; do sleep 0.05; done\n"
        "kill -USR1 $!; sleep 1; kill -TERM $!; wait $!; echo rc=$?\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    lines = [
        line for line in local.log(job).splitlines() if line.startswith(("child", "parent", "rc"))
    ]
    assert sorted(lines) == ["child TERM", "child USR1", "parent USR1", "rc=5"]


def test_export_none_takes_the_path_away_as_slurm_does(local: Local) -> None:
    script = (
        "#SBATCH --export=NONE\nexport MINE=1\nsrun bash -c 'echo never'; echo rc=$?\n"
        "export SLURM_EXPORT_ENV=ALL\nsrun bash -c 'echo got $MINE'\n"
    )
    job = local.sbatch(script)
    local.wait(job)
    assert "slurmstepd: error: execve(): bash: No such file or directory" in local.log(job)
    assert "rc=2\n" in local.log(job)
    assert "got 1\n" in local.log(job)


def test_a_job_that_asked_for_no_gpu_sees_none(local: Local) -> None:
    job = local.sbatch("srun bash -c 'echo \"[$CUDA_VISIBLE_DEVICES]\"'\n")
    local.wait(job)
    assert local.log(job) == "[]\n"


def test_outside_of_a_job_srun_says_so(local: Local) -> None:
    said = local.run("srun", "true", env={"SLURM_JOB_ID": ""})
    assert said.code == 1
    assert "works inside a job only" in said.err
