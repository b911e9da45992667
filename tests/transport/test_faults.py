"""Links that break: cut or silent at any byte, both ways, with both ssh backends."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobgen.errors import Exit, Unreachable
from jobgen.model.record import Login
from jobgen.transport import Payload, connect
from jobgen.transport.ssh import link
from tests.transport.conftest import over_ssh
from tests.transport.proxy import Proxy, Way
from tests.transport.sshd import Client, Sshd
from tests.waiting import HANG, until

pytestmark = pytest.mark.ssh


@pytest.fixture
def through(sshd: Sshd, client: Client) -> Iterator[Callable[..., Proxy]]:
    """Puts a proxy before the server: ``through(patience=…, delay=…, up=…, down=…)``."""
    made: list[Proxy] = []

    def put(patience: int = 300, **how: object) -> Proxy:
        made.append(Proxy(sshd.port, **how))  # type: ignore[arg-type]
        client.blocks.clear()
        client.host("login", sshd, f"ConnectTimeout {patience}", port=made[-1].port)
        client.knows(sshd.known_line(f"[127.0.0.1]:{made[-1].port}"))
        return made[-1]

    yield put
    for proxy in made:
        proxy.close()


def session(backend: str, deadline: float = HANG) -> bytes:
    with connect(Login(backend, "login")) as transport:  # type: ignore[arg-type]
        transport.call("echo one; echo two >&2", deadline=deadline)
        return transport.call("cat; echo done", Payload(5, [b"hello"]), deadline=deadline).out


@pytest.mark.slow
@over_ssh
@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("kind", ["cut", "stall"])
def test_a_link_that_breaks_at_any_byte_is_said_and_nothing_hangs(
    through: Callable[..., Proxy], backend: str, direction: str, kind: str
) -> None:
    proxy = through()
    assert session(backend) == b"hellodone\n"
    whole = getattr(proxy, direction).passed
    chance = random.Random(7)  # noqa: S311
    for after in [0, *sorted(chance.sample(range(1, whole), 3 if kind == "stall" else 12))]:
        through(1 if kind == "stall" else 300, **{direction: Way(after, kind)})  # type: ignore[arg-type]
        error = None
        try:
            # what is cut after the last answer is no loss
            assert session(backend, 1 if kind == "stall" else HANG) == b"hellodone\n"
        except Unreachable as caught:
            error = caught
        assert error is None or (error.exit is Exit.UNREACHABLE and error.problems[0].hint)
        # the server has refused nobody and nothing
        told = f"{error} {error.problems[0].hint}".lower() if error else ""
        assert "denied" not in told
        assert "only copy files" not in told


@over_ssh
def test_a_call_on_a_link_that_is_cut_is_unknown_at_once(
    through: Callable[..., Proxy], backend: str
) -> None:
    proxy = through()
    with connect(Login(backend, "login")) as transport:  # type: ignore[arg-type]
        transport.call("echo")
        proxy.cut()
        with pytest.raises(Unreachable, match=r"login.*(lost|reset|closed)"):
            transport.call("echo x", deadline=HANG)


@over_ssh
def test_an_upload_on_a_link_that_falls_silent_ends_with_its_deadline(
    through: Callable[..., Proxy], backend: str
) -> None:
    through(up=Way(3_000_000, "stall"))
    with connect(Login(backend, "login")) as transport:  # type: ignore[arg-type]
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer within 2 s"):
            transport.call("cat", Payload(64 << 20, iter([bytes(1 << 20)] * 64)), deadline=2)
        assert time.monotonic() - began > 1.9


def test_a_peer_that_is_silent_too_long_is_given_up_before_a_long_deadline(
    through: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "KEEPALIVE", 0.3)
    monkeypatch.setattr(link, "SILENCE", 2.0)
    through(down=Way(12_000, "stall"))
    heard = pytest.raises(Unreachable, match="no data for 2 s")
    with heard, connect(Login("paramiko", "login")) as transport:
        transport.call("head -c 20000 /dev/zero", deadline=HANG)


def test_a_peer_that_works_long_and_says_nothing_is_waited_for(
    through: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It still answers the keepalives: the call goes on through any number of them."""
    answered: list[float] = []

    class Counted(link.Wire):
        def recv(self, count: int) -> bytes:
            data = super().recv(count)
            answered.append(self.heard)
            return data

    monkeypatch.setattr(link, "KEEPALIVE", 0.05)
    monkeypatch.setattr(link, "SILENCE", HANG)
    monkeypatch.setattr(link, "Wire", Counted)
    through()
    begun, go = tmp_path / "begun", tmp_path / "go"
    text = f"touch '{begun}'; until [ -e '{go}' ]; do sleep 0.1; done; echo done"
    with connect(Login("paramiko", "login")) as transport, ThreadPoolExecutor(1) as pool:
        call = pool.submit(transport.call, text, deadline=HANG)
        until(begun.exists)
        before = len(answered)
        until(lambda: len(answered) >= before + 5)
        go.touch()
        assert call.result().text == "done\n"


@over_ssh
def test_a_call_costs_one_round_trip(through: Callable[..., Proxy], backend: str) -> None:
    proxy = through(delay=0.025)
    with connect(Login(backend, "login")) as transport:  # type: ignore[arg-type]
        transport.call("echo")
        before = proxy.turns
        for _ in range(5):
            transport.call("cat", Payload(1000, [bytes(1000)]))
        assert proxy.turns - before <= 6


def test_connecting_by_ssh_costs_no_round_trip_more_than_ssh_itself(
    through: Callable[..., Proxy], client: Client
) -> None:
    alone = through(delay=0.025)
    words = ["ssh", "-F", str(client.config), "login", "echo; cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdin
        assert program.stdout.readline() == b"\n"
        turns = alone.turns
    proxy = through(delay=0.025)
    with connect(Login("openssh", "login")) as transport:
        assert proxy.turns <= turns
        transport.call("echo")
        assert proxy.turns <= turns + 1


def test_a_half_sent_upload_leaves_a_script_with_a_short_input(
    through: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = through()
    got, whole, over = (tmp_path / name for name in ("got", "whole", "over"))
    text = f"cat >'{got}'; [ $(wc -c <'{got}') = 8388608 ] && touch '{whole}'; touch '{over}'"

    def pieces() -> Iterator[bytes]:
        for number in range(8):
            if number == 2:
                # a reset also takes away what has arrived and was not read
                until(lambda: got.exists() and got.stat().st_size)
                proxy.cut()
            yield bytes(1 << 20)

    with connect(Login("paramiko", "login")) as transport, pytest.raises(Unreachable):
        transport.call(text, Payload(8 << 20, pieces()), deadline=HANG)
    until(over.exists)
    assert not whole.exists()
