"""A verified, logged-in SSH connection over a socket of our own making."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, Protocol, cast

import paramiko

from jobgen.errors import Diagnostic, Unreachable
from jobgen.transport.prompts import Terminal
from jobgen.transport.route import Route
from jobgen.transport.ssh.auth import explain_lost, log_in
from jobgen.transport.ssh.trust import Pin, choose_key_types, verify

KEEPALIVE = 15.0
SILENCE = 45.0
"""Seconds in which nothing arrives, though an answer was asked for, after which a peer is dead."""

WINDOW = 16 << 20
_USER_TIMEOUT_MS = 30_000

# GCM runs at twice the speed of CTR and HMAC; CBC, MD5 and SHA-1 are not offered at all
_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
_MACS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)


# not ServiceRequestingTransport, which asks for the login service only once: it waits for that
# answer in steps of 0.1 s, and for ever where the link is gone (5.1)
class _Transport(paramiko.Transport):
    """One that keeps the server's reason for hanging up."""

    farewell = ""

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        self.farewell = message.get_text() or "without a word"


class Plug(Protocol):
    """What paramiko needs of a socket."""

    def send(self, data: bytes, /) -> int: ...
    def recv(self, count: int, /) -> bytes: ...
    def settimeout(self, value: float | None, /) -> None: ...
    def close(self) -> None: ...


class Wire:
    """A socket that remembers when it last heard something."""

    def __init__(self, plug: Plug) -> None:
        self._plug = plug
        self.heard = time.monotonic()
        self.expired = False
        self.send = plug.send
        self.settimeout = plug.settimeout
        self._closed = False  # paramiko's reader asks for it by this name

    def recv(self, count: int) -> bytes:
        """Bytes that came; also notes when."""
        data = self._plug.recv(count)
        self.heard = time.monotonic()
        return data

    @contextlib.contextmanager
    def limit_time(self, seconds: float) -> Iterator[threading.Timer]:
        """A block that lasts no longer: then the wire is closed, and all in it fails."""
        # paramiko's own limits are one for every step, and some steps have none
        limit = threading.Timer(seconds, self._expire)
        limit.daemon = True
        limit.start()
        try:
            yield limit
        finally:
            limit.cancel()

    def _expire(self) -> None:
        self.expired = True
        self.close()

    def close(self) -> None:
        """Close it, and wake whoever waits for it in another thread."""
        self._closed = True
        if isinstance(self._plug, socket.socket):
            with contextlib.suppress(OSError):
                self._plug.shutdown(socket.SHUT_RDWR)
        self._plug.close()


class Link:
    """A logged-in connection; those of the jump hosts below it end with it."""

    def __init__(
        self, transport: paramiko.Transport, wire: Wire, below: Link | None, patience: float
    ) -> None:
        self.transport = transport
        self.patience = patience
        """Seconds to wait for whatever is still to be opened."""
        self.why = ""
        self.took: dict[str, float] = {}
        """Seconds of each step on the way to this host alone."""
        self.wire = wire
        self._below = below
        self._ended = threading.Event()

    def keep(self) -> None:
        """Start to watch for a peer that has gone silent; paramiko itself would never notice."""
        threading.Thread(target=self._watch, name="jobgen-ssh-keepalive", daemon=True).start()

    def _watch(self) -> None:
        while not self._ended.wait(KEEPALIVE):
            if time.monotonic() - self.wire.heard < KEEPALIVE:
                continue
            doom = threading.Timer(SILENCE - KEEPALIVE, self._give_up, [self.wire.heard])
            doom.daemon = True
            doom.start()
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                # the answer is a refusal, and a refusal is a sign of life
                self.transport.global_request("keepalive@openssh.com", wait=True)
            doom.cancel()

    def _give_up(self, heard: float) -> None:
        if self.wire.heard == heard:
            self.why = f"no data for {SILENCE:g} s"
            self.cut()

    def explain_loss(self, where: str) -> Unreachable:
        """The error for a connection that broke after the login."""
        reason = self.why or str(self.transport.get_exception() or "")
        message = f"{where}: connection lost" + (f": {reason}" if reason else "")
        return Unreachable(Diagnostic("J409", message, hint="run the same command again"))

    def cut(self) -> None:
        """End it at once, from any thread."""
        self._ended.set()
        self.wire.close()

    def close(self) -> None:
        """End it, and those below it."""
        self._ended.set()
        self.transport.close()
        self.wire.close()
        if self._below:
            self._below.close()


