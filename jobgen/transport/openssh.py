"""SSH by the ``ssh`` program, for what only it can do: ControlMaster, FIDO keys, Kerberos, host
certificates, and two-factor logins that somebody has answered already."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from jobgen.errors import Diagnostic, Unreachable
from jobgen.model.record import Login
from jobgen.shell import split_lines
from jobgen.transport.interactive import build_remote_line, run_program
from jobgen.transport.known_hosts import find_lines
from jobgen.transport.pipes import PipeChannel
from jobgen.transport.prompts import Terminal, strip_controls
from jobgen.transport.protocol import BOOTSTRAP_READY, Session
from jobgen.transport.route import Route, find_route, list_config_options
from jobgen.transport.streams import ProgramStream

_WITH_PERSON = 240.0
"""Seconds in which somebody finds a telephone and types a code."""

# what our words say wins over ssh_config: no off switch for host keys, nothing forwarded
_OPTIONS = (
    "StrictHostKeyChecking=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
)

# each connection that is refused would leave a line in a pipe that nobody reads
_MASTER = ("ControlMaster=yes", "ControlPersist=no", "LogLevel=ERROR")
# Ctrl-C at the terminal is for jobgen; in a session of its own ssh could not ask there
_SHIELD = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
_GCM = "aes128-gcm@openssh.com,aes256-gcm@openssh.com"
_CTR = "aes128-ctr,aes192-ctr,aes256-ctr"
_DEFAULT_CIPHERS = (
    # OpenSSH 10.0 and later, and 6.7 to 9.9
    f"chacha20-poly1305@openssh.com,{_GCM},{_CTR}",
    f"chacha20-poly1305@openssh.com,{_CTR},{_GCM}",
)
_OFF = ("no", "off", "false")

# ssh's words, the code, and what to do; the first that is found decides
_REASONS = (
    (
        r"HOST IDENTIFICATION HAS CHANGED",
        "J407",
        (
            "someone may be intercepting the connection; if the new key is right: ssh-keygen "
            "-R '{name}'"
        ),
    ),
    (
        r"revoked",
        "J408",
        "ask your site for its new key; this one was stolen or retired",
    ),
    (
        r"host key is known|Host key verification failed",
        "J406",
        "`ssh {host}` once, compare the fingerprint with your site's, and answer yes",
    ),
    (
        r"Could not resolve",
        "J402",
        "check the name (ssh.host of a profile, or --from), and HostName in ~/.ssh/config",
    ),
    (
        r"refused|timed out|[Uu]nreachable|No route",
        "J403",
        "you may need a VPN or a jump host (ProxyJump in ~/.ssh/config)",
    ),
    (
        r"Permission denied|authentication failures",
        "J405",
        "`ssh {host}` shows the same login; with two factors, log in once with ControlMaster",
    ),
    (r"kex_exchange_identification", "J404", "`ssh -v {host}` shows more"),
    (
        r"Connection (closed|reset) by|Broken pipe",
        "J409",
        "run the same command again; nothing was sent",
    ),
    (r"", "J404", "`ssh -v {host}` shows more"),
)


class SshProgram(PipeChannel):
    """An ``ssh`` that runs the bootstrap line."""

    def __init__(self, words: Sequence[str], *, may_serve_others: bool) -> None:
        """As a ControlMaster it ``may_serve_others``, and ends only when nobody needs it."""
        super().__init__(words, own_session=False)
        self._may_serve_others = may_serve_others

    def close(self) -> None:
        """End it. All answers are in, so it need not wait until the server has said goodbye."""
        if not self._may_serve_others:
            with contextlib.suppress(ProcessLookupError):
                self._child.terminate()
        super().close()

    def describe_end(self) -> str:
        """The last line that ssh wrote, where it has ended."""
        code, text = self.read_exit()
        lines = [line.strip() for line in split_lines(text) if line.strip()]
        return strip_controls(lines[-1]) if lines and code is not None else ""


class OpensshTransport(Session):
    """A Transport to the host of this login, connected. Raises Unreachable with what to do."""

    def __init__(self, login: Login, *, say: Callable[[str], None] | None = None) -> None:
        if not shutil.which("ssh"):
            problem = Diagnostic(
                "J401",
                "backend openssh needs the ssh program, which is not on PATH",
                hint="install the OpenSSH client, or write `backend: paramiko` under ssh:",
            )
            raise Unreachable(problem)
        target = find_route(login.host, login.user, login.port)
        _refuse_unchecked_jumps(target)
        self._pinned = _pinned(target, login.fingerprint) if login.fingerprint else None
        person = Terminal(say).there
        ciphers = _prefer_ciphers(target.ciphers)
        self._words = partial(_list_words, login, self._pinned, ciphers, person=person)
        self._shared = target.control_master not in _OFF
        self._deadline = _WITH_PERSON if person else 3 * target.connect_timeout
        self._master: _Master | None = None
        self._opening = threading.Lock()
        words = [*_SHIELD, *self._words(), "--", login.host, BOOTSTRAP_READY]
        self._program = SshProgram(words, may_serve_others=self._shared)
        super().__init__(self._program, target.label)
        self._host = login.host
        try:
            self.await_ready(self._deadline)
        except Unreachable as error:
            self.close()
            raise _explained(self._program, target) or error from None

    def run_interactively(self, script: str, *, tty: bool) -> int:
        """The exit code of a script that an ``ssh`` of its own runs."""
        words = self._words("RequestTTY=force", "LogLevel=ERROR") if tty else self._words()
        return run_program([*words, "--", self._host, build_remote_line(script)], patient=tty)

    def open_stream(self, host: str, port: int) -> ProgramStream:
        """A connection through the login host: an ``ssh -W`` that shares one login."""
        return ProgramStream([*self._share_login(), "-W", f"{host}:{port}", "--", self._host])

    def open_program(self, script: str) -> ProgramStream:
        """The streams of a script, by an ``ssh`` that shares one login."""
        return ProgramStream([*self._share_login(), "--", self._host, build_remote_line(script)])

    def _share_login(self) -> list[str]:
        """An ssh that uses the master's login."""
        shared = () if self._shared else (f"ControlPath={self._open_master()}", "ControlMaster=no")
        # nobody can be asked for a password in the middle of a request
        return self._words("BatchMode=yes", *shared)

    def _open_master(self) -> Path:
        with self._opening:
            if self._master is None:
                self._master = _Master(self._words, self._host, self._where, self._deadline)
            return self._master.socket

    def close(self) -> None:
        """End the connection; may be called twice."""
        super().close()
        if self._master:
            self._master.close()
        if self._pinned:
            self._pinned.unlink(missing_ok=True)


