#!/usr/bin/env python3
"""A submit of a hundred small files at a distance, beside the same by hand, on a real Slurm.

    python benchmarks/submit.py [--rounds 5] [--delay 0.025]

Brings the test cluster up (as root; see CONTRIBUTING.md). A proxy delays every byte between the
client and the login host and counts the turns of the line: how often one side waited for the other.
It cannot delay the handshake of TCP itself, so for each connection one turn and one round trip are
added. sbatch's own time is taken on the login host, from the mark that stands before it starts to
the exit code that it leaves; it is small here and minutes on a busy controller, so it is taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.cluster import Cluster, Options
from tests.cluster.install import missing
from tests.transport.proxy import Proxy

JOB = """\
name: small
nodes: 1
time: 5m
launcher: plain
run: ./train.sh
slurm: {hold: true}
"""
FILES, BYTES = 100, 4330


class Trial(NamedTuple):
    """One submit: seconds in all, seconds of them in sbatch, turns of the line."""

    wall: float
    sbatch: float
    turns: int

    @property
    def beside(self) -> float:
        """What it cost beside sbatch."""
        return self.wall - self.sbatch


class Desk:
    """The client host: a job with its files, and the way to the login host through the proxy."""

    def __init__(self, folder: Path, profile: Path, scratch: Path, delay: float) -> None:
        self.folder, self.profile, self.scratch, self.delay = folder, profile, scratch, delay
        self.proxy = Proxy(22, host="login", delay=delay)
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "job.yaml").write_text(JOB)
        (self.work / "train.sh").write_text("#!/bin/sh\n")
        (self.work / "train.sh").chmod(0o755)
        for n in range(FILES):
            (self.work / f"file{n}.py").write_bytes(os.urandom(BYTES))
        self.config = folder / "ssh_config"
        self.config.write_text(
            "Host testbed\n  HostName 127.0.0.1\n  HostKeyAlias login\n"
            f"  Port {self.proxy.port}\n" + (Path.home() / ".ssh/config").read_text()
        )
        self.env = {**os.environ, "JOBGEN_SSH_CONFIG": str(self.config)}

    def turned(self, connections: int, work: Callable[[], float]) -> Trial:
        """Carry it out and count; ``work`` gives the seconds that sbatch took."""
        before, began = self.proxy.turns, time.perf_counter()
        sbatch = work()
        wall = time.perf_counter() - began + 2 * self.delay * connections
        return Trial(wall, sbatch, self.proxy.turns - before + connections)

    def said(self, *words: str) -> str:
        """What a program printed; it must end well."""
        done = subprocess.run(words, env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def jobgen(self) -> float:
        """The whole command."""
        words = ["submit", str(self.work / "job.yaml"), "-c", str(self.profile), "--json"]
        answer = json.loads(self.said(sys.executable, "-m", "jobgen", *words))
        # a jobgen that is slow to hang up is still slow: nothing here is left out of the time
        marks = Path(answer["data"]["job"]["dir"]) / "submit"
        began, ended = (marks / name for name in ("attempt.1", "rc.1"))
        return (ended.lstat().st_mtime_ns - began.lstat().st_mtime_ns) / 1e9

    def by_scp(self) -> float:
        """A person's three commands, each with a connection of its own."""
        target = self._target()
        self._ssh(f"mkdir -p {target}")
        self.said("scp", "-q", "-r", "-F", str(self.config), f"{self.work}/.", f"testbed:{target}")
        return self._submit(target)

    def by_tar(self) -> float:
        """The same by somebody who knows that scp waits for every file."""
        target = self._target()
        tar = f"tar -C {self.work} -cf - . | ssh -F {self.config} testbed"
        self.said("sh", "-c", f"{tar} 'mkdir -p {target} && tar -xf - -C {target}'")
        return self._submit(target)

    def _target(self) -> Path:
        return self.scratch / f"by-hand-{time.time_ns()}"

    def _ssh(self, command: str) -> str:
        return self.said("ssh", "-F", str(self.config), "testbed", command)

    def _submit(self, target: Path) -> float:
        timed = "a=$(date +%s%N); sbatch --parsable --hold train.sh; b=$(date +%s%N); echo $((b-a))"
        return int(self._ssh(f"cd {target} && {timed}").split()[-1]) / 1e9


def measure(desk: Desk, rounds: int) -> None:
    """All ways in turns, then one line a way: medians, and the least beside sbatch."""
    ways: dict[str, tuple[int, Callable[[], float]]] = {
        "jobgen submit": (1, desk.jobgen),
        "tar | ssh tar, ssh sbatch": (2, desk.by_tar),
        "ssh mkdir, scp -r, ssh sbatch": (3, desk.by_scp),
    }
    found: dict[str, list[Trial]] = {label: [] for label in ways}
    desk.turned(1, desk.jobgen)  # not counted: the first run writes the byte code
    for turn in range(rounds):
        for label, (connections, work) in ways.items():
            if turn and work == desk.by_scp:
                continue  # half a minute each: once is enough
            found[label].append(desk.turned(connections, work))
    base = statistics.median(trial.beside for trial in found["jobgen submit"])
    where = f"{FILES} files of {BYTES} bytes at {2000 * desk.delay:.0f} ms round trip"
    heads = f"{'turns':>7}{'wall':>9}{'sbatch':>9}{'beside it':>11}{'least':>9}{'to jobgen':>11}"
    print(f"{where:46}{heads}")
    for label, trials in found.items():
        wall, sbatch, beside = (
            statistics.median(values)
            for values in zip(*((t.wall, t.sbatch, t.beside) for t in trials), strict=True)
        )
        turns = max(trial.turns for trial in trials)
        least = min(trial.beside for trial in trials)
        print(
            f"{label:46}{turns:7}{wall:8.2f}s{sbatch:8.2f}s{beside:10.2f}s{least:8.2f}s"
            f"{beside / base:10.1f}x",
            flush=True,
        )


@contextmanager
def client(rounds: int, delay: float) -> Iterator[list[str]]:
    """The words that run this file again, on the client host of a cluster."""
    with Cluster.up(Options(nodes=1, gpus=0)) as cluster:
        folder = cluster.client.home / "benchmark"
        folder.mkdir()
        profile = cluster.profile(procs_per_node=1)
        where = ["--inside", str(folder), str(profile), str(cluster.scratch)]
        words = [sys.executable, __file__, "--rounds", str(rounds), "--delay", str(delay)]
        yield cluster.client.words([*words, *where])


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--delay", type=float, default=0.025, help="seconds one way")
    arguments.add_argument("--inside", nargs=3, type=Path, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.inside:
        measure(Desk(*chosen.inside, chosen.delay), chosen.rounds)
        sys.stdout.flush()
        os._exit(0)  # the proxy's thread needs no good-bye
    if reason := missing():
        print(f"a submit at a distance is not measured: {reason}")
        return
    with client(chosen.rounds, chosen.delay) as words:
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
