#!/usr/bin/env python3
"""What the connection costs: connecting, one call, small files at a distance, a large upload.

    python benchmarks/transfer.py [--rounds 5] [--size 200]

Everything is measured in one run against one sshd on loopback, so that ratios mean something on any
machine; 50 ms of round trip are made by a proxy. Needs sshd, ssh, tar and sha256sum.

A folder is uploaded by whole processes that connect, send and end: jobgen's upload, rsync and tar,
each with a connection of its own and through a ControlMaster that is already up; first to an empty
place and then, unchanged, again. rsync and tar send to the same place again; jobgen gives each run
a directory of its own and sends all files again, checks their sums on the server and syncs them to
disk; tar does neither, rsync does not sync. The proxy cannot delay the handshake of TCP itself, so
one round trip is added for each connection. Without rsync its rows are left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from comparisons import FAST, Comparison, add_option, leave_out, live_master, report

from jobgen.model.bundle import BundleFile
from jobgen.model.record import Login
from jobgen.shell import build_script
from jobgen.submission import scripts
from jobgen.transport import Payload, Transport, connect
from jobgen.upload import TarStream, build_payload, scan
from tests.transport.proxy import Proxy
from tests.transport.sshd import MISSING, Client, Sshd

MB = 1_000_000
TOKEN = "abcdefghijklmnopqrstuvwxyz"  # noqa: S105 - of a run, and no secret
FOLDER = f"run-{TOKEN[:8]}"
EXTRA = (
    BundleFile("TOKEN", f"{TOKEN}\n".encode(), 0o600),
    BundleFile("bundle/job.sbatch", b"#!/bin/sh\n"),
)
FILES = "100 files of 4,330 bytes, 50 ms round trip"
RSYNC = ("rsync -a", "rsync -a, live ControlMaster")
PEERS = (*RSYNC, "tar | ssh tar", "tar | ssh tar, live ControlMaster")
FIRST = Comparison("upload of a folder", FILES, PEERS)
AGAIN = Comparison("upload of the same folder again", FILES, PEERS)
LARGE = Comparison("upload of a folder", "1 file of 200 MB, no delay", PEERS)
LARGE_AGAIN = Comparison("upload of the same folder again", "1 file of 200 MB, no delay", PEERS)
LIVE = "jobgen, openssh, live ControlMaster"
BY_MASTER = tuple(peer for peer in PEERS if peer.endswith("live ControlMaster"))
SHARED = Comparison("upload, jobgen also through the ControlMaster", FILES, BY_MASTER)
CAT = Comparison("upload, connection already up", "1 file of 200 MB, no delay", ("ssh cat",))
COMPARISONS = (FIRST, AGAIN, SHARED, LARGE, LARGE_AGAIN, CAT)
UPLOAD = f"""\
import sys
from pathlib import Path

from jobgen.model.bundle import BundleFile
from jobgen.model.record import Login
from jobgen.submission import scripts
from jobgen.transport import Payload, connect
from jobgen.upload import build_payload, scan

backend, work, root = sys.argv[1:]
extra = [BundleFile("TOKEN", b"{TOKEN}\\n", 0o600)]
extra += [BundleFile("bundle/job.sbatch", b"#!/bin/sh\\n")]
with connect(Login(backend, "login")) as transport:
    stream = build_payload(scan(Path(work)), extra)
    text = scripts.stage(root, "{FOLDER}", "{TOKEN}", "n")
    result = transport.call(text, Payload(stream.size, stream.chunks), deadline=300)
    assert result.code == 0, result.text
"""
"""The part of a submit that connects and uploads, in a process of its own."""


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def middle(rounds: int, work: Callable[[], object]) -> float:
    """The median of so many rounds, after one that is not counted."""
    work()
    return statistics.median(timed(work) for _ in range(rounds))


@contextmanager
def world() -> Iterator[tuple[Sshd, Client, Path]]:
    """A server, a client's configuration, and a place for files."""
    shared = Path("/dev/shm")  # memory, so that no disk is measured
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        place = Path(name)
        server, client = Sshd(place / "sshd"), Client(place / "client")
        client.host("login", server)
        client.knows(server.known_line(), server.known_line("login"))
        os.environ["JOBGEN_SSH_CONFIG"] = str(client.config)
        os.environ.pop("SSH_AUTH_SOCK", None)
        try:
            yield server, client, place
        finally:
            server.stop()


def send(transport: Transport, stream: TarStream, root: Path) -> None:
    """One upload as submit does it: hashed, sent, unpacked, checked, synced and renamed."""
    text = scripts.stage(str(root), FOLDER, TOKEN, "n")
    result = transport.call(text, Payload(stream.size, stream.chunks), deadline=300)
    assert result.code == 0, result.text
    # out of the way of the next one, in no time that grows with it
    (root / FOLDER).rename(root / f"sent.{time.monotonic_ns()}")


