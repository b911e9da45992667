"""Who gets in and who does not, and what a person is told who does not."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from jobgen.errors import Exit, Unreachable
from jobgen.model.record import Login
from jobgen.transport import connect
from tests.ports import reserved_port
from tests.transport.conftest import over_ssh, works
from tests.transport.sshd import Client, Sshd, keygen, public
from tests.waiting import HANG

pytestmark = pytest.mark.ssh


def refused(login: Login) -> Unreachable:
    with pytest.raises(Unreachable) as caught:
        connect(login)
    assert caught.value.exit is Exit.UNREACHABLE
    assert caught.value.problems[0].hint
    assert "Traceback" not in str(caught.value)
    return caught.value


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The socket of an agent of this test's own, not yet in the environment."""
    path = Path("/tmp") / f"jobgen-agent-{os.getpid()}"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        assert process.poll() is None
    yield path
    process.terminate()
    process.wait()
    path.unlink(missing_ok=True)


def add(agent: Path, *keys: Path) -> None:
    env = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
    subprocess.run(["ssh-add", "-q", *map(str, keys)], check=True, env=env)


@over_ssh
def test_a_host_that_has_no_address(client: Client, backend: str) -> None:
    error = refused(Login(backend, "no-such-host.invalid"))
    assert error.problems[0].code == "J402"
    assert "no-such-host.invalid" in str(error)


@over_ssh
def test_a_port_where_nobody_listens(sshd: Sshd, client: Client, backend: str) -> None:
    with reserved_port() as port:
        client.host("login", sshd, port=port)
        error = refused(Login(backend, "login"))
    assert error.problems[0].code == "J403"
    assert "refused" in str(error)


