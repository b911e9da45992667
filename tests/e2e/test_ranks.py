"""How ranks end on a real cluster, under every launcher: who failed first, which signals arrive,
and that no program outlives its rank.sh."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, processes
from tests.cluster.layout import REPOSITORY
from tests.e2e.runs import LAUNCHERS, Run, answer, submit, write
from tests.waiting import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.train("torch", "deepspeed", "accelerate"),
    pytest.mark.slow,
    pytest.mark.timeout(420),
]

OBEYS = """
import os, signal, sys, time
from pathlib import Path
here = Path(os.environ["JOBGEN_RUN_DIR"])
rank = os.environ.get("JOBGEN_NODE_RANK") or os.environ["RANK"]
came = []
def note(number, _):
    came.append(signal.Signals(number).name)
    (here / f"came.{rank}").write_text(" ".join(came))
if "--note" in sys.argv:
    for name in ("TERM", "INT", "USR1"):
        signal.signal(getattr(signal, "SIG" + name), note)
with (here / f"up.{rank}").open("a") as up:
    up.write(f"{os.getpid()}\\\\n")
while not (here / f"end.{rank}").exists():
    time.sleep(0.05)
(here / f"saved.{rank}").touch()
code = (here / f"end.{rank}").read_text()
(here / f"end.{rank}").unlink()
sys.exit(int(code))
"""
"""A rank that needs no torch: it ends with the exit code that it is told."""

ALL: Mapping[str, Any] = {**LAUNCHERS, "plain": "plain"}


def launchers(names: Mapping[str, Any], *few: str) -> Any:
    """A case for each launcher, a few of them for every run, the others for --full. What a killed
    rank.sh and a failing rank do to torchrun, its restarts show every time."""
    cases = [
        pytest.param(value, id=name, marks=[] if name in few else pytest.mark.exhaustive)
        for name, value in names.items()
    ]
    return pytest.mark.parametrize("launcher", cases)


def obeying(cluster: Cluster, folder: Path, run: str = "obeys.py", **keys: Any) -> Run:
    """Four ranks on two nodes (under plain two), all of them up."""
    folder.mkdir(exist_ok=True)
    (folder / "obeys.py").write_text(OBEYS.replace("\\\\n", "\\n"))
    job = {"name": "obeys", "run": run, "nodes": 2, "time": "10m", "procs_per_node": 2}
    submitted = submit(cluster, write(folder, {**job, "preflight": "off", **keys}))
    count = 2 if keys["launcher"] == "plain" else 4
    until(lambda: len(starts(submitted)) == count, "all ranks")
    return submitted


def starts(run: Run) -> dict[int, int]:
    """How often each rank's program has started."""
    files = run.directory.glob("up.*")
    return {int(file.suffix[1:]): len(file.read_text().split()) for file in files}


def end(run: Run, codes: Mapping[int, int]) -> None:
    """Let ranks end with these exit codes."""
    for rank, code in codes.items():
        run.put(f"end.{rank}", str(code))


def node(run: Run, rank: int) -> str:
    """The node on which a rank runs, or ran last."""
    files = [*(run.directory / "state/0/pids").glob(f"*.{rank}")]
    return max(files, key=lambda file: file.stat().st_mtime).stem


def shell(run: Run, rank: int) -> int:
    """The process of a rank's rank.sh, as this machine numbers it."""
    below = [p for p in run.cluster.processes_with_env(run.token) if p.host == node(run, rank)]
    shells = {p.pid for p in below if re.match(r"bash \S+/rank\.sh bash", p.command)}
    local = {pid: variables(pid) for pid in shells}
    keys = ("JOBGEN_NODE_RANK", "OMPI_COMM_WORLD_RANK", "RANK")
    key = next(key for key in keys if any(key in v for v in local.values()))
    (found,) = [p for p in shells if local[p].get(key) == str(rank) and parent(p) not in shells]
    return found


def variables(pid: int) -> dict[str, str]:
    words = processes.read(pid, "environ").decode(errors="replace").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def parent(pid: int) -> int:
    """The process above it; 0 where it has ended since it was listed."""
    words = processes.read(pid, "stat").rpartition(b")")[2].split()
    return int(words[1]) if words else 0


def below(run: Run, pid: int) -> set[int]:
    """All that runs below a process."""
    everyone = {p.pid: parent(p.pid) for p in run.cluster.processes_with_env(run.token)}
    found = {pid}
    while more := {p for p, above in everyone.items() if above in found and p not in found}:
        found |= more
    return found - {pid}


