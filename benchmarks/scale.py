"""CPU seconds of jobgen by the number of profiles, runs or ranks, and the exponent of the growth.

    python benchmarks/scale.py [--rounds N]

Each row is a command at three sizes: user+system milliseconds of the whole process and of those
that it starts, the least of N rounds. For the exponent, the same command where there is nothing is
taken off; 1 is linear growth. The logs are those of a run on this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from comparisons import ITSELF, Comparison, add_option, report
from startup import cpu

from jobgen.ledger import Ledger
from jobgen.model.record import JobState, Login, RunRecord, Site

LINES = 100
"""Lines of each rank."""
LOCAL = Site("local", "local", Login("local"), "$HOME/jobgen")
SITE = Site("a100x16", "slurm", Login("paramiko", "hpc"), "/scratch/$USER/jobgen")
INSERT = (
    "INSERT INTO runs (token, alias, name, number, cluster, job, ended, created, data)"
    " VALUES (?, ?, 'llama', ?, 'a100x16', ?, 1, ?, ?)"
)


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
            row = (token, alias, number, number, run.created, json.dumps(run.data()))
            db.execute(INSERT, row)


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
        db.execute(INSERT, (run.token, run.alias, 0, 0, run.created, json.dumps(run.data())))


def _list_sizes(sizes: tuple[int, ...]) -> str:
    return " → ".join(f"{size:,}" for size in sizes)


ROWS: dict[str, tuple[list[str], Callable[[Path, int], None], tuple[int, int, int]]] = {
    "cluster ls, profiles": (["cluster", "ls"], make_profiles, (100, 200, 400)),
    "ls --cached, runs": (["ls", "--cached"], make_runs, (1000, 3000, 10_000)),
    "logs, ranks": (["logs", "llama-0"], make_logs, (256, 1024, 4096)),
    "logs -n 50, ranks": (["logs", "llama-0", "-n", "50"], make_logs, (64, 256, 1024)),
}
COMPARISONS = tuple(
    Comparison(f"jobgen {row}, CPU time", _list_sizes(sizes), (ITSELF,), "ms")
    for row, (_, _, sizes) in ROWS.items()
)


def measure(words: list[str], make: Callable[[Path, int], None], size: int, rounds: int) -> float:
    """Milliseconds of the command where so much was made."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, size)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        command = [str(Path(sys.executable).parent / "jobgen"), *words]
        return min(cpu(command, folder) for _ in range(rounds)) * 1000


def main() -> None:
    """Measure, and print a row for each command."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=5)
    add_option(words)
    rounds = words.parse_args().rounds
    for comparison, (row, (command, make, sizes)) in zip(COMPARISONS, ROWS.items(), strict=True):
        nothing = measure(command, make, 0, rounds)
        times = [measure(command, make, size, rounds) for size in sizes]
        more = [max(time - nothing, 1.0) for time in times]
        exponent = math.log(more[-1] / more[0]) / math.log(sizes[-1] / sizes[0])
        shown = "".join(
            f"{size:8,}: {time:4.0f} ms" for size, time in zip(sizes, times, strict=True)
        )
        print(f"{row:24}{0:8}: {nothing:4.0f} ms{shown}   exponent {exponent:.2f}")
        report(comparison, times[-1], {ITSELF: times[0]}, exponent=exponent)


if __name__ == "__main__":
    main()