def report_line(label: str, seconds: float, note: str = "") -> None:
    """One line."""
    print(f"{label:<58} {seconds * 1000:9.1f} ms   {note}", flush=True)


def small(server: Sshd, client: Client, place: Path, rounds: int) -> None:
    """Connecting and calling, near and far, and a hundred small files."""
    work = place / "small"
    work.mkdir()
    for n in range(100):
        (work / f"file{n}.py").write_bytes(os.urandom(4330))
    for delay in (0.0, 0.025):
        with Proxy(server.port, delay=delay) as proxy:
            where = f"at {2 * delay * 1000:.0f} ms round trip"
            client.blocks.clear()
            client.host("login", server, "HostKeyAlias login", port=proxy.port)
            for backend in ("paramiko", "openssh"):
                login = Login(backend, "login")  # type: ignore[arg-type]

                def hello(login: Login = login) -> None:
                    with connect(login) as transport:
                        transport.call(":")

                before = proxy.turns
                hello()
                turns = proxy.turns - before
                report_line(
                    f"connect and first call, {backend}, {where}",
                    middle(rounds, hello),
                    f"{turns} turns of the line",
                )
                with connect(login) as transport:
                    call = middle(5 * rounds, lambda t=transport: t.call(":"))  # type: ignore[misc]
                    report_line(f"call, {backend}, {where}", call)
                    stream = build_payload(scan(work), EXTRA)
                    before = proxy.turns
                    send(transport, stream, place / "out")
                    turns = proxy.turns - before
                    up = middle(rounds, lambda t=transport, s=stream: send(t, s, place / "out"))  # type: ignore[misc]
                    report_line(
                        f"100 small files, {backend}, {where}", up, f"{turns} turns of the line"
                    )


def pieces(path: Path) -> Iterator[bytes]:
    """A file, a mebibyte at a time."""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            yield chunk


def large(server: Sshd, client: Client, place: Path, rounds: int, size: int) -> None:
    """One large upload, against ``ssh cat``."""
    work = place / "large"
    work.mkdir()
    data, target = work / "data.bin", place / "target"
    data.write_bytes(os.urandom(MB) * size)
    client.blocks.clear()
    client.host("login", server)
    words = ["ssh", "-F", str(client.config), "-c", "aes128-gcm@openssh.com", "login"]
    manifest = scan(work)

    def by_ssh(command: str) -> None:
        with data.open("rb") as file:
            subprocess.run([*words, command], stdin=file, check=True)

    def by_call(transport: Transport) -> None:
        text = build_script('cat > "$1"', str(target))
        transport.call(text, Payload(size * MB, pieces(data)), deadline=300)

    with connect(Login("paramiko", "login")) as one, connect(Login("openssh", "login")) as two:
        ways: dict[str, Callable[[], object]] = {
            "ssh true": lambda: by_ssh("true"),
            "ssh -c aes128-gcm@openssh.com cat": lambda: by_ssh(f"cat > {target}"),
            "one file by call, paramiko": lambda: by_call(one),
            "as submit uploads, paramiko": lambda: send(
                one, build_payload(manifest, EXTRA), place / "out"
            ),
            "as submit uploads, openssh": lambda: send(
                two, build_payload(manifest, EXTRA), place / "out"
            ),
        }
        took: dict[str, list[float]] = {label: [] for label in ways}
        for _ in range(rounds + 1):
            # in turns, so that a busy moment of the machine hits all alike
            for label, way in ways.items():
                took[label].append(timed(way))
                shutil.rmtree(place / "out", ignore_errors=True)
    # the least: what the way costs when nobody else is at the machine's two cores
    least = {label: min(each[1:]) for label, each in took.items()}
    (idle, connection), (_, plain), *_ = least.items()
    report_line(f"connection alone, {idle}", connection)
    base = plain - connection
    for label, seconds in list(least.items())[1:]:
        net = base if seconds == plain else seconds
        middle_ = statistics.median(took[label][1:])
        note = f"{size / net:6.0f} MB/s   {base / net:4.0%} of ssh cat less its connection"
        report_line(f"{size} MB, {label}", seconds, f"{note} (median {middle_ * 1000:.0f} ms)")
    report(CAT, least["as submit uploads, paramiko"], {"ssh cat": base})


