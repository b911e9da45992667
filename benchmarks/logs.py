#!/usr/bin/env python3
"""Logs: how soon a followed line appears, and what a gigabyte of them costs.

    python benchmarks/logs.py [--size 1000] [--seconds 12] [--ranks 1024] [--local]

Once with the jobs on this machine, once over ssh to the test cluster (as root; see CONTRIBUTING.md;
``--local`` leaves it out). A job prints the time every 0.2 s: the delay of a line is from when it
was printed to when it was read from ``jobgen logs -f``, or from ``tail -f`` of its file (over ssh,
by ssh), in turns. Another job's four ranks write ``--size``
megabytes in all, every line another: what is measured is the whole ``jobgen logs``, its output read
by ``cat``, and its largest memory, beside one ``cat`` of the same files (over ssh, by ssh).
On this machine, the logs of ``--ranks`` ranks are followed while nobody writes, and while each
writes a line a second: how late those are, and the CPU seconds of a second, of jobgen alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from comparisons import Comparison, add_option, leave_out, report

from tests.cluster import Cluster, Options
from tests.cluster.install import missing
from tests.cluster.layout import SSH_ALIAS

JOBGEN = (sys.executable, "-m", "jobgen")
EVERY = 0.2
RANKS = 4
TURNS = 2
LIMIT = 5.0
"""Seconds of a turn in which a follower's lines are not counted: it may still be starting."""
HERE, FAR, MANY = "1 rank, same machine", "1 rank, over ssh", "1,024 ranks, same machine"
LINE = Comparison("delay of a followed line", HERE, ("tail -f",))
LINE_FAR = Comparison("delay of a followed line", FAR, ("ssh tail -f",))
LINES = Comparison("delay of a followed line, one a second each", MANY, ("tail -F",))
WORST = Comparison("longest delay of a followed line, one a second each", MANY, ("tail -F",))
BUSY = Comparison("following, one line a second each", MANY, ("tail -F",), "% of a core")
SILENT = Comparison("following, silent", MANY, ("tail -F",), "% of a core")
ALL = Comparison("reading all logs", "1,000 MB, same machine", ("cat",))
ALL_FAR = Comparison("reading all logs", "1,000 MB, over ssh", ("ssh cat",))
OVER_SSH = (LINE_FAR, ALL_FAR)
COMPARISONS = (LINE, LINES, WORST, BUSY, SILENT, ALL, *OVER_SSH)
SETTLE = 5.0
"""Seconds until a follower has shown what was there and waits for more."""
TIMED = re.compile(rb"at (\d{19})$")

TICKS = """\
import sys, time
for _ in range(int(sys.argv[1])):
    print(time.time_ns(), flush=True)
    time.sleep(float(sys.argv[2]))
"""
FLOOD = """\
import os, sys
rank, left, step = os.environ["RANK"], int(sys.argv[1]), 0
while left > 0:
    block = "".join(
        f"step {n:>9} rank {rank:>3} loss {2.5 + n % 977 / 977:.6f} lr 1.000e-04 "
        f"grad_norm {n % 313 / 313:.4f} tokens/s {120000 + n % 1013}\\n"
        for n in range(step, step + 5000)
    ).encode()
    left, step = left - len(block), step + 5000
    sys.stdout.buffer.write(block)
"""


class Cost(NamedTuple):
    """Of one command to its end."""

    seconds: float
    peak: int
    """The most bytes that it held."""


class Desk:
    """Where jobgen is run, and for which cluster."""

    def __init__(self, place: Path, profile: str, cluster: Cluster | None = None) -> None:
        self.place, self.profile, self.cluster = place, profile, cluster
        self.env = {**os.environ, "HOME": str(place)}

    def words(self, command: Sequence[str]) -> list[str]:
        """The command as it is started from here."""
        return self.cluster.client.words(command) if self.cluster else list(command)

    def said(self, *words: str) -> str:
        """What a command printed; it must end well."""
        done = subprocess.run(self.words(words), env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def submit(self, name: str, keys: Mapping[str, Any], program: str) -> dict[str, Any]:
        """A job with this program; what jobgen says of it."""
        folder = self.place / name
        folder.mkdir()
        (folder / "program.py").write_text(program)
        job = {"name": name, "nodes": 1, "time": "15m", **keys}
        (folder / "job.yaml").write_text(json.dumps(job))
        words = ["submit", str(folder / "job.yaml"), "-c", self.profile, "--json"]
        answer = json.loads(self.said(*JOBGEN, *words))
        return answer["data"]["job"]  # type: ignore[no-any-return]

    def cost(self, *words: str) -> Cost:
        """A command whose output is read by cat, as by any reader that does nothing with it."""
        began = time.perf_counter()
        with Path(os.devnull).open("wb") as nowhere:
            reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=nowhere)
        assert reader.stdin
        writer = subprocess.Popen(self.words(words), stdout=reader.stdin, env=self.env)
        reader.stdin.close()
        _, status, used = os.wait4(writer.pid, 0)
        writer.returncode = os.waitstatus_to_exitcode(status)
        reader.wait()
        if writer.returncode:
            sys.exit(f"{' '.join(words)} ended with {writer.returncode}")
        return Cost(time.perf_counter() - began, used.ru_maxrss * 1024)


