"""CPU seconds of jobgen by the number of profiles, runs or ranks, and the exponent of the growth.

    python benchmarks/scale.py [--rounds N]

Each row is a command at three sizes, each larger than the one before by one factor: user+system
milliseconds of the whole process and of those that it starts, the least of N rounds. The exponent
compares the two differences, so that what any size costs does not count; 1 is linear growth. The
logs are those of a run on this machine. Of live jobs a squeue that prints a file reports.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from comparisons import ITSELF, Comparison, add_option, report
from startup import cpu

from jobgen.ledger import Ledger
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site
from jobgen.scheduler.slurm_format import SEPARATOR
from jobgen.submission.states import Phase, State

LINES = 100
"""Lines of each rank."""
LOCAL = Site("local", "local", Login("local"), "$HOME/jobgen")
SITE = Site("a100x16", "slurm", Login("paramiko", "hpc"), "/scratch/$USER/jobgen")
HERE = Site("a100x16", "slurm", Login("local"), "/scratch/$USER/jobgen", "none")
"""The same cluster from its login node."""
INSERT = (
    "INSERT INTO runs (token, alias, name, number, cluster, job, ended, created, data)"
    " VALUES (?, ?, 'llama', ?, 'a100x16', ?, ?, ?, ?)"
)
SQUEUE = """\
#!/bin/sh
for word; do case $word in --jobs=*) jobs=${word#--jobs=} ;; esac; done
exec awk -F '\\037' -v jobs="$jobs" '
  BEGIN { n = split(jobs, ids, ","); for (i = 1; i <= n; i++) asked[ids[i]] }
  $1 in asked' 'QUEUE'
"""
"""Prints the rows of the jobs that it is asked about."""
JOB = """\
name: llama
nodes: 1
gpus_per_node: 8
time: 2h
run: train.py
train: {model: meta-llama/Llama-3.1-8B, strategy: fsdp}
"""


def make_profiles(folder: Path, size: int) -> None:
    """Profiles in the current folder that extend a shipped one."""
    (folder / "clusters").mkdir()
    for number in range(size):
        text = f"name: c{number}\nextends: a100x16\nnodes: {{count: {number + 1}}}\n"
        (folder / "clusters" / f"c{number}.yaml").write_text(text)


def make_runs(folder: Path, size: int) -> None:
    """Ended runs in the run database."""
    with Ledger(folder / "state" / "jobgen" / "ledger.sqlite3").write() as db:
        for number in range(size):
            token, alias = f"{number:026}", f"llama-{number}"
            run = RunRecord(token, alias, "llama", SITE, "d1", created=1000.0 + number)
            row = (token, alias, number, number, 1, run.created, json.dumps(run.data()))
            db.execute(INSERT, row)


def make_jobs(folder: Path, size: int) -> None:
    """Running jobs with their run directories, and a squeue that reports them."""
    rows = []
    with Ledger(folder / "state" / "jobgen" / "ledger.sqlite3").write() as db:
        for number in range(size):
            token = f"{number:08}" + "0" * 18
            run = RunRecord(token, f"llama-{number}", "llama", HERE, "d1", created=1000.0 + number)
            directory = str(folder / "runs" / run.folder)
            state = State(Phase.CONFIRMED, directory=directory, job=JobId(number + 1))
            run = run._replace(job=state.job, state=JobState.RUNNING, directory=directory)
            run = run._replace(submission={"state": state.data()})
            (Path(run.directory) / "state" / "0").mkdir(parents=True)
            (Path(run.directory) / "state" / "0" / "claim").symlink_to(str(run.job))
            row = (token, run.alias, number, number + 1, 0, run.created, json.dumps(run.data()))
            db.execute(INSERT, row)
            seen = (str(run.job), "RUNNING", "None", "node1", "1:00", "59:00", "N/A", run.directory)
            rows.append(SEPARATOR.join((*seen, "", "llama")) + "\n")
    (folder / "queue").write_text("".join(rows))
    (folder / "bin").mkdir()
    (folder / "bin" / "squeue").write_text(SQUEUE.replace("QUEUE", str(folder / "queue")))
    (folder / "bin" / "squeue").chmod(0o755)


def make_job(folder: Path, size: int) -> None:
    """A job file, and profiles that it can be planned on."""
    make_profiles(folder, size)
    (folder / "job.yaml").write_text(JOB)
    (folder / "train.py").touch()


def make_logs(folder: Path, size: int) -> None:
    """A run that has ended, with the logs of so many ranks."""
    logs = folder / "run" / "logs" / "0" / "0"
    logs.mkdir(parents=True)
    for rank in range(size):
        lines = (f"step {n} rank {rank} loss {2 + n % 7:.6f} lr 1e-4\n" for n in range(LINES))
        (logs / f"local1.{rank}.out").write_text("".join(lines))
        (logs / f"local1.{rank}.err").touch()
    with Ledger(folder / "state" / "jobgen" / "ledger.sqlite3").write() as db:
        run = RunRecord("0" * 26, "llama-0", "llama", LOCAL, "d1", created=1000.0)
        run = run._replace(directory=str(folder / "run"), ended=True, state=JobState.COMPLETED)
        db.execute(INSERT, (run.token, run.alias, 0, 0, 1, run.created, json.dumps(run.data())))


def _list_sizes(sizes: tuple[int, ...]) -> str:
    return " → ".join(f"{size:,}" for size in sizes)


def _compare(size: int) -> list[str]:
    names = ",".join(f"c{number}" for number in range(size))
    return ["plan", "job.yaml", "-c", "a100x16", "--compare", names]


class Row(NamedTuple):
    """A command, what it is about, and how much of that there is."""

    words: Callable[[int], list[str]]
    make: Callable[[Path, int], None]
    sizes: tuple[int, int, int]


ROWS = {
    "plan --compare, profiles": Row(_compare, make_job, (100, 200, 400)),
    "cluster ls, profiles": Row(lambda _: ["cluster", "ls"], make_profiles, (100, 200, 400)),
    "ls --cached, runs": Row(lambda _: ["ls", "--cached"], make_runs, (400, 2000, 10_000)),
    "ls, live jobs": Row(lambda _: ["ls"], make_jobs, (400, 2000, 10_000)),
    "ls --all, live jobs": Row(lambda _: ["ls", "--all"], make_jobs, (100, 400, 1600)),
    "logs, ranks": Row(lambda _: ["logs", "llama-0"], make_logs, (256, 1024, 4096)),
    "logs -n 50, ranks": Row(lambda _: ["logs", "llama-0", "-n", "50"], make_logs, (64, 256, 1024)),
}
COMPARISONS = tuple(
    Comparison(f"jobgen {row}, CPU time", _list_sizes(sizes), (ITSELF,), "ms")
    for row, (_, _, sizes) in ROWS.items()
)


def measure(row: Row, size: int, rounds: int) -> float:
    """Milliseconds of the command where so much was made."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        row.make(folder, size)
        command = [str(Path(sys.executable).parent / "jobgen"), *row.words(size)]
        return min(_measure_once(command, folder) for _ in range(rounds)) * 1000


def _measure_once(command: list[str], folder: Path) -> float:
    """Seconds of the command with a run database that nobody has asked before."""
    with tempfile.TemporaryDirectory() as state:
        if (folder / "state").exists():
            shutil.copytree(folder / "state", state, dirs_exist_ok=True)
        os.environ["XDG_STATE_HOME"] = state
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{folder / 'bin'}:{path}"
        try:
            return cpu(command, folder)
        finally:
            os.environ["PATH"] = path


def fit_exponent(times: Sequence[float], sizes: Sequence[int]) -> float:
    """The growth of what is more than at any size: of differences of 5 ms or more."""
    first, second = (max(more - less, 5.0) for less, more in itertools.pairwise(times))
    return math.log(second / first) / math.log(sizes[-1] / sizes[-2])


def main() -> None:
    """Measure, and print a row for each command."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=5)
    add_option(words)
    rounds = words.parse_args().rounds
    for comparison, (name, row) in zip(COMPARISONS, ROWS.items(), strict=True):
        times = [measure(row, size, rounds) for size in row.sizes]
        exponent = fit_exponent(times, row.sizes)
        shown = "".join(
            f"{size:8,}: {time:5.0f} ms" for size, time in zip(row.sizes, times, strict=True)
        )
        print(f"{name:26}{shown}   exponent {exponent:.2f}", flush=True)
        report(comparison, times[-1], {ITSELF: times[0]}, exponent=exponent)


if __name__ == "__main__":
    main()