class Folders:
    """Uploads of one folder by whole processes, through a proxy with this delay one way."""

    def __init__(self, place: Path, work: Path, client: Client, live: Path, delay: float) -> None:
        self.place, self.work, self.live, self.delay = place, work, live, delay
        self.env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        self.ssh = ["ssh", "-c", FAST, "-F"]
        self.config = client.config
        self.count = 0

    def by_jobgen(self, backend: str, config: Path, connections: int) -> tuple[float, float]:
        """Two uploads, each into a run directory of its own."""
        self.count += 1
        env = {**self.env, "JOBGEN_SSH_CONFIG": str(config)}
        roots = [str(self.place / f"jobgen.{self.count}.{n}") for n in (1, 2)]
        commands = [[sys.executable, "-c", UPLOAD, backend, str(self.work), root] for root in roots]
        return self._run(commands, connections, env)

    def by_rsync(self, config: Path, connections: int) -> tuple[float, float]:
        """Two uploads to the same place: the second compares what is there."""
        self.count += 1
        ssh, target = " ".join([*self.ssh, str(config)]), self.place / f"rsync.{self.count}"
        words = ["rsync", "-a", "-e", ssh, f"{self.work}/", f"login:{target}/"]
        return self._run([words, words], connections, self.env)

    def by_tar(self, config: Path, connections: int) -> tuple[float, float]:
        """Two uploads to the same place: the second writes all files again."""
        self.count += 1
        target, ssh = self.place / f"tar.{self.count}", " ".join([*self.ssh, str(config), "login"])
        line = f"tar -C {self.work} -cf - . | {ssh} 'mkdir -p {target} && tar -xf - -C {target}'"
        return self._run([["sh", "-c", line]] * 2, connections, self.env)

    def _run(
        self, commands: list[list[str]], connections: int, env: dict[str, str]
    ) -> tuple[float, float]:
        first, again = (
            timed(lambda words=words: subprocess.run(words, check=True, env=env))  # type: ignore[misc]
            for words in commands
        )
        return first + 2 * self.delay * connections, again + 2 * self.delay * connections

    def list_ways(self) -> dict[str, Callable[[], tuple[float, float]]]:
        """Every way to upload, by the name of its row."""
        ways: dict[str, Callable[[], tuple[float, float]]] = {
            "jobgen": lambda: self.by_jobgen("paramiko", self.config, 1),
            "jobgen, openssh": lambda: self.by_jobgen("openssh", self.config, 1),
            LIVE: lambda: self.by_jobgen("openssh", self.live, 0),
            RSYNC[0]: lambda: self.by_rsync(self.config, 1),
            RSYNC[1]: lambda: self.by_rsync(self.live, 0),
            "tar | ssh tar": lambda: self.by_tar(self.config, 1),
            "tar | ssh tar, live ControlMaster": lambda: self.by_tar(self.live, 0),
        }
        with_rsync = shutil.which("rsync") is not None
        return {label: way for label, way in ways.items() if with_rsync or label not in RSYNC}


def folders(
    server: Sshd, client: Client, place: Path, rounds: int, comparisons: tuple[Comparison, ...]
) -> None:
    """A folder sent by every way in turns, to an empty place and once more."""
    first, second = comparisons
    small = first is FIRST
    delay = 0.025 if small else 0.0
    with Proxy(server.port, delay=delay) as proxy:
        client.blocks.clear()
        port = proxy.port if small else 0
        client.host("login", server, "HostKeyAlias login", port=port)
        with live_master(client.config, "login") as live:
            work = place / ("small" if small else "large")
            ways = Folders(place / "uploads", work, client, live, delay).list_ways()
            took: dict[str, list[tuple[float, float]]] = {label: [] for label in ways}
            for turn in range(rounds + 1):
                for label, way in ways.items():
                    (place / "uploads").mkdir()
                    both = way()
                    shutil.rmtree(place / "uploads")
                    if turn:  # the first writes byte code
                        took[label].append(both)
    for comparison, which in ((first, 0), (second, 1)):
        middles = {label: statistics.median(t[which] for t in both) for label, both in took.items()}
        for label, seconds in middles.items():
            note = f"{middles['jobgen'] / seconds:5.2f}x jobgen to it"
            report_line(f"{comparison.what}, {label}", seconds, f"{note}   {comparison.size}")
        _report(comparison, "jobgen", middles)
        if comparison is FIRST:
            _report(SHARED, LIVE, middles)


def _report(comparison: Comparison, ours: str, middles: dict[str, float]) -> None:
    beside = {label: middles[label] for label in comparison.peers if label in middles}
    report(comparison, middles[ours], beside)
    leave_out([comparison], "no rsync on this machine", [*(set(comparison.peers) - set(beside))])


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--size", type=int, default=200, help="megabytes of the large upload")
    add_option(arguments)
    chosen = arguments.parse_args()
    if MISSING:
        leave_out(COMPARISONS, MISSING)
        sys.exit(MISSING)
    with world() as (server, client, place):
        small(server, client, place, chosen.rounds)
        large(server, client, place, chosen.rounds, chosen.size)
        folders(server, client, place, chosen.rounds, (FIRST, AGAIN))
        folders(server, client, place, min(chosen.rounds, 3), (LARGE, LARGE_AGAIN))


if __name__ == "__main__":
    main()
