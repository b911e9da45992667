"""Whatever the login shell is, whatever its start-up files print, calls are the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from jobgen.errors import Unreachable
from jobgen.model.record import Login
from jobgen.shell import build_script
from jobgen.transport import Payload, connect
from tests.transport.conftest import over_ssh
from tests.transport.sshd import Client, Sshd

pytestmark = pytest.mark.ssh

NOISE = 'printf "Welcome! no newline"; echo "<0123<" >&2; echo "123:0"'
RC = {
    "bash": (".bashrc", NOISE),
    "dash": (".profile", NOISE),
    "tcsh": (".tcshrc", "echo -n 'Welcome! no newline'; echo 123:0"),
    "fish": (".config/fish/config.fish", "printf 'Welcome'; echo noise >&2"),
}
FORCED = {
    # bash reads .bashrc for sshd by itself, but only where it is the login shell
    "bash": 'BASH_ENV=$HOME/.bashrc exec bash -c "$SSH_ORIGINAL_COMMAND"',
    "dash": '. $HOME/.profile; exec dash -c "$SSH_ORIGINAL_COMMAND"',
    "tcsh": 'exec tcsh -c "$SSH_ORIGINAL_COMMAND"',
    "fish": 'exec fish -c "$SSH_ORIGINAL_COMMAND"',
}


def login(client: Client, server: Sshd, backend: str) -> Login:
    client.host("login", server)
    client.knows(server.known_line())
    return Login(backend, "login")  # type: ignore[arg-type]


@over_ssh
@pytest.mark.parametrize("shell", list(RC))
def test_a_login_shell_and_its_noise_make_no_difference(
    new_sshd: Callable[..., Sshd], client: Client, backend: str, shell: str
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here: apt-get install {shell}")
    server = new_sshd("server", f"ForceCommand {FORCED[shell]}")
    name, text = RC[shell]
    (server.home / name).parent.mkdir(parents=True, exist_ok=True)
    (server.home / name).write_text(text + "\n")
    with connect(login(client, server, backend)) as transport:
        words = ["it's!", "a\nb", "$x"]
        result = transport.call(
            build_script("""printf '%s|' "$@"; cat""", *words), Payload(3, [b"\0!\n"])
        )
        assert result.out == b"it's!|a\nb|$x|\0!\n"
        assert result.err == b""
        assert transport.call("exit 4").code == 4
        assert b"Welcome" in transport.noise, "it is kept for whoever asks"
        assert set(transport.took) == (
            {"network", "host key", "login"} if backend == "paramiko" else set()
        )


@over_ssh
def test_a_silent_login_shell_has_no_noise(sshd: Sshd, client: Client, backend: str) -> None:
    with connect(login(client, sshd, backend)) as transport:
        transport.call("echo; echo noise later")
        assert transport.noise == b""


@over_ssh
def test_a_home_directory_with_spaces_and_quotes(
    new_sshd: Callable[..., Sshd], client: Client, backend: str, tmp_path
) -> None:
    home = tmp_path / "run a'b"
    home.mkdir()
    server = new_sshd("server", f'SetEnv "HOME={home}"')
    with connect(login(client, server, backend)) as transport:
        assert transport.call("pwd").text == f"{home}\n"


@over_ssh
def test_a_home_directory_that_is_gone_does_not_stop_a_script(
    new_sshd: Callable[..., Sshd], client: Client, backend: str
) -> None:
    server = new_sshd("server", "SetEnv HOME=/no/such/home")
    with connect(login(client, server, backend)) as transport:
        assert transport.call("pwd").text == "/\n"


@over_ssh
@pytest.mark.parametrize(
    ("forced", "said"),
    [
        ("echo This account is for file transfer only.", "file transfer only"),
        ("/bin/false", "lost"),
    ],
)
def test_an_account_that_runs_no_commands_is_told_in_its_own_words(
    new_sshd: Callable[..., Sshd], client: Client, backend: str, forced: str, said: str
) -> None:
    server = new_sshd("server", f"ForceCommand {forced}")
    with (
        pytest.raises(Unreachable, match=said),
        connect(login(client, server, backend)) as transport,
    ):
        transport.call("echo hello")
