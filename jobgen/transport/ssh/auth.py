"""Logging in: keys of the agent, keys in files, then questions to the person at the terminal."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH

from jobgen.errors import Diagnostic, Unreachable
from jobgen.transport.known_hosts import HostKey, display_path
from jobgen.transport.prompts import Terminal
from jobgen.transport.route import Route

MOST_KEYS = 5
"""sshd hangs up after six failures, and some sites lock the account."""

MOST_QUESTIONS = 3


class _Agent(AgentSSH):
    """The agent at a socket; paramiko's own knows only the one in the environment."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.plug = socket.socket(socket.AF_UNIX)
        try:
            self.plug.settimeout(30.0)
            self.plug.connect(path)
            self._connect(self.plug)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException):
            self.plug.close()

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]
        self.plug.close()


def log_in(
    transport: paramiko.Transport,
    hop: Route,
    auth: Sequence[str],
    terminal: Terminal,
    farewell: Callable[[], str],
) -> None:
    """Log in, or raise Unreachable with all that was tried. The agent is never forwarded.

    ``farewell`` returns the server's reason for hanging up; empty if it gave none.
    """
    attempt = _Attempt(transport, hop, terminal)
    agent = _agent_of(hop) if "agent" in auth else None
    lost = False
    try:
        attempt.run(_keys(hop, agent, auth, attempt))
    except (paramiko.SSHException, EOFError, OSError):
        lost = True
        # a send can fail before paramiko's reader has read the server's reason and the end
        transport.join(hop.connect_timeout)
    finally:
        if agent:
            agent.close()
    if transport.is_authenticated():
        return
    if reason := farewell():
        attempt.tried.append(f"then the server hung up: {reason}")
    elif lost or not transport.is_active():
        raise explain_lost(hop.label)
    tried = "; ".join(attempt.tried) or "nothing: there is no key in the agent or in ~/.ssh"
    raise Unreachable(
        Diagnostic(
            "J405",
            f"{hop.label}: permission denied for user {hop.user}; tried: {tried}",
            hint=attempt.hint(),
        )
    )


def explain_lost(where: str) -> Unreachable:
    """The error for a connection that broke before the login was done."""
    problem = Diagnostic(
        "J409",
        f"{where}: the connection was lost during login",
        hint="run the same command again; nothing was sent",
    )
    return Unreachable(problem)


class _Attempt:
    """One login: what has been tried, and what the server still wants."""

    def __init__(self, transport: paramiko.Transport, hop: Route, terminal: Terminal) -> None:
        self.transport = transport
        self.hop = hop
        self.terminal = terminal
        self.tried: list[str] = []
        self.wanted: Sequence[str] = ()
        self.locked: Path | None = None

    def run(self, keys: Iterator[tuple[str, paramiko.PKey]]) -> None:
        """Try keys, then questions, until the server is content."""
        for count, (label, key) in enumerate(keys):
            if count == MOST_KEYS:
                self.tried.append(f"at most {MOST_KEYS} keys are tried")
                break
            if self.offer(label, key):
                return
            if self.wanted:
                break
        if not self.wanted:
            self.ask_what_is_wanted()
        self.answer_questions()

    def offer(self, label: str, key: paramiko.PKey) -> bool:
        """Whether this key was enough; ``wanted`` is what remains, where it was not."""
        try:
            self.wanted = self.transport.auth_publickey(self.hop.user, key)
        except paramiko.BadAuthenticationType as error:
            self.wanted = error.allowed_types
            self.tried.append("the server accepts no keys")
            return False
        except paramiko.AuthenticationException as error:
            self.tried.append(f"{label}: refused" + _detail(error))
            return False
        if not self.wanted:
            return True
        self.tried.append(f"{label}: accepted, but the server wants more")
        return False

    def ask_what_is_wanted(self) -> None:
        """Ask for nothing; the refusal lists what the server takes."""
        try:
            self.transport.auth_none(self.hop.user)
        except paramiko.BadAuthenticationType as error:
            self.wanted = error.allowed_types
        except paramiko.AuthenticationException:
            self.wanted = ()

    def answer_questions(self) -> None:
        """keyboard-interactive, else password, with the person who sits at the terminal."""
        ways = {"keyboard-interactive": self.interactive, "password": self.password}
        for name, way in ways.items():
            if name not in self.wanted or self.transport.is_authenticated():
                continue
            if not self.terminal.there:
                self.tried.append(f"{name}: no terminal to ask on")
                continue
            self.terminal.show((self.transport.get_banner() or b"").decode("utf-8", "replace"))
            for _ in range(MOST_QUESTIONS):
                try:
                    way()
                except paramiko.AuthenticationException as error:
                    self.tried.append(f"{name}: refused" + _detail(error))
                else:
                    return

    def interactive(self) -> None:
        def handler(
            title: str, instructions: str, prompts: Sequence[tuple[str, bool]]
        ) -> list[str]:
            for text in (title, instructions):
                self.terminal.show(text)
            return [self.terminal.ask(prompt, echo=echo) for prompt, echo in prompts]

        self.transport.auth_timeout = 180.0  # a person looks for a telephone
        self.transport.auth_interactive(self.hop.user, handler)

    def password(self) -> None:
        text = self.terminal.ask(f"{self.hop.user}@{self.hop.host}'s password: ")
        self.transport.auth_password(self.hop.user, text, fallback=False)

    def hint(self) -> str:
        """What to do next."""
        if self.locked:
            return f"ssh-add {display_path(self.locked)}"
        if {"keyboard-interactive", "password"} & set(self.wanted) and not self.terminal.there:
            return (
                "run it from a terminal, or log in once with ssh and ControlMaster and write "
                "`backend: openssh` under ssh: in the cluster profile"
            )
        return f"ssh -v {self.hop.host} shows the same login step by step"


