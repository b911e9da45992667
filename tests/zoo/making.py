"""Make a failure on the test cluster, and record what is left of it as a folder of logs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Lock

from tests.cluster import ENDED, Cluster, Options
from tests.cluster.layout import REPOSITORY, UID
from tests.e2e.runs import submit, write
from tests.waiting import until
from tests.zoo.acting import ACTS, Running
from tests.zoo.failure import Failure
from tests.zoo.failures import FAILURES
from tests.zoo.judge import SLURM
from tests.zoo.plain_scripts import write_script

PROGRAMS = Path(__file__).with_name("programs")
RECORDED = Path(__file__).with_name("recorded")
HUB = Path(__file__).with_name("hub.py")
OPTIONS = Options(
    accounting=True,
    conf=(
        "EnforcePartLimits=ALL",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "PartitionName=spare Nodes=n[1-4] MaxTime=1-0 PriorityTier=1 PreemptMode=CANCEL State=UP",
        "PartitionName=urgent Nodes=n[1-4] MaxTime=1-0 PriorityTier=9 State=UP",
    ),
)
REGISTRY = re.compile(r"\b(?:files\.)?py(?:pi|thonhosted)\.org\b")
ENDINGS = ENDED | {"PREEMPTED", "REVOKED"}
_numbers = count(1)
_preparing = Lock()


def raise_cluster(kind: str = "usual") -> Cluster:
    """A cluster that failures of this kind are made on."""
    more = {"task_plugin": "task/affinity,task/cgroup", "enforce_memory": True}
    options = replace(OPTIONS, **more) if kind == "memory" else OPTIONS  # type: ignore[arg-type]
    return Cluster.up(options)


def find_failure(name: str) -> Failure:
    """The row of the table with this name."""
    return next(failure for failure in FAILURES if failure.name == name)


def make_failure(name: str, cluster: Cluster, folder: Path) -> Path:
    """Make the failure anew, and record its files, ``truth.json`` and Slurm's words there."""
    failure = find_failure(name)
    project = _write_project(cluster, failure)
    with _prepared(cluster, failure):
        submit_by = _submit_refused if failure.refused else SUBMITS[failure.by]
        job, left = submit_by(cluster, failure, project)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source, target in left.items():
        _record(cluster, project, source, folder / target)
    if job:
        _record_scheduler(cluster, failure, job, folder)
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    truth = json.dumps({**failure.truth, "files": files}, indent=1)
    (folder / "truth.json").write_text(truth + "\n")
    return folder


@contextmanager
def _prepared(cluster: Cluster, failure: Failure) -> Iterator[None]:
    """Within this block the hosts are as the failure needs them, and no other prepares them."""
    if not failure.prepare:
        yield
        return
    with _preparing:
        try:
            for host, command in failure.prepare.items():
                cluster.run(host, _fill_in(command, cluster), user="root")
            yield
        finally:
            for host, command in failure.repair.items():
                cluster.run(host, _fill_in(command, cluster), user="root", check=False)


def _fill_in(command: str, cluster: Cluster) -> str:
    """A command of ``prepare`` or ``repair``, with the places of this cluster."""
    layout = cluster.layout
    places = {"{hub}": HUB, "{blank}": layout.blank, "{state}": layout.state}
    for name, place in places.items():
        command = command.replace(name, str(place))
    return command


def check_end(failure: Failure, folder: Path) -> str:
    """What is not as the table says of a recorded failure's end and files; empty if all is."""
    if failure.refused:
        text = (folder / "sbatch.err").read_text()
        return "" if "sbatch: error:" in text else f"not refused: {text}"
    last = json.loads((folder / SLURM).read_text())["sacct"].splitlines()
    columns = last[0].split("|")
    job = [dict(zip(columns, line.split("|"), strict=True)) for line in last[1:]]
    state = [row["State"] for row in job if "." not in row["JobID"]][-1].split()[0]
    if state != failure.state:
        return f"ended as {state}, not as {failure.state}"
    wanted = f".{failure.rank}.err" if failure.by == "jobgen" else ""
    logs = [p for p in folder.rglob("*") if p.suffix in (".out", ".err", ".log")]
    if failure.rank is not None and not any(p.name.endswith(wanted) for p in logs):
        return f"no log of rank {failure.rank}"
    return "" if any(p.stat().st_size for p in logs) else "no log holds a line"


def _write_project(cluster: Cluster, failure: Failure) -> Path:
    """The folder of the program on the shared disk, as its user left it."""
    project = cluster.scratch / f"project{next(_numbers)}-{os.getpid()}"
    shutil.copytree(PROGRAMS, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "logs").mkdir()
    for path in [project, *project.rglob("*")]:
        os.chown(path, UID, UID)
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    command = f"python prepare.py shards\n{failure.before}"
    cluster.run("login", f"set -e\n{command}", cwd=project, env=path)
    return project


