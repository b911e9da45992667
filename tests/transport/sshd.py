"""A real sshd on loopback: own keys, own port, own home directory; nothing of the real user's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.ports import reserved_port
from tests.waiting import until

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/sbin:/usr/local/sbin")
MISSING = (
    ""
    if SSHD and shutil.which("ssh") and shutil.which("ssh-keygen")
    else "no sshd here: apt-get install --no-install-recommends openssh-server openssh-client"
)


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A fresh key pair; the public half lies in ``path.pub``."""
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(words, check=True)
    return path


def public(key: Path) -> str:
    """``type base64`` of a key pair."""
    return " ".join(key.with_name(key.name + ".pub").read_text().split()[:2])


@dataclass
class Sshd:
    """One server. ``lines`` are added to its configuration, ``home`` is where sessions start."""

    directory: Path
    lines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("ed25519",)
    home: Path = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.home = self.directory / "home"
        self.home.mkdir(exist_ok=True)
        self.host_keys = [keygen(self.directory / f"host_{kind}", kind) for kind in self.kinds]
        self.user_key = keygen(self.directory / "user_key")
        self.authorized = self.directory / "authorized_keys"
        self.authorized.write_text(public(self.user_key) + "\n")
        self._reserved = ExitStack()
        self.port = self._reserved.enter_context(reserved_port())
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        config = self.directory / "sshd_config"
        config.write_text("\n".join([*self._config(), *self.lines]) + "\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where a distribution's sshd drops privileges
        log = self.directory / "sshd.log"
        assert SSHD
        self._process = subprocess.Popen([SSHD, "-D", "-f", str(config), "-E", str(log)])
        until(lambda: self._answers() or self._process.poll() is not None, pause=0.02)
        assert self._process.poll() is None, f"sshd does not start: {log.read_text()}"

    def _answers(self) -> bool:
        with socket.socket() as plug:
            return plug.connect_ex(("127.0.0.1", self.port)) == 0

    def _config(self) -> list[str]:
        # first value wins in sshd_config, so what a test adds must not be here
        added = {line.split()[0] for line in self.lines}
        standard = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "AuthorizedKeysFile": str(self.authorized),
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PermitRootLogin": "yes",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "SetEnv": f'"HOME={self.home}"',
            "PrintMotd": "no",
            "LogLevel": "VERBOSE",
        }
        keys = [f"HostKey {key}" for key in self.host_keys]
        return keys + [f"{key} {value}" for key, value in standard.items() if key not in added]

    @property
    def log(self) -> str:
        """What the server has written."""
        return (self.directory / "sshd.log").read_text()

    def known_line(self, name: str = "", key: int = 0) -> str:
        """The line of known_hosts for this server."""
        return f"{name or f'[127.0.0.1]:{self.port}'} {public(self.host_keys[key])}\n"

    def stop(self) -> None:
        """End it, with the sessions that it started."""
        self._process.terminate()
        self._process.wait()
        self._reserved.close()


@dataclass
class Client:
    """A client's ssh configuration and known_hosts, which ``JOBGEN_SSH_CONFIG`` will name."""

    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "config"
        self.known_hosts = self.directory / "known hosts"
        self.blocks: list[str] = []

    def host(
        self, name: str, server: Sshd, *lines: str, port: int = 0, key: Path | str = ""
    ) -> None:
        """Write a Host block; ``lines`` come first, and the first value of a keyword wins."""
        standard = (
            "HostName 127.0.0.1",
            f"Port {port or server.port}",
            f"IdentityFile {key or server.user_key}",
            "IdentitiesOnly yes",
            f'UserKnownHostsFile "{self.known_hosts}"',
            "GlobalKnownHostsFile none",
        )
        self.blocks.append("\n  ".join([f"Host {name}", *lines, *standard]))
        self.config.write_text("\n".join(self.blocks) + "\n")

    def knows(self, *lines: str) -> None:
        """Write known_hosts."""
        self.known_hosts.write_text("".join(line.rstrip("\n") + "\n" for line in lines))
