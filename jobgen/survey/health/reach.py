"""The connection to the login host, step by step; the step that fails is named with its fix."""

from __future__ import annotations

from collections.abc import Mapping

from jobgen.errors import Diagnostic
from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines
from jobgen.survey.health import CheckRow, Verdict, skip, succeed, warn

STEPS = ("route", "network", "host key", "login", "shell")
_AT = {
    "J401": "route",
    "J402": "network",
    "J403": "network",
    "J404": "host key",
    "J405": "login",
    "J406": "host key",
    "J407": "host key",
    "J408": "host key",
}
"""The step that a fault of the connection belongs to; of any other, the last."""

SLOW_SHELL = 3.0
"""Seconds after which a login shell is slow; every connection waits for it."""


class ConnectionProgress(NamedTuple):
    """How far the connection came."""

    host: str
    """The host as the profile names it."""
    target: str = ""
    """Where ssh's configuration leads: ``ann@login1.example.org port 22, through gate``."""
    key: str = ""
    """Where the host key is known from: a line of known_hosts, or the profile."""
    problem: Diagnostic | None = None
    """What ended it; None where it is up."""
    took: Mapping[str, float] = {}
    """Step → seconds."""
    noise: str = ""
    """What the login shell printed of its own accord."""

    @property
    def broken(self) -> str:
        """The step that failed; empty where none did."""
        return "" if self.problem is None else _AT.get(self.problem.code, STEPS[-1])


def _step(name: str, way: ConnectionProgress, found: str) -> Verdict:
    if way.problem is None or STEPS.index(name) < STEPS.index(way.broken):
        return succeed(found, way.took.get(name))
    if name != way.broken:
        return skip("not reached")
    problem = way.problem
    return Verdict("failed", problem.message, problem.hint, problem.code, way.took.get(name))


def _route(way: ConnectionProgress) -> Verdict:
    return _step("route", way, f"{way.host} is {way.target}")


def _network(way: ConnectionProgress) -> Verdict:
    return _step("network", way, "port answers")


def _host_key(way: ConnectionProgress) -> Verdict:
    return _step("host key", way, f"known from {way.key}" if way.key else "verified")


def _login(way: ConnectionProgress) -> Verdict:
    return _step("login", way, "logged in")


def _shell(way: ConnectionProgress) -> Verdict:
    verdict = _step("shell", way, "runs commands")
    if verdict.status == "ok" and (verdict.seconds or 0) > SLOW_SHELL:
        fix = "make ~/.bashrc and profile scripts there faster: every connection waits for them"
        return warn(f"login shell takes {verdict.seconds:.1f} s to start", fix, "J432")
    return verdict


def _noise(way: ConnectionProgress) -> Verdict | None:
    if way.problem is not None:
        return None
    lines = [line.strip() for line in split_lines(way.noise) if line.strip()]
    if not lines:
        return succeed("prints nothing in non-interactive sessions")
    said = f"'{lines[0][:60]}'" + (f" and {len(lines) - 1} more lines" if len(lines) > 1 else "")
    return warn(
        f"login shell prints {said} in non-interactive sessions, which breaks scp, rsync and pdsh",
        "start ~/.bashrc there with: [[ $- == *i* ]] || return",
        "J432",
    )


ROWS: tuple[CheckRow[ConnectionProgress], ...] = (
    CheckRow("ssh.route", "ssh configuration resolves the host", _route),
    CheckRow("ssh.network", "the host name resolves and the port answers", _network),
    CheckRow("ssh.host-key", "the host key matches the known one", _host_key),
    CheckRow("ssh.login", "one of your keys is accepted", _login),
    CheckRow("ssh.shell", "the login shell runs a command quickly", _shell),
    CheckRow("ssh.noise", "the login shell prints nothing by itself", _noise),
)