class _Master:
    """A login that ssh programs share through a socket, where ssh_config makes none."""

    def __init__(
        self, build_words: Callable[..., list[str]], host: str, where: str, deadline: float
    ) -> None:
        # a socket's path has about 100 characters at the most
        short = "/tmp" if len(tempfile.gettempdir()) > 60 else None  # noqa: S108
        self._folder = tempfile.TemporaryDirectory(prefix="jobgen-ssh-", dir=short)
        self.socket = Path(self._folder.name) / "s"
        words = build_words(*_MASTER, f"ControlPath={self.socket}")
        words = [*_SHIELD, *words, "--", host, BOOTSTRAP_READY]
        # at our end, however it comes, its standard input ends and with it the session
        self._session = Session(SshProgram(words, may_serve_others=False), where)
        try:
            self._session.await_ready(deadline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, with what it carries."""
        self._session.close()
        self._folder.cleanup()


def _prefer_ciphers(ciphers: str) -> tuple[str, ...]:
    """The option that puts AES-GCM first, where nobody has chosen: with the instructions that
    processors have for it, a large upload takes up to a third less time than with ChaCha20."""
    if ciphers not in _DEFAULT_CIPHERS:
        return ()
    first = sorted(ciphers.split(","), key=lambda name: "gcm" not in name)
    return (f"Ciphers={','.join(first)}",)


def _list_words(
    login: Login, pinned: Path | None, ciphers: Sequence[str], *first: str, person: bool
) -> list[str]:
    """An ssh without its host and command; of an option that comes twice the ``first`` wins."""
    options = [*first, *_OPTIONS, *ciphers]
    if not person:
        options.append("BatchMode=yes")
    if pinned:
        options += [f'UserKnownHostsFile="{pinned}"', "GlobalKnownHostsFile=none"]
        options.append("UpdateHostKeys=no")
    words = ["ssh", *list_config_options()]
    words += [word for option in options for word in ("-o", option)]
    words += ["-l", login.user] if login.user else []
    words += ["-p", str(login.port)] if login.port else []
    return words


def _refuse_unchecked_jumps(target: Route) -> None:
    # our options are not handed on to the ssh that connects to a jump host
    for hop in target.list_jumps():
        if hop.host_key_checking in _OFF:
            problem = Diagnostic(
                "J406",
                f"{target.label}: ssh_config sets StrictHostKeyChecking no for the jump "
                f"host {hop.host}, so another machine could impersonate it",
                hint=f"remove that line, then `ssh {hop.host}` once",
            )
            raise Unreachable(problem)


def _pinned(target: Route, fingerprint: str) -> Path:
    """A known_hosts file with the pinned key alone, and what is revoked."""
    lines = find_lines(target.known_name, target.known_hosts)
    wanted = [x for x in lines if not x.marker and x.key.fingerprint == fingerprint.rstrip("=")]
    if not wanted:
        problem = Diagnostic(
            "J406",
            f"{target.label}: known_hosts has no key with the fingerprint {fingerprint} that the "
            "cluster profile names",
            hint=f"`ssh {target.host}` once and answer yes if it shows that fingerprint",
        )
        raise Unreachable(problem)
    kept = [*wanted, *(x for x in lines if x.marker == "@revoked")]
    with tempfile.NamedTemporaryFile(
        "w", prefix="jobgen-known-hosts-", delete=False, encoding="ascii"
    ) as file:
        for line in kept:
            key = b64encode(line.key.blob).decode()
            file.write(f"{line.marker} {target.known_name} {line.key.type} {key}\n".lstrip())
    return Path(file.name)


def _explained(program: SshProgram, target: Route) -> Unreachable | None:
    """The error for ssh's own failure; None where ssh got through and something else failed."""
    code, text = program.read_exit()
    if code != 255:
        return None
    lines = [strip_controls(line.strip("@ \t\r")) for line in split_lines(text)]
    lines = [line for line in lines if line] or ["ssh exited without a message"]
    told = [(reason, line) for reason in _REASONS for line in lines if re.search(reason[0], line)]
    (_, problem_code, hint), said = told[0]
    where = [line for line in lines if line.startswith("Offending")]
    what = "; ".join([f"{target.label}: {said}", *where])
    filled = hint.format(host=target.host, name=target.known_name)
    return Unreachable(Diagnostic(problem_code, what, hint=filled))
