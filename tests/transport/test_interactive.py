"""Scripts with a person's own terminal or pipes, over each transport, as a process has them."""

from __future__ import annotations

import subprocess
import sys

import pexpect
import pytest

from jobgen.transport.interactive import build_remote_line
from tests.terminals import spawn_on_terminal, spawn_sized
from tests.transport.conftest import BACKENDS, SSH_BACKENDS
from tests.transport.sshd import Client, Sshd
from tests.waiting import HANG

RUN = """
import sys
from jobgen.model.record import Login
from jobgen.transport import connect
with connect(Login(sys.argv[1], "login")) as transport:
    sys.exit(transport.run_interactively(sys.argv[2], tty=len(sys.argv) > 3))
"""
HARD = "printf '%s' 'it'\\''s $HOME `id` !! \\ \u00e9 \U0001f600'"
"""A script that csh, fish and a careless quoting would each misread."""


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend whose host is called login."""
    if request.param != "local":
        sshd: Sshd = request.getfixturevalue("sshd")
        client: Client = request.getfixturevalue("client")
        client.host("login", sshd)
        client.knows(sshd.known_line())
    return str(request.param)


each = pytest.mark.parametrize("backend", BACKENDS, indirect=True)
remote = pytest.mark.parametrize("backend", SSH_BACKENDS, indirect=True)


def run(backend: str, script: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-c", RUN, backend, script]
    return subprocess.run(words, input=stdin, capture_output=True, timeout=HANG)


@each
def test_both_streams_and_the_exit_code_are_those_of_the_script(backend: str) -> None:
    done = run(backend, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


@each
def test_every_byte_of_a_pipe_arrives_and_comes_back(backend: str) -> None:
    data = bytes(range(256)) * 20_000
    done = run(backend, "cat", data)
    assert (done.returncode, done.stdout) == (0, data)


@each
def test_a_script_may_end_before_it_has_read_everything(backend: str) -> None:
    done = run(backend, "head -c 3", b"abc" * 2_000_000)
    assert (done.returncode, done.stdout) == (0, b"abc")


@each
def test_no_shell_misreads_a_script(backend: str) -> None:
    done = run(backend, HARD)
    assert done.stdout.decode() == "it's $HOME `id` !! \\ \u00e9 \U0001f600"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_line_for_a_login_shell_holds_no_sign_that_it_could_misread(shell: str) -> None:
    line = build_remote_line(HARD)
    done = subprocess.run([shell, "-c", line], capture_output=True)
    assert done.stdout.decode() == "it's $HOME `id` !! \\ \u00e9 \U0001f600"
    assert not {*"!\n\\`~#%"} & {*line}


@each
def test_a_terminal_has_the_size_of_ours_and_follows_it(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # left by a program such as readline, from another size
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    later = "until [ \"$(stty size)\" = '41 123' ]; do sleep 0.05; done"
    script = f"stty size; {later}; test -t 0 && test -t 1 && test -t 2 && exit 5"
    words = ["-c", RUN, backend, script, "tty"]
    child = spawn_sized(sys.executable, words, 30, 100, timeout=HANG)
    child.expect_exact("30 100")
    child.setwinsize(41, 123)
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 5


@each
def test_an_interrupt_at_the_terminal_is_for_the_script(backend: str) -> None:
    script = "trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.05; done"
    words = ["-c", RUN, backend, script, "tty"]
    child = spawn_on_terminal(sys.executable, words, timeout=HANG)
    child.expect_exact("ready")
    child.sendintr()
    child.expect_exact("caught")
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 6


@remote
def test_a_terminal_is_as_it_was_afterwards(backend: str) -> None:
    inner = (
        f"{sys.executable} -c '{RUN}' {backend} true tty; stty -a | grep -q ' icanon' && echo kept"
    )
    child = spawn_on_terminal("sh", ["-c", inner], timeout=HANG)
    child.expect_exact("kept")
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