def _detail(error: Exception) -> str:
    text = str(error).rstrip(".")
    return "" if not text or text.lower().startswith("authentication failed") else f" ({text})"


def _agent_of(hop: Route) -> _Agent | None:
    path = hop.identity_agent
    if path == "none":
        return None
    if path == "SSH_AUTH_SOCK":
        path = os.environ.get(path, "")
    path = str(Path(os.path.expandvars(path)).expanduser()) if path else ""
    return _Agent(path) if path else None


def _keys(
    hop: Route, agent: _Agent | None, auth: Sequence[str], attempt: _Attempt
) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys in ssh's order: those of the agent that ssh_config names, other agent keys, files."""
    files = [p for p in hop.identity_files if p.is_file() or _pub(p).is_file()]
    named = {blob for p in files if (blob := _public_blob(p))}
    held = list(agent.get_keys()) if agent else []
    held.sort(key=lambda k: k.asbytes() not in named)
    offered = set()
    for key in held:
        blob = key.asbytes()
        if blob in named or not hop.identities_only:
            offered.add(blob)
            yield f"{HostKey(key.get_name(), blob)} of the agent", key
    if "key" not in auth:
        return
    for path in files:
        if path.is_file() and _public_blob(path) not in offered:
            key_in_file = _load(path, hop, attempt)
            if key_in_file and key_in_file.asbytes() not in offered:
                offered.add(key_in_file.asbytes())
                yield display_path(path), key_in_file


def _load(path: Path, hop: Route, attempt: _Attempt) -> paramiko.PKey | None:
    """The key in a file; None, and why, where it cannot be used."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        attempt.tried.append(
            f"{display_path(path)}: not used, because others can read it (chmod 600)"
        )
        return None
    try:
        key = _unlocked(path, attempt)
        if key and key.public_blob is None:
            for certificate in hop.certificate_files:
                if certificate.is_file():
                    key.load_certificate(str(certificate))
    except (paramiko.SSHException, ValueError, OSError) as error:
        attempt.tried.append(f"{display_path(path)}: it cannot be used ({error})")
        return None
    return key


def _unlocked(path: Path, attempt: _Attempt) -> paramiko.PKey | None:
    """The key, with its passphrase asked for where it has one and there is somebody to ask."""
    try:
        return _parse(path, None)
    except paramiko.PasswordRequiredException:
        pass
    if not attempt.terminal.there:
        attempt.locked = attempt.locked or path
        attempt.tried.append(f"{display_path(path)}: it needs a passphrase")
        return None
    for left in reversed(range(MOST_QUESTIONS)):
        text = attempt.terminal.ask(f"Enter passphrase for key '{display_path(path)}': ")
        try:
            return _parse(path, text)
        except (paramiko.SSHException, ValueError):
            if not left:
                raise
    return None


def _parse(path: Path, passphrase: str | None) -> paramiko.PKey:
    # PKey.from_path (5.1) fails on every passphrase: it hands text to what takes bytes
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            key = kind.from_private_key_file(str(path), passphrase)
        except paramiko.PasswordRequiredException:
            raise
        except (paramiko.SSHException, ValueError):
            continue
        certificate = path.with_name(path.name + "-cert.pub")
        if certificate.is_file():
            key.load_certificate(str(certificate))
        return key
    why = "wrong passphrase" if passphrase else "a kind of key that paramiko does not read"
    raise paramiko.SSHException(why)


def _pub(path: Path) -> Path:
    return path.with_name(path.name + ".pub")


def _public_blob(path: Path) -> bytes:
    """The public half of a key file, where it lies beside it (or is all there is)."""
    import base64
    import binascii

    for candidate in (_pub(path), path):
        try:
            words = candidate.read_text("ascii").split()
            return base64.b64decode(words[1], validate=True)
        except (OSError, ValueError, IndexError, binascii.Error):
            continue
    return b""
