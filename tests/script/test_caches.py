"""Where compilers keep their caches: on the node, for this job, without the locks of the killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.resolve.made import CPUS, GPUS
from tests.script.job import Job
from tests.waiting import HANG

NAMES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
AMD_NAMES = (*NAMES, "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
AMD = GPUS.replace("A100-SXM4-80GB", "MI300X-192GB")
REQUEUE = "{grace: 2s, requeue: true}"

TELL = """
for name in NAMES; do echo "${!name-}"; done >"$JOBGEN_RUN_DIR/said.$RANK"
stat -c '%a %F' "${TORCH_EXTENSIONS_DIR%/*}" >>"$JOBGEN_RUN_DIR/said.$RANK"
op=$TORCH_EXTENSIONS_DIR/op.$RANK
mkdir -p "$op"
echo "$JOBGEN_RESTART" >>"$op/built"
ls "$op" >"$JOBGEN_RUN_DIR/there.$RANK"
touch "$op/lock" "$op/clock" "$JOBGEN_RUN_DIR/up.$RANK.$JOBGEN_RESTART"
"""


def made(folder: Path, program: str = "", *, cluster: str = GPUS, **keys: str) -> Job:
    names = AMD_NAMES if cluster == AMD else NAMES
    program = program or TELL.replace("NAMES", " ".join(names))
    return Job.make(
        folder, program, cluster=cluster, **{"launcher": "srun", "gpus_per_node": "2", **keys}
    )


def said(job: Job, rank: int) -> list[str]:
    return (job.folder / f"said.{rank}").read_text().splitlines()


def folders(job: Job) -> list[Path]:
    return sorted(job.tmp.iterdir())


@pytest.mark.parametrize(("cluster", "names"), [(GPUS, NAMES), (AMD, AMD_NAMES)])
def test_ranks_of_a_node_share_a_private_folder_on_it(
    tmp_path: Path, cluster: str, names: tuple[str, ...]
) -> None:
    job = made(tmp_path / "run", cluster=cluster)
    done = job.run(77)
    assert done.returncode == 0, done.stderr
    parents = []
    for rank in range(4):
        *paths, kind = said(job, rank)
        assert len(paths) == len(names)
        (parent,) = {Path(path).parent for path in paths}
        assert parent.parent == job.tmp
        assert parent.name.startswith(f"jobgen-{os.getuid()}-77-{'n1' if rank < 2 else 'n2'}-")
        assert kind == "700 directory"
        parents.append(parent)
    assert parents[0] == parents[1] != parents[2] == parents[3]


def test_the_folders_are_gone_when_the_job_has_ended(tmp_path: Path) -> None:
    job = made(tmp_path / "run")
    (job.tmp / "jobgen-of-another").mkdir()
    assert job.run().returncode == 0
    assert [path.name for path in folders(job)] == ["jobgen-of-another"]
    failed = made(tmp_path / "failed", "exit 3\n")
    assert failed.run().returncode == 3
    assert folders(failed) == []


def test_without_gpus_or_on_request_the_users_own_are_left(tmp_path: Path) -> None:
    ran = '[[ -z ${TRITON_CACHE_DIR-} ]] || touch "$JOBGEN_RUN_DIR/set"\n'
    jobs = [
        made(tmp_path / "keep", ran, caches="keep"),
        made(tmp_path / "cpus", ran, cluster=CPUS, gpus_per_node=""),
    ]
    for job in jobs:
        assert job.run().returncode == 0
        assert folders(job) == []
        assert not (job.folder / "set").exists()


def test_a_folder_that_the_job_names_wins_by_env_and_by_setup(tmp_path: Path) -> None:
    keys = {"env": "{TRITON_CACHE_DIR: /mine/t}", "setup": "export TORCHINDUCTOR_CACHE_DIR=/mine/i"}
    job = made(tmp_path / "run", **keys)
    assert job.run().returncode == 0
    assert said(job, 3)[:2] == ["/mine/t", "/mine/i"]
    assert Path(said(job, 3)[2]).is_relative_to(job.tmp)


SAVES = """
until [[ -e $JOBGEN_STOP_FILE ]]; do sleep 0.1; done
touch "$JOBGEN_STOPPED_FILE"
"""


def put_back(job: Job, restart: int, ranks: int) -> None:
    """One start that Slurm puts back into the queue: warned when all ranks are up, it stops."""
    process = job.start(7, restart)
    for rank in range(ranks):
        job.wait_for(job.folder / f"up.{rank}.{restart}")
    os.kill(process.pid, signal.SIGUSR1)
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 0, err
    assert job.state(f"requeued.{restart}").exists()


def test_a_requeued_job_finds_what_it_compiled_but_no_lock(tmp_path: Path) -> None:
    program = TELL.replace("NAMES", " ".join(NAMES)) + SAVES
    job = made(tmp_path / "run", program, checkpoint=REQUEUE)
    put_back(job, 0, ranks=4)
    assert len(folders(job)) == 2
    for rank in range(4):
        assert (job.folder / f"there.{rank}").read_text().split() == ["built"]
    put_back(job, 1, ranks=4)
    assert len(folders(job)) == 2
    for rank in range(4):
        assert (job.folder / f"there.{rank}").read_text().split() == ["built", "clock"]
        assert said(job, rank)[2].endswith(".1/extensions")


def month_old(folder: Path) -> Job:
    """A job whose first start compiled something long ago."""
    job = made(folder, TELL.replace("NAMES", " ".join(NAMES)) + SAVES, checkpoint=REQUEUE)
    put_back(job, 0, ranks=4)
    for caches in folders(job):
        os.utime(caches, (0, 0))
    return job


def test_a_job_that_is_requeued_for_weeks_keeps_what_it_compiled(tmp_path: Path) -> None:
    """What is a month old is removed, but not what this job has had for so long."""
    job = month_old(tmp_path / "run")
    put_back(job, 1, ranks=4)
    for rank in range(4):
        assert (job.folder / f"there.{rank}").read_text().split() == ["built", "clock"]
        assert said(job, rank)[-1] == "700 directory"


def test_a_node_removes_no_old_caches_of_another_node_of_its_job(tmp_path: Path) -> None:
    """As on a site whose TMPDIR is shared: n2 is held up until n1 has removed what is old."""
    job = month_old(tmp_path / "run")
    node = job.script.parent / "node.sh"
    waits = (
        "[[ $SLURM_NODEID == 0 ]] || until [[ -e $JOBGEN_RUN_DIR/up.0.1 ]]; do sleep 0.1; done\n"
    )
    assert node.read_text().count("for old in") == 1
    node.write_text(node.read_text().replace("for old in", f"{waits}for old in"))
    put_back(job, 1, ranks=4)
    for rank in range(4):
        assert (job.folder / f"there.{rank}").read_text().split() == ["built", "clock"]


def test_ranks_that_start_late_take_no_lock_of_a_rank_that_runs(tmp_path: Path) -> None:
    """Eight ranks at once on one node, after a requeue: each makes a lock as soon as it runs."""
    program = """
