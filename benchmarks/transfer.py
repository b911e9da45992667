#!/usr/bin/env python3
"""What the connection costs: connecting, one call, small files at a distance, a large upload.

    python benchmarks/transfer.py [--rounds 5] [--size 200]

Everything is measured in one run against one sshd on loopback, so that ratios mean something on any
machine; 50 ms of round trip are made by a proxy. Needs sshd, ssh, tar and sha256sum.
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


def report(label: str, seconds: float, note: str = "") -> None:
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
                report(
                    f"connect and first call, {backend}, {where}",
                    middle(rounds, hello),
                    f"{turns} turns of the line",
                )
                with connect(login) as transport:
                    call = middle(5 * rounds, lambda t=transport: t.call(":"))  # type: ignore[misc]
                    report(f"call, {backend}, {where}", call)
                    stream = build_payload(scan(work), EXTRA)
                    before = proxy.turns
                    send(transport, stream, place / "out")
                    turns = proxy.turns - before
                    up = middle(rounds, lambda t=transport, s=stream: send(t, s, place / "out"))  # type: ignore[misc]
                    report(f"100 small files, {backend}, {where}", up, f"{turns} turns of the line")


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
    report(f"connection alone, {idle}", connection)
    base = plain - connection
    for label, seconds in list(least.items())[1:]:
        net = base if seconds == plain else seconds
        middle_ = statistics.median(took[label][1:])
        note = f"{size / net:6.0f} MB/s   {base / net:4.0%} of ssh cat less its connection"
        report(f"{size} MB, {label}", seconds, f"{note} (median {middle_ * 1000:.0f} ms)")


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--size", type=int, default=200, help="megabytes of the large upload")
    chosen = arguments.parse_args()
    if MISSING:
        sys.exit(MISSING)
    with world() as (server, client, place):
        small(server, client, place, chosen.rounds)
        large(server, client, place, chosen.rounds, chosen.size)


if __name__ == "__main__":
    main()