@over_ssh
def test_a_server_that_never_speaks(sshd: Sshd, client: Client, backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client.host("login", sshd, "ConnectTimeout 1", port=silent.getsockname()[1])
        refused(Login(backend, "login"))


@over_ssh
def test_a_server_that_speaks_something_else(sshd: Sshd, client: Client, backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        client.host("login", sshd, "ConnectTimeout 2", port=other.getsockname()[1])
        pid = os.fork()
        if not pid:
            plug, _ = other.accept()
            plug.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 100)
            plug.close()
            os._exit(0)
        error = refused(Login(backend, "login"))
        os.waitpid(pid, 0)
    assert error.problems[0].code == "J404"


@over_ssh
def test_a_user_whom_the_server_does_not_want(sshd: Sshd, client: Client, backend: str) -> None:
    client.host("login", sshd)
    client.knows(sshd.known_line())
    error = refused(Login(backend, "login", user="nobody-like-that"))
    assert error.problems[0].code == "J405"
    assert "denied" in str(error)


def test_all_that_was_tried_is_listed(sshd: Sshd, client: Client, tmp_path: Path) -> None:
    wrong, locked = keygen(tmp_path / "wrong"), keygen(tmp_path / "locked", passphrase="secret")
    open_to_all = keygen(tmp_path / "open")
    open_to_all.chmod(0o644)
    files = [f"IdentityFile {key}" for key in (wrong, locked)]
    client.host("login", sshd, *files, key=open_to_all)
    client.knows(sshd.known_line())
    error = refused(Login("paramiko", "login"))
    for said in (f"{wrong}: refused", f"{locked}: it needs a passphrase", "chmod 600"):
        assert said in str(error)
    assert "ssh-add" in error.problems[0].hint
    assert "secret" not in str(error)


@over_ssh
@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
@pytest.mark.parametrize("passphrase", ["", "open sesame"])
def test_keys_of_every_kind_let_in(
    new_sshd: Callable[..., Sshd],
    client: Client,
    backend: str,
    kind: str,
    passphrase: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = new_sshd("server")
    key = keygen(server.directory / "key", kind, passphrase)
    server.authorized.write_text(public(key) + "\n")
    client.host("login", server, key=key)
    client.knows(server.known_line())
    if not passphrase:
        works(Login(backend, "login"))
    elif backend == "paramiko":
        monkeypatch.setattr("jobgen.transport.prompts.Terminal.there", True)
        answers = iter(["wrong", passphrase])
        monkeypatch.setattr("getpass.getpass", lambda _: next(answers))
        works(Login(backend, "login"))


@over_ssh
def test_a_key_of_the_agent_is_used(
    sshd: Sshd, client: Client, backend: str, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.host("login", sshd, "IdentitiesOnly no", key="none")
    client.knows(sshd.known_line())
    refused(Login(backend, "login"))
    add(agent, sshd.user_key)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    works(Login(backend, "login"))


@over_ssh
def test_the_agent_that_the_configuration_names_is_used(
    sshd: Sshd, client: Client, backend: str, agent: Path
) -> None:
    client.host("login", sshd, f"IdentityAgent {agent}", "IdentitiesOnly no", key="none")
    client.knows(sshd.known_line())
    add(agent, sshd.user_key)
    works(Login(backend, "login"))


def test_of_a_full_agent_the_named_key_comes_first(
    new_sshd: Callable[..., Sshd],
    client: Client,
    agent: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    server = new_sshd("server", "MaxAuthTries 3")
    add(agent, *(keygen(tmp_path / f"other{i}") for i in range(20)), server.user_key)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    client.host("login", server, "IdentitiesOnly no")
    client.knows(server.known_line())
    works(Login("paramiko", "login"))
    assert "Failed publickey" not in server.log


def test_too_many_wrong_keys_end_in_a_clear_refusal(
    new_sshd: Callable[..., Sshd],
    client: Client,
    agent: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    server = new_sshd("server", "MaxAuthTries 3")
    add(agent, *(keygen(tmp_path / f"other{i}") for i in range(20)))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    client.host("login", server, "IdentitiesOnly no", key="none")
    client.knows(server.known_line())
    error = refused(Login("paramiko", "login"))
    assert "of the agent: refused" in str(error)
    # a site that counts failures locks nobody out: no second connection after the refusal
    tries = re.findall(r"Failed publickey .* port (\d+)", server.log)
    assert len(tries) <= 3
    assert len(set(tries)) <= 1


@over_ssh
def test_the_agent_is_never_forwarded(
    sshd: Sshd, client: Client, backend: str, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(agent, sshd.user_key)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    client.host("login", sshd, "ForwardAgent yes", "ForwardX11 yes", "IdentitiesOnly no")
    client.knows(sshd.known_line())
    with connect(Login(backend, "login")) as transport:
        assert transport.call('echo "${SSH_AUTH_SOCK-none} ${DISPLAY-none}"').text == "none none\n"


@over_ssh
def test_a_configuration_with_include_and_match_is_read_as_ssh_reads_it(
    sshd: Sshd, client: Client, backend: str
) -> None:
    client.host("real", sshd)
    included = client.directory / "included"
    included.write_text(client.config.read_text().replace("Host real", "Match originalhost login"))
    client.config.write_text(
        f'Match exec "false"\n  HostName wrong.invalid\nHost *\nInclude {included}\n'
    )
    client.knows(sshd.known_line())
    works(Login(backend, "login"))


@over_ssh
@pytest.mark.parametrize("words", ["RemoteCommand echo no", "RequestTTY force", "SendEnv LANG"])
def test_lines_that_are_for_people_do_no_harm(
    sshd: Sshd, client: Client, backend: str, words: str
) -> None:
    client.host("login", sshd, words)
    client.knows(sshd.known_line())
    works(Login(backend, "login"))


@over_ssh
@pytest.mark.parametrize(
    ("host", "user"),
    [("-oProxyCommand=touch x", ""), ("a b", ""), ("$(id)", ""), ("login", "a;id"), ("", "")],
)
def test_a_name_that_could_be_an_option_or_a_command_is_refused(
    client: Client, backend: str, host: str, user: str
) -> None:
    assert refused(Login(backend, host, user)).problems[0].code == "J401"


@over_ssh
def test_a_configuration_that_ssh_cannot_read_is_said(client: Client, backend: str) -> None:
    client.config.write_text("Host x\n  NoSuchKeyword yes\n")
    error = refused(Login(backend, "x"))
    assert "NoSuchKeyword" in str(error) or "nosuchkeyword" in str(error)


@pytest.mark.parametrize(
    ("backend", "line", "used"),
    [
        ("paramiko", "", "aes128-gcm@openssh.com"),
        ("openssh", "", "aes128-gcm@openssh.com"),
        ("openssh", "Ciphers aes256-ctr", "aes256-ctr"),
    ],
)
def test_the_fastest_cipher_is_used_unless_the_user_chose_one(
    new_sshd: Callable[..., Sshd], client: Client, backend: str, line: str, used: str
) -> None:
    server = new_sshd("server", "LogLevel DEBUG1")
    client.host("login", server, *([line] if line else []))
    client.knows(server.known_line())
    works(Login(backend, "login"))  # type: ignore[arg-type]
    assert f"kex: client->server cipher: {used} " in server.log


def test_a_server_with_weak_ciphers_only_is_refused(
    new_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = new_sshd("server", "Ciphers aes128-cbc,3des-cbc", "MACs hmac-sha1")
    client.host("login", server)
    client.knows(server.known_line())
    assert "encrypt" in str(refused(Login("paramiko", "login")))


def test_without_an_ssh_program_a_plain_configuration_still_works(
    sshd: Sshd, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client.host("login", sshd)
    client.known_hosts = client.directory / "known_hosts"
    client.config.write_text(client.config.read_text().replace("known hosts", "known_hosts"))
    client.knows(sshd.known_line())
    monkeypatch.setenv("PATH", str(tmp_path))
    works(Login("paramiko", "login", user="root" if os.geteuid() == 0 else ""))
    client.config.write_text("Match all\n" + client.config.read_text())
    assert "Match" in str(refused(Login("paramiko", "login")))
    assert "OpenSSH" in refused(Login("openssh", "login")).problems[0].hint


ASKED = """
import sys
from jobgen.model.record import Login
from jobgen.transport import connect
with connect(Login(sys.argv[1], "login", auth=("key",)), say=print) as transport:
    print(transport.call("echo in").text)
"""


@over_ssh
def test_a_passphrase_is_asked_for_at_a_terminal(
    sshd: Sshd, client: Client, backend: str, tmp_path: Path
) -> None:
    locked = keygen(tmp_path / "locked", passphrase="open sesame")
    sshd.authorized.write_text(sshd.authorized.read_text() + public(locked) + "\n")
    client.host("login", sshd, key=locked)
    client.knows(sshd.known_line())
    program = pexpect.spawn(sys.executable, ["-c", ASKED, backend], timeout=HANG, encoding="utf-8")
    program.expect("Enter passphrase for key .*: ")
    program.sendline("wrong")
    program.expect("Enter passphrase for key .*: ")
    program.sendline("open sesame")
    program.expect("in\r\n")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0


@pytest.fixture
def pam_password() -> Iterator[tuple[str, str]]:
    """A user of this machine who logs in with a password; made and removed as root."""
    if os.geteuid() or not shutil.which("useradd") or not Path("/etc/pam.d/sshd").exists():
        pytest.skip("needs root, useradd and PAM")
    name, word = f"jg{os.getpid()}", "correct horse"
    subprocess.run(["useradd", "-M", "-d", "/tmp", "-s", "/bin/sh", name], check=True)
    subprocess.run(["chpasswd"], input=f"{name}:{word}".encode(), check=True)
    yield name, word
    subprocess.run(["userdel", "-f", name], check=True, capture_output=True)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.slow
@over_ssh
@pytest.mark.parametrize(
    "methods",
    [
        "keyboard-interactive",
        "password",
        "publickey,keyboard-interactive",
        "publickey,password",
    ],
)
def test_questions_of_the_server_are_answered_at_a_terminal(
    new_sshd: Callable[..., Sshd],
    client: Client,
    backend: str,
    methods: str,
    pam_password: tuple[str, str],
    open_directory: Path,
) -> None:
    user, word = pam_password
    server = new_sshd(
        "server",
        "UsePAM yes",
        f"KbdInteractiveAuthentication {'yes' if 'keyboard' in methods else 'no'}",
        f"PasswordAuthentication {'yes' if 'password' in methods else 'no'}",
        f"AuthenticationMethods {methods}",
        # the user's own process must be able to read it, and pytest's directories are closed
        f"AuthorizedKeysFile {open_directory}/authorized_keys",
    )
    shutil.copy(server.authorized, open_directory)
    client.host("login", server, f"User {user}")
    client.knows(server.known_line())
    error = refused(Login(backend, "login"))
    assert error.problems[0].code == "J405"
    program = pexpect.spawn(sys.executable, ["-c", ASKED, backend], timeout=HANG, encoding="utf-8")
    program.expect("[Pp]assword")
    program.sendline("wrong")
    program.expect("[Pp]assword")
    program.sendline(word)
    program.expect("in\r\n")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0


def test_a_connection_that_others_share_outlives_ours(
    new_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = new_sshd("server")
    control = Path("/tmp") / f"jobgen-control-{os.getpid()}"
    client.host("login", server, f"ControlPath {control}", "ControlMaster auto")
    client.knows(server.known_line())
    words = ["ssh", "-F", str(client.config), "login", "echo begun; sleep 0.3; echo done"]
    with connect(Login("openssh", "login")) as transport:
        transport.call(":")
        other = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert other.stdout
        assert other.stdout.readline() == "begun\n"
    assert other.communicate()[0] == "done\n"


def test_a_connection_that_somebody_opened_before_is_used(
    new_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = new_sshd("server")
    control = Path("/tmp") / f"jobgen-control-{os.getpid()}"
    client.host("login", server, f"ControlPath {control}")
    client.knows(server.known_line())
    base = ["ssh", "-F", str(client.config)]
    subprocess.run([*base, "-M", "-f", "-N", "-o", "ControlPersist=30", "login"], check=True)
    try:
        server.authorized.write_text("")  # nobody new gets in any more
        works(Login("openssh", "login"))
        refused(Login("paramiko", "login"))
    finally:
        subprocess.run([*base, "-O", "exit", "login"], capture_output=True)