lock=$TORCH_EXTENSIONS_DIR/op.$RANK/lock
mkdir -p "${lock%/*}"
[[ ! -e $lock ]] || touch "$JOBGEN_RUN_DIR/stale.$RANK"
: >"$lock"
touch "$JOBGEN_RUN_DIR/up.$RANK.$JOBGEN_RESTART"
"""
    program += SAVES + '[[ -e $lock ]] || touch "$JOBGEN_RUN_DIR/lost.$RANK"\n'
    keys = {"nodes": "1", "gpus_per_node": "8", "checkpoint": REQUEUE}
    job = made(tmp_path / "run", program, **keys)
    job.hosts = ("n1",)
    for restart in range(3):
        put_back(job, restart, ranks=8)
        (folder,) = folders(job)
        assert len(list(folder.rglob("lock"))) == 8
        assert not [*job.folder.glob("lost.*"), *job.folder.glob("stale.*")]


def test_a_rank_that_is_held_up_while_it_looks_takes_no_lock(tmp_path: Path) -> None:
    """Rank 1 has seen no folder; before it goes on, rank 0 has made it and compiles in it."""
    program = TELL.replace("NAMES", " ".join(NAMES)) + SAVES
    program += '[[ -e $op/lock ]] || touch "$JOBGEN_RUN_DIR/lost.$RANK"\n'
    job = made(tmp_path / "run", program, nodes="1", checkpoint=REQUEUE)
    job.hosts = ("n1",)
    put_back(job, 0, ranks=2)
    node = job.script.parent / "node.sh"
    waits = (
        "[[ $SLURM_PROCID == 0 ]] || until [[ -e $JOBGEN_RUN_DIR/up.0.1 ]]; do sleep 0.1; done\n"
    )
    assert node.read_text().count("for old in") == 1
    node.write_text(node.read_text().replace("for old in", f"{waits}for old in"))
    put_back(job, 1, ranks=2)
    assert not list(job.folder.glob("lost.*"))
    assert len(folders(job)) == 1


@pytest.mark.parametrize("kind", ["link", "file", "stranger"])
def test_what_somebody_else_put_in_the_way_is_not_used(tmp_path: Path, kind: str) -> None:
    if kind == "stranger" and os.getuid():
        pytest.skip("only root can give files away")
    job = made(tmp_path / "run", nodes="1", gpus_per_node="2")
    job.hosts = ("n1",)
    assert job.run(7).returncode == 0
    taken = Path(said(job, 0)[0]).parent
    job = made(tmp_path / "other", nodes="1", gpus_per_node="2")
    job.hosts = ("n1",)
    trap, elsewhere = job.tmp / taken.name, tmp_path / "elsewhere"
    if kind == "link":
        elsewhere.mkdir()
        trap.symlink_to(elsewhere)
    elif kind == "file":
        trap.touch()
    else:
        trap.mkdir(mode=0o777)
        os.chown(trap, 65534, 65534)
    done = job.run(7)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        *paths, mode = said(job, rank)
        parent = Path(paths[0]).parent
        assert parent not in {trap, elsewhere}
        assert mode == "700 directory"
    assert not elsewhere.exists() or not list(elsewhere.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_strangers_folder_is_not_taken_for_an_earlier_start(tmp_path: Path) -> None:
    job = made(tmp_path / "run", nodes="1", checkpoint=REQUEUE)
    job.hosts = ("n1",)
    assert job.run(7).returncode == 0
    job.state("exit.0").unlink()
    planted = job.tmp / Path(said(job, 0)[0]).parent.name
    planted.mkdir()
    (planted / "lock").touch()
    os.chown(planted, 65534, 65534)
    assert job.run(7, restart=1).returncode == 0
    assert (planted / "lock").exists()
    assert Path(said(job, 0)[0]).parent.name == planted.name.removesuffix("0") + "1"


def test_leftovers_of_killed_jobs_are_removed_a_month_later(tmp_path: Path) -> None:
    job = made(tmp_path / "run")
    old, new = (job.tmp / f"jobgen-{os.getuid()}-{number}-n1-0.0" for number in (1, 2))
    for folder in (old, new):
        (folder / "extensions").mkdir(parents=True)
    for folder, days in ((old, 32), (new, 28)):
        os.utime(folder, (time.time() - days * 86400,) * 2)
    assert job.run().returncode == 0
    assert folders(job) == [new]


def test_a_disk_in_memory_is_said_once_a_node(tmp_path: Path) -> None:
    job = made(tmp_path / "run")
    real = (job.folder / "fake" / "stat").absolute()
    real.write_text(
        '#!/bin/bash\nif [[ $1 == -f ]]; then echo tmpfs; else exec /usr/bin/stat "$@"; fi\n'
    )
    real.chmod(0o755)
    done = job.run()
    lines = [line for line in done.stderr.splitlines() if "is in memory" in line]
    assert sorted(line.split()[1] for line in lines) == ["n1:", "n2:"]
    assert "is in memory" not in made(tmp_path / "disk").run().stderr


@pytest.mark.train("torch")
@pytest.mark.slow
def test_torch_takes_the_lock_that_a_killed_rank_left(tmp_path: Path) -> None:
    """The real FileBaton, in the folder in which the real cpp_extension would compile."""
    program = """
import os, torch.utils.cpp_extension as extension
from torch.utils.file_baton import FileBaton
folder = extension._get_build_directory("op", False)
assert folder.startswith(os.environ["TMPDIR"]), folder
assert FileBaton(os.path.join(folder, "lock")).try_acquire()
os.kill(os.getpid(), 9)
"""
    shell = f"{sys.executable} - <<'EOF'\n{program}\nEOF\n"
    shell += (
        'touch "$JOBGEN_RUN_DIR/code.$?.$JOBGEN_RESTART" "$JOBGEN_RUN_DIR/up.0.$JOBGEN_RESTART"\n'
    )
    keys = {"nodes": "1", "gpus_per_node": "1", "checkpoint": REQUEUE}
    job = made(tmp_path / "run", shell + SAVES, **keys)
    job.hosts = ("n1",)
    for restart in range(2):
        put_back(job, restart, ranks=1)
        assert (job.folder / f"code.137.{restart}").exists()