@launchers(ALL, "srun", "mpirun")
def test_the_jobs_exit_code_is_that_of_the_rank_that_failed_first(
    cluster: Cluster, tmp_path: Path, launcher: Any
) -> None:
    run = obeying(cluster, tmp_path / "job", launcher=launcher)
    where = node(run, 1)
    end(run, {1: 7})
    waited = run.jobgen("wait")
    assert waited.returncode == 1, waited.stderr
    assert f"rank 1 on {where} failed first (exit code 7)\n" in waited.stdout
    assert f"jobgen logs {run.id} --rank 1 --stderr -n 50\n" in waited.stdout
    shown = answer(run.jobgen("show", "--json"))["job"]
    assert (shown["state"], shown["exit"]) == ("FAILED", "7:0"), run.story()
    first = {"start": 1, "node": where, "rank": 1, "code": 7, "signal": 0, "task": "0"}
    assert shown["failures"][0] == first
    assert f"rank 1 on {where} failed first (exit code 7)\n" in run.jobgen("show").stdout
    assert cluster.job(run.job)["ExitCode"] == "7:0"


@launchers(ALL, "srun")
def test_no_program_outlives_a_rank_sh_that_was_killed(
    cluster: Cluster, tmp_path: Path, launcher: Any
) -> None:
    """Of several commands, too: the kernel ends the shell that runs them, and not what it runs."""
    run = obeying(cluster, tmp_path / "job", run="true\nobeys.py --note", launcher=launcher)
    victim = shell(run, 1)
    gone = below(run, victim)
    assert len(gone) >= 2
    os.kill(victim, signal.SIGKILL)
    until(lambda: not any(map(processes.started, gone)), "the end of what it started")
    others = [rank for rank in starts(run) if rank != 1]
    end(run, dict.fromkeys(others, 0))
    assert run.wait() == 1, run.story()
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")
    assert not (run.directory / "saved.1").exists()


def test_torchrun_starts_ranks_again_only_when_the_former_have_gone(
    cluster: Cluster, tmp_path: Path
) -> None:
    launcher = {"type": "torchrun", "max_restarts": 1}  # of each node
    run = obeying(cluster, tmp_path / "job", run="true\nobeys.py", launcher=launcher)
    victim = shell(run, 1)
    gone = {
        pid: processes.started(pid) for rank in range(4) for pid in below(run, shell(run, rank))
    }
    os.kill(victim, signal.SIGKILL)
    until(lambda: [*starts(run).values()] == [2] * 4, "the second start")
    assert not [pid for pid, began in gone.items() if processes.started(pid) == began]
    end(run, {3: 9})
    until(lambda: [*starts(run).values()] == [3] * 4, "the third start")
    end(run, {3: 7})
    assert run.wait() == 1, run.story()
    shown = run.show()
    assert (shown["exit"], [first["code"] for first in shown["failures"]]) == ("7:0", [7])


SIGNALLED: Mapping[str, tuple[Any, str]] = {
    "torchrun c10d": (LAUNCHERS["torchrun c10d"], "torchrun"),
    "torchrun static": (LAUNCHERS["torchrun static"], "torchrun"),
    "accelerate": (LAUNCHERS["accelerate"], "accelerate launch"),
    "deepspeed no_ssh": (LAUNCHERS["deepspeed no_ssh"], "deepspeed.launcher.launch"),
    "deepspeed pdsh": (LAUNCHERS["deepspeed pdsh"], "deepspeed.launcher.launch"),
}


@launchers(SIGNALLED, "torchrun c10d")
def test_a_sigterm_of_the_launcher_arrives_once_and_a_save_survives_it(
    cluster: Cluster, tmp_path: Path, launcher: tuple[Any, str]
) -> None:
    kind, words = launcher
    run = obeying(cluster, tmp_path / "job", run="obeys.py --note", launcher=kind)
    beside = {rank for rank in starts(run) if node(run, rank) == node(run, 1)}
    os.kill(agent(run, words), signal.SIGTERM)
    came = {rank: run.directory / f"came.{rank}" for rank in beside}
    while not all(ended(run, rank) for rank in beside):
        # one after the other: DeepSpeed asks the next one when the one before has ended
        until(lambda: any(not ended(run, r) and came[r].exists() for r in beside), "SIGTERM")
        asked = {rank for rank in beside if came[rank].exists()}
        end(run, {rank: 0 for rank in asked if not ended(run, rank)})
        until(partial(all_ended, run, asked), "the end")
    end(run, dict.fromkeys(starts(run).keys() - beside, 0))
    run.wait()
    assert {file.read_text() for file in came.values()} == {"SIGTERM"}
    assert all((run.directory / f"saved.{rank}").exists() for rank in beside)