def _submit_jobgen(
    cluster: Cluster, failure: Failure, project: Path
) -> tuple[str, dict[Path, str]]:
    """Submit by jobgen and wait for the end; the job, and the files to record."""
    shutil.rmtree(project / "logs")
    keys = {
        "name": "train",
        "nodes": len(failure.on),
        "procs_per_node": failure.ranks,
        "time": "6m",
        "caches": "keep",
        "preflight": "off",
        "launcher": failure.launcher,
        "setup": failure.setup or None,
        "env": dict(failure.env) or None,
        "run": failure.run,
        **failure.job,
    }
    keys["slurm"] = {"nodelist": ",".join(failure.on), **failure.job.get("slurm", {})}
    run = submit(cluster, write(project, keys))
    _see_end(Running(cluster, run.job, run.directory, failure.run), failure)
    left = {}
    for part in ("logs", "state"):
        for path in sorted((run.directory / part).rglob("*")):
            if path.is_file() and not path.is_symlink():
                left[path] = str(path.relative_to(run.directory))
    return run.job, left


def _submit_plain(cluster: Cluster, failure: Failure, project: Path) -> tuple[str, dict[Path, str]]:
    """Submit a person's script and wait for the end; the job, and the files to record."""
    (project / "job.sbatch").write_text(write_script(failure))
    words = ["sbatch", "--parsable", "job.sbatch"]
    job = cluster.run("login", words, cwd=project).stdout.strip()
    _see_end(Running(cluster, job, project, failure.run), failure)
    found = [*project.glob("slurm-*"), *(project / "logs").rglob("*")]
    return job, {path: str(path.relative_to(project)) for path in found if path.is_file()}


def _submit_refused(
    cluster: Cluster, failure: Failure, project: Path
) -> tuple[str, dict[Path, str]]:
    """Submit a script that Slurm refuses; what sbatch printed."""
    (project / "job.sbatch").write_text(write_script(failure))
    done = cluster.run("login", ["sbatch", "job.sbatch"], cwd=project, check=False)
    assert done.returncode == 1, done
    path = project / "sbatch.err"
    path.write_text(f"$ sbatch job.sbatch\n{done.stdout}{done.stderr}")
    return "", {path: path.name}


SUBMITS = {"jobgen": _submit_jobgen, "sbatch": _submit_plain}


def _see_end(running: Running, failure: Failure) -> None:
    if failure.act:
        name, *words = failure.act
        running.wait_for(failure.when)
        ACTS[name](running, *words)
    running.cluster.wait_state(running.job, ENDINGS)


def _record(cluster: Cluster, project: Path, source: Path, target: Path) -> None:
    """Copy a log, without the paths of this machine."""
    text = source.read_bytes().decode("utf-8", "surrogateescape")
    target.parent.mkdir(parents=True, exist_ok=True)
    clean = hide_paths(cluster, text, project)
    target.write_bytes(clean.encode("utf-8", "surrogateescape"))


def hide_paths(cluster: Cluster, text: str, project: Path | None = None) -> str:
    """A text in which the paths of this machine are those of a user of a cluster, and package
    registries have a name of nobody."""
    python = Path(sys.executable).parent.parent
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    root = cluster.layout.root
    pairs = {
        **({str(project): "/home/user/project"} if project else {}),
        f"{REPOSITORY}/.venv": "/home/user/env",
        str(python): "/home/user/env",
        str(python.resolve()): "/home/user/env",
        f"{sys.base_prefix}/lib/{version}": f"/usr/lib/{version}",
        sys.base_prefix: "/usr",
        str(REPOSITORY): "/home/user/project",
        str(cluster.scratch): "/scratch/user",
        str(cluster.layout.home / "tester"): "/home/user",
        str(cluster.layout.small): "/shared",
        str(root): "/cluster",
    }
    for path, other in sorted(pairs.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(path, other)
    return REGISTRY.sub("index.example.org", text)


def _record_scheduler(cluster: Cluster, failure: Failure, job: str, folder: Path) -> None:
    """What Slurm said of the job, its steps and its nodes."""
    fields = "JobID,JobName,State,ExitCode,DerivedExitCode,Reason,NodeList,Start,End"
    query = ("sacct", "-j", job, "-P", "-D", "-o", fields)
    running = ("|RUNNING|", "|COMPLETING|", "|PENDING|")
    until(
        lambda: not any(state in cluster.slurm(*query) for state in running),
        f"the end of job {job} in the accounting",
        pause=0.3,
    )
    accounting = cluster.slurm(*query)
    shown = cluster.slurm("scontrol", "show", "job", job)
    nodes = cluster.slurm("scontrol", "show", "node", "-o", ",".join(failure.on))
    states = re.findall(r"NodeName=(\S+).*? State=(\S+)", nodes)
    told = {"job": shown, "sacct": accounting, "nodes": dict(states)}
    text = hide_paths(cluster, json.dumps(told, indent=1))
    (folder / SLURM).write_text(text + "\n")
