#!/usr/bin/env python3
"""A submit of a hundred small files at a distance, beside the same by hand, on a real Slurm.

    python benchmarks/submit.py [--rounds 5] [--delay 0.025] [--files 100] [--bytes 4330]

Brings the test cluster up (as root; see CONTRIBUTING.md). A proxy delays every byte between the
client and the login host and counts the turns of the line: how often one side waited for the other.
It cannot delay the handshake of TCP itself, so for each connection one turn and one round trip are
added. The CPU seconds are those of the programs on the client, ssh among them.
A ControlMaster that is already up saves a login for those who have one; its own CPU seconds are not
counted, and without rsync its rows are left out.
sbatch's own time is taken on the login host, from the mark that stands before it starts to
the exit code that it leaves; it is small here and minutes on a busy controller, so it is taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from comparisons import Comparison, add_option, leave_out, live_master, report

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
MANY = 1000
"""Files from which on a person's own ways, which wait for every file, are not measured."""
JOBGEN, JOBGEN_SHARED = "jobgen submit", "jobgen submit, openssh, live"
RSYNC = "rsync -a, ssh sbatch, live"
TAR_SHARED = "tar | ssh tar, ssh sbatch, live"
TAR, SCP = "tar | ssh tar, ssh sbatch", "ssh mkdir, scp -r, ssh sbatch"
SIZE = "100 files of 4,330 bytes, 50 ms round trip"
SUBMIT = Comparison("submit", SIZE, (TAR, SCP, RSYNC, TAR_SHARED))
SHARED = Comparison("submit, jobgen also through the ControlMaster", SIZE, (RSYNC, TAR_SHARED))
COMPARISONS = (SUBMIT, SHARED)
""""live" is a ControlMaster that is already up."""


class Trial(NamedTuple):
    """One submit: seconds in all, seconds of them in sbatch, turns of the line, CPU seconds."""

    wall: float
    sbatch: float
    turns: int
    cpu: float

    @property
    def beside(self) -> float:
        """What it cost beside sbatch."""
        return self.wall - self.sbatch


