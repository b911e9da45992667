"""What a rank finds: its world, its environment, its files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.payload.rank_script import build_rank_script
from tests.resolve.made import CPUS, GPUS
from tests.script.job import Job
from tests.waiting import HANG

TELL = """
env -0 >"$JOBGEN_RUN_DIR/env.$RANK"
printf '%s\\0' "$@" >"$JOBGEN_RUN_DIR/args.$RANK"
pwd >"$JOBGEN_RUN_DIR/pwd.$RANK"
echo "out $RANK"
echo "err $RANK" >&2
"""

DEEPSPEED = """#!/bin/bash
# as launcher/launch.py: whatever was visible, the ranks see the GPUs 0, 1 ...
while [[ $1 == --* ]]; do shift; done
export CUDA_VISIBLE_DEVICES=0 RANK=$SLURM_NODEID WORLD_SIZE=2 LOCAL_RANK=0
exec "$@"
"""


def environment(job: Job, rank: int) -> dict[str, str]:
    items = (job.folder / f"env.{rank}").read_bytes().decode().split("\0")
    return dict(item.split("=", 1) for item in items if item)


def test_every_rank_knows_its_world_and_the_run(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL, procs_per_node="2")
    done = job.run(12345)
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        env = environment(job, rank)
        assert (env["RANK"], env["LOCAL_RANK"]) == (str(rank), str(rank % 2))
        assert (env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == ("4", "2")
        assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("n1", "22345")
        assert env["JOBGEN_TOKEN"] == job.token
        assert env["JOBGEN_RUN_DIR"] == str(job.folder)
        assert env["JOBGEN_WORLD_SIZE"] == "4"
        assert (job.folder / f"pwd.{rank}").read_text().strip() == str(job.folder / "src")


@pytest.mark.parametrize(
    ("nodes", "each", "share"),
    [
        ("64(x2)", "64", "16"),
        ("128,64(x3)", "64", "16"),
        ("8(x2),104", "8", "2"),
        ("26", "26", "6"),
    ],
)
def test_ranks_share_the_cpus_of_the_node_that_has_the_fewest(
    tmp_path: Path, nodes: str, each: str, share: str
) -> None:
    for launcher, task in (("srun", share), ("plain", each)):
        keys = {"launcher": launcher, "procs_per_node": "4"}
        program = TELL if launcher == "srun" else TELL.replace("$RANK", "$SLURM_NODEID")
        job = Job.make(tmp_path / launcher, program, **keys)
        job.env["SLURM_JOB_CPUS_PER_NODE"] = nodes
        done = job.run()
        assert done.returncode == 0, done.stderr
        assert f" --cpus-per-task={task} " in (job.folder / "srun").read_text()
    assert environment(Job(tmp_path / "srun"), 0)["OMP_NUM_THREADS"] == share


def test_a_launcher_of_the_programs_own_finds_nothing_of_torchs(tmp_path: Path) -> None:
    """composer, and torchrun too, take such variables for the world that they are to join."""
    job = Job.make(tmp_path / "run", TELL.replace("$RANK", "$SLURM_NODEID"), launcher="plain")
    done = job.run(12345)
    assert done.returncode == 0, done.stderr
    for node in range(2):
        env = environment(job, node)
        assert not env.keys() & {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}
        assert (env["JOBGEN_NODE_RANK"], env["JOBGEN_NUM_NODES"]) == (str(node), "2")
        assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("n1", "22345")
        name = f"n{node + 1}.{node}"
        assert (job.folder / "logs/0/0" / f"{name}.out").read_text() == f"out {node}\n"
        assert job.state(f"pids/{name}").exists()
    ends = [(e.node, e.rank, e.read_number("code")) for e in job.events() if e.kind == "exit"]
    assert sorted(ends) == [("n1", 0, 0), ("n2", 1, 0)]


def test_under_plain_variables_of_the_users_own_stay(tmp_path: Path) -> None:
    setup = "[export RANK=5 WORLD_SIZE=9 LOCAL_RANK=3]"
    program = TELL.replace("$RANK", "$SLURM_NODEID")
    job = Job.make(tmp_path / "run", program, launcher="plain", setup=setup, secrets="[TOP]")
    (job.folder / "secrets.env").write_text("export TOP=1\n")
    done = job.run()
    assert done.returncode == 0, done.stderr
    env = environment(job, 1)
    assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"]) == ("5", "9", "3")
    assert "LOCAL_WORLD_SIZE" not in env
    assert env["TOP"] == "1"
    assert (job.folder / "logs/0/0/n2.1.out").read_text() == "out 1\n"


def test_a_single_rank_needs_no_launcher_and_finds_a_world_of_one(tmp_path: Path) -> None:
    """``init_process_group("env://")`` works, though nobody named a launcher."""
    job = Job.make(tmp_path / "run", TELL, launcher="{}", nodes="1")
    job.hosts = ("n1",)
    done = job.run()
    assert done.returncode == 0, done.stderr
    env = environment(job, 0)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    assert [env[name] for name in names] == ["0", "0", "1", "1"]
    assert "JOBGEN_NODE_RANK" not in env


def test_every_restart_has_a_port_and_files_of_its_own(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL, checkpoint="{grace: 2s, requeue: true}")
    job.run(9999, restart=3)
    env = environment(job, 0)
    assert 20000 <= int(env["MASTER_PORT"]) < 30000
    assert env["MASTER_PORT"] == str(20000 + (9999 + 3 * 1009) % 10000)
    assert env["JOBGEN_RESTART"] == "3"
    assert (job.folder / "logs" / "0" / "3" / "n2.1.out").read_text() == "out 1\n"


def test_by_hand_rank_0_speaks_in_the_jobs_log_too(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL, token=False)
    done = job.run()
    logs = job.folder / "logs" / "7" / "0"
    assert (logs / "n2.1.out").read_text() == "out 1\n"
    assert (logs / "n2.1.err").read_text() == "err 1\n"
    assert str((logs / "rank0.out").readlink()) == "n1.0.out"
    assert done.stdout == "out 0\n"
    assert done.stderr == "err 0\n"


def test_every_byte_of_a_rank_arrives(tmp_path: Path) -> None:
    program = "for i in {1..20000}; do printf 'line %s \\xff\\x00\\r\\n' $i; done\n"
    job = Job.make(tmp_path / "run", f"{program}[[ $RANK == 0 ]] || kill -9 $$\n")
    assert job.run().returncode == 137
    wanted = b"".join(b"line %d \xff\x00\r\n" % i for i in range(1, 20001))
    assert (job.folder / "logs" / "0" / "0" / "n2.1.out").read_bytes() == wanted


@pytest.mark.parametrize("cluster", [CPUS, GPUS])
@pytest.mark.parametrize("given", ["4,7", "GPU-1a2b", "", None])
def test_under_deepspeed_a_rank_sees_the_gpus_that_slurm_gave_and_no_others(
    tmp_path: Path, cluster: str, given: str | None
) -> None:
    ranks = "gpus_per_node" if cluster is GPUS else "procs_per_node"
    keys = {"launcher": "deepspeed", ranks: "1"}
    job = Job.make(tmp_path / "run", TELL, cluster=cluster, **keys)
    launcher = job.folder / "fake" / "deepspeed"
    launcher.write_text(DEEPSPEED)
    launcher.chmod(0o755)
    if given is not None:
        job.env["CUDA_VISIBLE_DEVICES"] = given
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert [environment(job, rank).get("CUDA_VISIBLE_DEVICES") for rank in (0, 1)] == [given] * 2


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("4,7", ["4", "4", "7", "7"]),
        ("GPU-1a2b,GPU-3c4d", ["GPU-1a2b", "GPU-1a2b", "GPU-3c4d", "GPU-3c4d"]),
        (None, ["0", "0", "1", "1"]),
    ],
)
def test_of_several_ranks_per_gpu_each_sees_the_one_that_it_shares(
    tmp_path: Path, given: str | None, seen: list[str]
) -> None:
    keys = {"gpus_per_node": "2", "ranks_per_gpu": "2"}
    job = Job.make(tmp_path / "run", TELL, cluster=GPUS, **keys)
    if given is not None:
        job.env["CUDA_VISIBLE_DEVICES"] = given
    done = job.run()
    assert done.returncode == 0, done.stderr
    ranks = [environment(job, rank) for rank in range(8)]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in ranks] == seen * 2
    assert [env["LOCAL_RANK"] for env in ranks] == ["0", "1", "2", "3"] * 2
    assert {env["LOCAL_WORLD_SIZE"] for env in ranks} == {"4"}


def test_amd_gpus_are_shared_by_their_own_variable(tmp_path: Path) -> None:
    amd = GPUS.replace("A100-SXM4-80GB", "MI300X")
    keys = {"gpus_per_node": "2", "ranks_per_gpu": "2"}
    job = Job.make(tmp_path / "run", TELL, cluster=amd, **keys)
    job.env["HIP_VISIBLE_DEVICES"] = "3,5"
    done = job.run()
    assert done.returncode == 0, done.stderr
    seen = [environment(job, rank)["HIP_VISIBLE_DEVICES"] for rank in range(8)]
    assert seen == ["3", "3", "5", "5"] * 2


def test_a_rank_whose_gpu_is_hidden_names_it(tmp_path: Path) -> None:
    keys = {"gpus_per_node": "2", "ranks_per_gpu": "2"}
    job = Job.make(tmp_path / "run", TELL, cluster=GPUS, **keys)
    job.env["CUDA_VISIBLE_DEVICES"] = "4"
    done = job.run()
    assert done.returncode == 97
    assert "local rank 2 needs GPU 2 of its node, but sees 1" in done.stderr


def test_a_rank_leaves_the_pid_of_the_program_itself(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", 'echo $$ >"$JOBGEN_RUN_DIR/pid.$RANK"\n')
    job.run()
    said = (job.folder / "pid.1").read_text()
    assert job.state("pids/n2.1").read_text() == said


def test_the_words_of_run_reach_the_program_as_bash_reads_them(tmp_path: Path) -> None:
    run = '|\n  ./program "$RANK of $WORLD_SIZE" \'a  $b\' "it\'s" x\\ y $EMPTY *.none'
    job = Job.make(tmp_path / "run", TELL, run=run, env='{EMPTY: ""}')
    done = job.run()
    assert done.returncode == 0, done.stderr
    got = (job.folder / "args.1").read_bytes().decode().split("\0")[:-1]
    assert got == ["1 of 2", "a  $b", "it's", "x y", "*.none"]


def test_a_world_of_the_wrong_size_ends_at_once(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL)
    job.env["JOBGEN_TEST"] = "1"
    text = job.script.read_text().replace("--ntasks=2", "--ntasks=1")
    job.script.write_text(text)
    done = job.run()
    assert done.returncode == 97
    assert "world size is 1, but the job has 2 ranks" in done.stderr


def test_a_folder_with_blanks_and_quotes_in_its_name_works(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "it's a run $dir", TELL)
    assert job.run().returncode == 0
    assert (job.folder / "args.1").exists()


def test_setup_runs_before_the_ranks_and_is_seen_by_them(tmp_path: Path) -> None:
    setup = "[\"export FROM_SETUP='a b'\", 'cd ..', \"source /dev/null\"]"
    job = Job.make(tmp_path / "run", TELL, setup=setup, run='"$JOBGEN_WORK_DIR/program"')
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert environment(job, 1)["FROM_SETUP"] == "a b"


def test_a_setup_line_that_fails_ends_the_job_and_names_itself(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL, setup='["true", "cat no-such-file", "true"]')
    done = job.run()
    assert done.returncode == 1
    assert "n1: setup failed: cat no-such-file" in done.stderr
    assert re.search("n[12] failed before its ranks started, with exit code 1", done.stderr)
    assert not (job.folder / "env.0").exists()


def test_a_setup_line_may_fail_where_it_says_so_and_inside_the_sites_files(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL, setup='["false || true", "source ../site.sh"]')
    (job.folder / "site.sh").write_text('false\necho "${unset_name}"\n[ -n "" ] && echo x\ntrue\n')
    assert job.run().returncode == 0


def test_variables_that_are_not_set_are_told_before_anything_runs(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", TELL, env="{DATA: $NO_SUCH_DIR/data}")
    done = job.run()
    assert done.returncode != 0
    assert "NO_SUCH_DIR: unbound variable" in done.stderr
    assert not (job.folder / "srun").exists()


def test_apptainer_and_docker_run_the_same_node_script_inside(tmp_path: Path) -> None:
    for runtime in ("apptainer", "docker"):
        container = (
            f"{{image: img.sif, runtime: {runtime}, mounts: ['/data:/d:ro', '/a b:/c', '.:/w']}}"
        )
        network = "network: {fabric: ethernet, socket_ifname: eth0}\n"
        cluster = CPUS.replace("network: {fabric: ethernet}\n", network)
        job = Job.make(
            tmp_path / runtime, TELL, cluster=cluster, container=container, env="{A: '1 2'}"
        )
        fake = job.folder / "fake" / runtime
        fake.write_text(
            '#!/bin/bash\nprintf "%s\\n" "$@" >"$FAKE_DIR/words"\n'
            'while [[ $1 != img.sif ]]; do shift; done\n"${@:2}"\n'
        )
        fake.chmod(0o755)
        done = job.run()
        assert done.returncode == 0, done.stderr
        words = (job.folder / "words").read_text().splitlines()
        mount = "--bind=" if runtime == "apptainer" else "--volume="
        assert f"{mount}/data:/d:ro" in words
        assert f"{mount}/a b:/c" in words
        assert f"{mount}{environment(job, 1)['JOBGEN_WORK_DIR']}:/w" in words
        assert any(w.startswith(f"{mount}{job.folder}") for w in words)
        assert environment(job, 1)["A"] == "1 2"
        if runtime == "docker":
            named = {w.removeprefix("--env=") for w in words if w.startswith("--env=")}
            assert {"A", "RDZV_ID", "SLURM_NODEID", "GLOO_SOCKET_IFNAME"} <= named


def test_a_rank_that_slurm_cannot_end_looks_for_itself(tmp_path: Path) -> None:
    """Over ssh, or below docker's daemon: when one rank fails, or the run is cancelled."""
    fails = "[[ $RANK != 1 ]] || { sleep 0.5; exit 7; }\nexec sleep 3600\n"
    job = guarded(Job.make(tmp_path / "run", fails))
    assert job.run().returncode == 7
    assert job.state("failed.0").exists()

    waits = Job.make(tmp_path / "other", 'touch "$JOBGEN_RUN_DIR/up.$RANK"; exec sleep 3600\n')
    guarded(waits)
    process = waits.start()
    waits.wait_for(waits.folder / "up.1")
    (waits.folder / "cancel").touch()
    process.communicate(timeout=HANG)
    assert process.returncode == 143


def guarded(job: Job) -> Job:
    """The job with all blocks of rank.sh, and ranks that guard themselves."""
    (job.folder / "bundle" / "rank.sh").write_text(build_rank_script())
    job.env |= {"JOBGEN_GUARD": "1", "JOBGEN_STEP": "train"}
    return job