def appearing(desk: Desk, where: str, seconds: float) -> None:
    """How late a followed line is, by jobgen and by tail in turns."""
    lasting = 2 * TURNS * (seconds + LIMIT + 5)
    run = f"{sys.executable} program.py {int(lasting / EVERY)} {EVERY}"
    keys = {"procs_per_node": 1, "launcher": "plain", "run": run}
    job = desk.submit("ticks", keys, TICKS)
    while not (files := list(Path(job["dir"], "logs", "0", "0").glob("*.0.out"))):
        time.sleep(0.1)
    tail = ["tail", "-n", "0", "-f", str(files[0])]
    comparison = LINE_FAR if desk.cluster else LINE
    ways = {
        "jobgen logs -f": [*JOBGEN, "logs", "-f", "-q", "--no-prefix", "--rank", "0", job["id"]],
        comparison.peers[0]: ["ssh", SSH_ALIAS, *tail] if desk.cluster else tail,
    }
    late: dict[str, list[float]] = {label: [] for label in ways}
    for _ in range(TURNS):
        for label, words in ways.items():
            limited = ["timeout", str(LIMIT + seconds / TURNS), *words]
            late[label] += _follow(desk, limited)
    desk.said(*JOBGEN, "cancel", "--yes", job["id"])
    for label, delays in late.items():
        print(
            f"a line appears, {where:16} {label:15} median {statistics.median(delays):6.3f} s   "
            f"worst {max(delays):6.3f} s   of {len(delays)} lines",
            flush=True,
        )
    ours, theirs = (statistics.median(delays) for delays in late.values())
    report(comparison, ours, {comparison.peers[0]: theirs})


def _follow(desk: Desk, words: Sequence[str]) -> list[float]:
    """How late each line is that a follower shows until it ends, after its start."""
    began, late = time.monotonic(), []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": desk.env}
    with subprocess.Popen(desk.words(words), **pipes) as follower:
        assert follower.stdout
        for line in follower.stdout:
            now = time.time_ns()
            # what was there before the follower looked for the first time is late by its start
            if line.strip().isdigit() and time.monotonic() - began > LIMIT:
                late.append((now - int(line)) / 1e9)
    return late


class Crowd(NamedTuple):
    """What following many ranks cost: shares of a core, and how late the lines were."""

    silent: list[float]
    busy: list[float]
    late: list[float]


def crowded(desk: Desk, ranks: int, seconds: float) -> None:
    """What it costs to follow many ranks, first when they are silent; the benchmark writes."""
    job = desk.submit("crowd", {"procs_per_node": 1, "launcher": "plain", "run": "sleep 600"}, "")
    logs = Path(job["dir"], "logs", "0", "0")
    while not logs.is_dir():
        time.sleep(0.1)
    for rank in range(1, ranks):
        for stream in ("out", "err"):
            (logs / f"local1.{rank}.{stream}").touch()
    paths = sorted(map(str, logs.glob("*.out")))
    ways = {
        "jobgen logs -f": [*JOBGEN, "logs", "-f", "-q", "--rank", "all", job["id"]],
        "tail -F": ["tail", "-q", "-n", "0", "-F", *paths],
    }
    costs = {label: Crowd([], [], []) for label in ways}
    with ExitStack() as opened:
        files = [
            opened.enter_context((logs / f"local1.{n}.out").open("a")) for n in range(1, ranks)
        ]
        for _ in range(TURNS):
            for label, words in ways.items():
                _follow_crowd(desk, words, files, seconds / TURNS, costs[label])
    desk.said(*JOBGEN, "cancel", "--yes", job["id"])
    for label, (silent, busy, late) in costs.items():
        print(
            f"{ranks} ranks followed, on this machine, {label:15} silent {min(silent):6.1%} of a "
            f"core   a line a second each {min(busy):6.1%}, late median "
            f"{statistics.median(late):5.2f} s   worst {max(late):5.2f} s   of {len(late)} lines",
            flush=True,
        )
    ours, theirs = costs.values()
    report(SILENT, 100 * min(ours.silent), {"tail -F": 100 * min(theirs.silent)})
    report(BUSY, 100 * min(ours.busy), {"tail -F": 100 * min(theirs.busy)})
    report(LINES, statistics.median(ours.late), {"tail -F": statistics.median(theirs.late)})
    report(WORST, max(ours.late), {"tail -F": max(theirs.late)})