class Desk:
    """The client host: a job with its files, and the way to the login host through the proxy."""

    def __init__(
        self, folder: Path, profile: Path, openssh: Path, scratch: Path, chosen: argparse.Namespace
    ) -> None:
        self.profile, self.openssh, self.scratch = profile, openssh, scratch
        self.delay: float = chosen.delay
        self.proxy = Proxy(22, host="login", delay=self.delay)
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "job.yaml").write_text(JOB)
        (self.work / "train.sh").write_text("#!/bin/sh\n")
        (self.work / "train.sh").chmod(0o755)
        for n in range(chosen.files):
            package = self.work / f"package{n // MANY}"
            package.mkdir(exist_ok=True)
            (package / f"file{n}.py").write_text(os.urandom(chosen.bytes // 2).hex())
        self.config = folder / "ssh_config"
        self.config.write_text(
            "Host testbed\n  HostName 127.0.0.1\n  HostKeyAlias login\n"
            f"  Port {self.proxy.port}\n" + (Path.home() / ".ssh/config").read_text()
        )
        self.live = self.config
        self.env = {**os.environ, "JOBGEN_SSH_CONFIG": str(self.config)}

    def turned(self, connections: int, work: Callable[[], float]) -> Trial:
        """Carry it out and count; ``work`` gives the seconds that sbatch took."""
        before, began, used = self.proxy.turns, time.perf_counter(), _use_cpu()
        sbatch = work()
        wall = time.perf_counter() - began + 2 * self.delay * connections
        return Trial(wall, sbatch, self.proxy.turns - before + connections, _use_cpu() - used)

    def said(self, *words: str) -> str:
        """What a program printed; it must end well."""
        done = subprocess.run(words, env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def by_paramiko(self) -> float:
        """The whole command, by jobgen's own connection."""
        return self._jobgen(self.profile)

    def by_openssh(self) -> float:
        """The whole command, by the ssh program."""
        return self._jobgen(self.openssh)

    def by_shared_openssh(self) -> float:
        """The whole command, by the ssh program through a ControlMaster."""
        return self._jobgen(self.openssh, self.live)

    def _jobgen(self, profile: Path, config: Path | None = None) -> float:
        words = ["submit", str(self.work / "job.yaml"), "-c", str(profile), "--json"]
        self.env["JOBGEN_SSH_CONFIG"] = str(config or self.config)
        answer = json.loads(self.said(sys.executable, "-m", "jobgen", *words))
        # a jobgen that is slow to hang up is still slow: nothing here is left out of the time
        marks = Path(answer["data"]["job"]["dir"]) / "submit"
        began, ended = (marks / name for name in ("attempt.1", "rc.1"))
        return (ended.lstat().st_mtime_ns - began.lstat().st_mtime_ns) / 1e9

    def by_true(self) -> float:
        """What ssh alone takes to log in and to run nothing: the least for the ssh program."""
        self._ssh("true")
        return 0.0

    def by_scp(self) -> float:
        """A person's three commands, each with a connection of its own."""
        target = self._target()
        self._ssh(f"mkdir -p {target}")
        self.said("scp", "-q", "-r", "-F", str(self.config), f"{self.work}/.", f"testbed:{target}")
        return self._submit(target)

    def by_tar(self, config: Path | None = None) -> float:
        """The same by somebody who knows that scp waits for every file."""
        target = self._target()
        tar = f"tar -C {self.work} -cf - . | ssh -F {config or self.config} testbed"
        self.said("sh", "-c", f"{tar} 'mkdir -p {target} && tar -xf - -C {target}'")
        return self._submit(target, config)

    def by_shared_tar(self) -> float:
        """tar and ssh through a ControlMaster."""
        return self.by_tar(self.live)

    def by_rsync(self) -> float:
        """rsync and ssh through a ControlMaster, to a new place as jobgen does."""
        target = self._target()
        self.said("rsync", "-a", "-e", f"ssh -F {self.live}", f"{self.work}/", f"testbed:{target}")
        return self._submit(target, self.live)

    def _target(self) -> Path:
        return self.scratch / f"by-hand-{time.time_ns()}"

    def _ssh(self, command: str, config: Path | None = None) -> str:
        return self.said("ssh", "-F", str(config or self.config), "testbed", command)

    def _submit(self, target: Path, config: Path | None = None) -> float:
        timed = "a=$(date +%s%N); sbatch --parsable --hold train.sh; b=$(date +%s%N); echo $((b-a))"
        return int(self._ssh(f"cd {target} && {timed}", config).split()[-1]) / 1e9


def _use_cpu() -> float:
    """CPU seconds of all programs that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(desk: Desk, chosen: argparse.Namespace) -> None:
    """All ways in turns, then one line a way: medians, and the least beside sbatch and of CPU."""
    ways: dict[str, tuple[int, Callable[[], float]]] = {
        JOBGEN: (1, desk.by_paramiko),
        "jobgen submit, openssh": (1, desk.by_openssh),
        "ssh true": (1, desk.by_true),
        TAR: (2, desk.by_tar),
        SCP: (3, desk.by_scp),
        JOBGEN_SHARED: (0, desk.by_shared_openssh),
        TAR_SHARED: (0, desk.by_shared_tar),
        RSYNC: (0, desk.by_rsync),
    }
    if shutil.which("rsync") is None:
        del ways[RSYNC]
    if chosen.files > MANY:
        kept = (JOBGEN, "jobgen submit, openssh", JOBGEN_SHARED, "ssh true")
        ways = {label: way for label, way in ways.items() if label in kept}
    found: dict[str, list[Trial]] = {label: [] for label in ways}
    desk.turned(1, desk.by_paramiko)  # not counted: the first run writes the byte code
    for turn in range(chosen.rounds):
        for label, (connections, work) in ways.items():
            if turn and work == desk.by_scp:
                continue  # half a minute each: once is enough
            found[label].append(desk.turned(connections, work))
    base = statistics.median(trial.beside for trial in found[JOBGEN])
    where = f"{chosen.files} files of {chosen.bytes} bytes, {2000 * desk.delay:.0f} ms"
    heads = f"{'beside it':>11}{'least':>9}{'to jobgen':>11}{'CPU':>8}"
    print(f"{where:36}{'turns':>6}{'wall':>9}{'sbatch':>9}{heads}")
    for label, trials in found.items():
        wall, sbatch, beside = (
            statistics.median(values)
            for values in zip(*((t.wall, t.sbatch, t.beside) for t in trials), strict=True)
        )
        turns = max(trial.turns for trial in trials)
        least = min(trial.beside for trial in trials)
        cpu = min(trial.cpu for trial in trials)
        print(
            f"{label:36}{turns:6}{wall:8.2f}s{sbatch:8.2f}s{beside:10.2f}s{least:8.2f}s"
            f"{beside / base:10.1f}x{cpu:7.2f}s",
            flush=True,
        )
    _report(found)


def _report(found: dict[str, list[Trial]]) -> None:
    """The medians beside sbatch, as rows of the table."""
    middles = {way: statistics.median(t.beside for t in trials) for way, trials in found.items()}
    for comparison, ours in ((SUBMIT, JOBGEN), (SHARED, JOBGEN_SHARED)):
        beside = {peer: middles[peer] for peer in comparison.peers if peer in middles}
        report(comparison, middles[ours], beside)
        missing = [peer for peer in comparison.peers if peer not in middles]
        leave_out([comparison], "no rsync on this machine", missing)


@contextmanager
def client(options: list[str]) -> Iterator[list[str]]:
    """The words that run this file again, on the client host of a cluster."""
    with Cluster.up(Options(nodes=1, gpus=0)) as cluster:
        folder = cluster.client.home / "benchmark"
        folder.mkdir()
        profile = cluster.profile(procs_per_node=1)
        openssh = cluster.profile(procs_per_node=1, ssh={"backend": "openssh"})
        where = [str(path) for path in (folder, profile, openssh, cluster.scratch)]
        yield cluster.client.words([sys.executable, __file__, *options, "--inside", *where])


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--delay", type=float, default=0.025, help="seconds one way")
    arguments.add_argument("--files", type=int, default=100)
    arguments.add_argument("--bytes", type=int, default=4330, help="of each file")
    arguments.add_argument("--inside", nargs=4, type=Path, help=argparse.SUPPRESS)
    add_option(arguments)
    chosen = arguments.parse_args()
    if chosen.inside:
        folder, profile, openssh, scratch = chosen.inside
        desk = Desk(folder, profile, openssh, scratch, chosen)
        with live_master(desk.config, "testbed") as desk.live:
            measure(desk, chosen)
        sys.stdout.flush()
        os._exit(0)  # the proxy's thread needs no good-bye
    if reason := missing():
        print(f"a submit at a distance is not measured: {reason}")
        leave_out(COMPARISONS, reason)
        return
    with client(sys.argv[1:]) as words:
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