def ended(run: Run, rank: int) -> bool:
    return (run.directory / f"saved.{rank}").exists()


def all_ended(run: Run, ranks: Iterable[int]) -> bool:
    return all(ended(run, rank) for rank in ranks)


def agent(run: Run, words: str) -> int:
    """The launcher's process on the node of rank 1."""
    agents = {
        p.pid
        for p in run.cluster.processes_with_env(run.token)
        if re.match(rf"\S*python\S* .*{words}.* bash \S+/rank\.sh", p.command)
        and p.host == node(run, 1)
    }
    (found,) = (pid for pid in agents if parent(pid) not in agents)
    return found


@pytest.mark.parametrize("launcher", ["srun", pytest.param("plain", marks=pytest.mark.exhaustive)])
def test_slurms_signals_arrive_once_and_a_save_survives_them(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    run = obeying(cluster, tmp_path / "job", run="obeys.py --note", launcher=launcher)
    step = f"{run.job}.0"
    for name, wanted in (
        ("USR1", "SIGUSR1"),
        ("INT", "SIGUSR1 SIGINT"),
        ("TERM", "SIGUSR1 SIGINT SIGTERM"),
    ):
        cluster.slurm("scancel", f"--signal={name}", step)
        files = [run.directory / f"came.{rank}" for rank in starts(run)]
        until(lambda f=files, w=wanted: all(p.exists() and p.read_text() == w for p in f), name)
    end(run, dict.fromkeys(starts(run), 0))
    assert run.wait() == 0, run.story()
    assert {file.read_text() for file in files} == {"SIGUSR1 SIGINT SIGTERM"}


def test_a_rank_that_the_others_wait_for_is_named_while_the_job_runs(
    cluster: Cluster, tmp_path: Path
) -> None:
    """As after ten minutes; a template of the job's own makes them three seconds here."""
    templates = tmp_path / "job" / "templates" / "slurm"
    templates.mkdir(parents=True)
    text = (REPOSITORY / "templates/slurm/_follow.j2").read_text()
    assert "silence=600" in text
    (templates / "_follow.j2").write_text(text.replace("silence=600", "silence=3"))
    run = obeying(cluster, tmp_path / "job", launcher="srun")
    where = node(run, 1)
    end(run, {1: 0})
    job = run.directory / "state" / "0" / "events" / f"0.{node(run, 0)}.job"
    until(job.exists, "the report")
    shown = answer(run.jobgen("show", "--json"))["job"]
    assert shown["state"] == "RUNNING"
    silence = {"start": 1, "node": where, "rank": 1, "seconds": 3, "task": "0"}
    assert shown["silences"] == [silence]
    words = f"rank 1 on {where} ended with exit code 0, and then no rank wrote anything for 3s"
    assert words in " ".join(run.jobgen("show").stdout.split())
    end(run, dict.fromkeys([0, 2, 3], 0))
    assert run.wait() == 0, run.story()
    log = (run.directory / "logs" / f"job-{run.job}.out").read_text()
    assert log.count("the others may be waiting for it") == 1


WORLD = """
import os
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
print(*(os.environ[name] for name in names), flush=True)
"""


def test_a_launcher_of_the_programs_own_makes_the_whole_world(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "world.py").write_text(WORLD)
    command = (
        "torchrun --nnodes=$JOBGEN_NUM_NODES --node-rank=$JOBGEN_NODE_RANK --nproc-per-node=2 "
        "--master-addr=$MASTER_ADDR --master-port=$MASTER_PORT world.py"
    )
    job = {"name": "own", "run": command, "nodes": 2, "time": "10m", "procs_per_node": 2}
    run = submit(cluster, write(tmp_path, {**job, "launcher": "plain", "preflight": "off"}))
    assert run.wait() == 0, run.story()
    lines = sorted(line for out in run.ranks().values() for line in out.decode().splitlines())
    assert lines == [f"{rank} 4 {rank % 2} 2" for rank in range(4)]
    assert sorted(run.ranks()) == [0, 1]


@pytest.mark.exhaustive
def test_a_single_rank_without_a_launcher_joins_a_world_of_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    program = "import torch.distributed as d\nd.init_process_group('gloo', init_method='env://')\n"
    (tmp_path / "one.py").write_text(f"{program}print('world', d.get_world_size(), flush=True)\n")
    job = {"name": "one", "run": "one.py", "nodes": 1, "time": "10m", "procs_per_node": 1}
    run = submit(cluster, write(tmp_path, {**job, "env": {"GLOO_SOCKET_IFNAME": "eth0"}}))
    assert run.wait() == 0, run.story()
    assert run.ranks()[0] == b"world 1\n"