def open_link(
    hop: Route,
    *,
    through: Link | None,
    pin: Pin,
    auth: Sequence[str],
    say: Callable[[str], None] | None,
) -> Link:
    """A link to this host, by a socket or through another link. Raises Unreachable."""
    # paramiko logs its tracebacks; without a handler, logging would print them
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    begun = time.monotonic()
    wire = Wire(_plug(hop, through))
    reached = time.monotonic()
    transport = None
    try:
        # all that paramiko needs of a socket
        transport = _Transport(cast("socket.socket", wire), default_window_size=WINDOW)
        _prepare(transport, hop)
        with wire.limit_time(hop.connect_timeout):
            _shake_hands(transport, wire, hop)
        verify(hop, transport.get_remote_server_key(), pin)
        verified = time.monotonic()
        with wire.limit_time(2 * hop.connect_timeout) as limit:
            # a person may take as long as a person takes
            terminal = Terminal(say, before_asking=limit.cancel)
            log_in(transport, hop, auth, terminal, lambda: transport.farewell)
    except BaseException:
        if transport:
            transport.close()
        wire.close()
        if through:
            through.close()
        raise
    link = Link(transport, wire, through, hop.connect_timeout)
    steps = (reached - begun, verified - reached, time.monotonic() - verified)
    link.took = dict(zip(("network", "host key", "login"), steps, strict=True))
    link.keep()
    return link


def _prepare(transport: paramiko.Transport, hop: Route) -> None:
    transport.banner_timeout = transport.handshake_timeout = hop.connect_timeout
    transport.auth_timeout = 2 * hop.connect_timeout
    options = transport.get_security_options()
    options.ciphers = _CIPHERS
    options.digests = _MACS
    options.key_types = choose_key_types(hop, tuple(options.key_types))


def _shake_hands(transport: _Transport, wire: Wire, hop: Route) -> None:
    try:
        transport.start_client(timeout=hop.connect_timeout)
        if not transport.initial_kex_done:  # it returns as if nothing were wrong
            raise paramiko.SSHException(f"nothing within {hop.connect_timeout:g} s")
    except paramiko.ssh_exception.IncompatiblePeer as error:
        _fail(hop, "J404", f"no common safe encryption: {error}", "ask for a newer sshd")
    except (paramiko.SSHException, EOFError, OSError) as error:
        ended = isinstance(error, EOFError | OSError) and not wire.expired
        if ended and transport.remote_version and not transport.farewell:
            raise explain_lost(hop.label) from None
        why = "no reply" if wire.expired else transport.farewell or str(error)
        why = why or "the connection was closed"
        _fail(hop, "J404", f"no SSH server answers there: {why}", f"ssh -v {hop.host}")


def _plug(hop: Route, through: Link | None) -> Plug:
    if through:
        return _through(hop, through)
    if hop.proxy_command:
        return _by_command(hop)
    try:
        plug = socket.create_connection((hop.hostname, hop.port), hop.connect_timeout)
    except socket.gaierror as error:
        _fail(
            hop,
            "J402",
            f"cannot resolve the host name ({error.strerror})",
            "check the name (ssh.host of a profile, or --from), and HostName in ~/.ssh/config",
        )
    except TimeoutError:
        _fail(
            hop,
            "J403",
            f"no answer within {hop.connect_timeout:g} s",
            "you may need a VPN or a jump host (ProxyJump in ~/.ssh/config)",
        )
    except OSError as error:
        _fail(hop, "J403", f"{error.strerror or error}".lower(), f"ssh -v {hop.host} shows more")
    # paramiko never sets it, and pays 40 ms for it on every call
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return plug


def _through(hop: Route, through: Link) -> Plug:
    try:
        return through.transport.open_channel(
            "direct-tcpip",
            (hop.hostname, hop.port),
            ("127.0.0.1", 0),
            window_size=WINDOW,
            timeout=hop.connect_timeout,
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        through.close()
        _fail(hop, "J403", f"the jump host cannot reach it: {error}", f"ssh -v {hop.host}")


class Piped:
    """A ProxyCommand's standard streams as a socket; the command ends with it."""

    def __init__(self, command: str) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            ends = theirs.fileno()
            # as ssh runs it; the command is from the user's own ssh configuration
            words = ["/bin/sh", "-c", f"exec {command}"]
            self._child = subprocess.Popen(words, stdin=ends, stdout=ends)
        self.send, self.recv = self._ours.send, self._ours.recv
        self.settimeout = self._ours.settimeout

    def close(self) -> None:
        """Close the socket and end the command."""
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._ours.close()
        self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(2.0)


def _by_command(hop: Route) -> Plug:
    words = {"h": hop.hostname, "p": str(hop.port), "r": hop.user, "n": hop.host}
    return Piped(
        re.sub("%([hprn%])", lambda m: shlex.quote(words.get(m[1], "%")), hop.proxy_command)
    )


def _fail(hop: Route, code: str, what: str, hint: str) -> NoReturn:
    raise Unreachable(Diagnostic(code, f"{hop.label}: {what}", hint=hint)) from None
