"""The servers, and a transport of each kind to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobgen.model.record import Login
from jobgen.transport import Transport, connect
from tests.transport.sshd import MISSING, Client, Sshd

BACKENDS = (
    "local",
    pytest.param("openssh", marks=pytest.mark.ssh),
    pytest.param("paramiko", marks=pytest.mark.ssh),
)
SSH_BACKENDS = BACKENDS[1:]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if MISSING and item.get_closest_marker("ssh"):
        pytest.skip(MISSING)


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server that any test may use and none may change."""
    if MISSING:
        pytest.skip(MISSING)
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.stop()


@pytest.fixture
def new_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Makes servers of this test's own: ``new_sshd(name, *lines)``."""
    servers: list[Sshd] = []

    def make(name: str, *lines: str, kinds: tuple[str, ...] = ("ed25519",)) -> Sshd:
        servers.append(Sshd(tmp_path / name, lines, kinds))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """This test's own ssh configuration; the agent of whoever runs the tests is out of reach."""
    client = Client(tmp_path / "client")
    client.config.write_text("")
    client.known_hosts.write_text("")
    monkeypatch.setenv("JOBGEN_SSH_CONFIG", str(client.config))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "never")
    return client


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    """A transport of the kind that the test is parametrised with."""
    if request.param == "local":
        with connect(Login("local")) as made:
            yield made
        return
    sshd: Sshd = request.getfixturevalue("sshd")
    client: Client = request.getfixturevalue("client")
    client.host("login", sshd)
    client.knows(sshd.known_line())
    with connect(Login(request.param, "login")) as made:
        yield made


everywhere = pytest.mark.parametrize("transport", BACKENDS, indirect=True)
over_ssh = pytest.mark.parametrize("backend", SSH_BACKENDS)


def works(login: Login) -> None:
    """Check that a call over a connection answers."""
    with connect(login) as transport:
        assert transport.call("echo in").text == "in\n"