def _follow_crowd(
    desk: Desk, words: Sequence[str], files: Sequence[IO[str]], seconds: float, cost: Crowd
) -> None:
    """One turn of one follower, silent and then busy."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": desk.env}
    with subprocess.Popen(words, **pipes) as follower:
        assert follower.stdout
        late: list[float] = []
        reader = Thread(target=_note_delays, args=(follower.stdout, late))
        reader.start()
        time.sleep(SETTLE)
        cost.silent.append(_use_cpu(follower.pid, seconds))
        late.clear()  # lines of the turn before
        writer = Thread(target=_write_lines, args=(files, seconds))
        writer.start()
        cost.busy.append(_use_cpu(follower.pid, seconds))
        writer.join()
        time.sleep(2)  # the last lines arrive
        follower.terminate()  # a background job of a shell ignores SIGINT
        reader.join()
    cost.late.extend(late)


def _note_delays(lines: IO[bytes], late: list[float]) -> None:
    """How late each line is that begins with its time, in nanoseconds, after the prefix."""
    late.extend(
        (time.time_ns() - int(found[1])) / 1e9 for line in lines if (found := TIMED.search(line))
    )


def _write_lines(files: Sequence[IO[str]], seconds: float) -> None:
    """A line into each file every second."""
    for _ in range(int(seconds)):
        began = time.monotonic()
        for file in files:
            print(f"at {time.time_ns()}", file=file, flush=True)
        time.sleep(max(0.0, began + 1 - time.monotonic()))


def _use_cpu(pid: int, seconds: float) -> float:
    """The share of a core that a process uses in the next seconds."""
    before = _read_cpu(pid)
    time.sleep(seconds)
    return (_read_cpu(pid) - before) / seconds


def _read_cpu(pid: int) -> float:
    """CPU seconds of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def flooded(desk: Desk, where: str, size: int) -> None:
    """What much log costs, beside what any program would need to bring it."""
    run = f"{sys.executable} program.py {size * 1_000_000 // RANKS}"
    keys = {"procs_per_node": RANKS, "launcher": "srun", "run": run}
    job = desk.submit("flood", keys, FLOOD)
    desk.said(*JOBGEN, "wait", job["id"])
    files = f"{job['dir']}/logs/0/0/*.out"
    over = ["ssh", SSH_ALIAS, f"cat {files}"] if desk.cluster else ["sh", "-c", f"cat {files}"]
    rows = {
        "ssh cat" if desk.cluster else "cat": over,
        "jobgen logs": [*JOBGEN, "logs", job["id"]],
        "jobgen logs -f": [*JOBGEN, "logs", "-f", "-q", job["id"]],
        "jobgen logs --no-collapse": [*JOBGEN, "logs", "--no-collapse", job["id"]],
        "jobgen logs -n 100": [*JOBGEN, "logs", "-n", "100", job["id"]],
    }
    base = 0.0
    for label, words in rows.items():
        cost = desk.cost(*words)
        base = base or cost.seconds
        print(
            f"{size} MB of log, {where}, {label:27}{cost.seconds:7.2f} s "
            f"{size / cost.seconds:7.0f} MB/s {cost.seconds / base:7.1f}x   "
            f"at most {cost.peak / 1e6:4.0f} MB of memory",
            flush=True,
        )
        if label == "jobgen logs":
            comparison = ALL_FAR if desk.cluster else ALL
            report(comparison, cost.seconds, {comparison.peers[0]: base})


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--size", type=int, default=1000, help="megabytes of log")
    arguments.add_argument("--seconds", type=float, default=12.0, help="of lines to be followed")
    arguments.add_argument("--ranks", type=int, default=1024, help="that are followed")
    arguments.add_argument("--local", action="store_true", help="nothing over ssh")
    add_option(arguments)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        desk = Desk(Path(name), "local")
        crowded(desk, chosen.ranks, chosen.seconds)
        measure(desk, "on this machine", chosen)
    reason = "--local" if chosen.local else missing()
    if reason:
        print(f"logs over ssh are not measured: {reason}")
        leave_out(OVER_SSH, reason)
        return
    with Cluster.up(Options(nodes=1, gpus=0)) as cluster:
        desk = Desk(cluster.client.home, str(cluster.profile()), cluster)
        measure(desk, "over ssh", chosen)


def measure(desk: Desk, where: str, chosen: argparse.Namespace) -> None:
    """Both, in one place."""
    appearing(desk, where, chosen.seconds)
    flooded(desk, where, chosen.size)


if __name__ == "__main__":
    main()
