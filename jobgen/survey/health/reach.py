"""The way to the login host, step by step: whichever failed names its fault and its fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jobgen.errors import Diagnostic
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
"""Seconds a login shell may need until it answers; every connection pays them."""


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
    return _step("network", way, "it answers")


def _host_key(way: ConnectionProgress) -> Verdict:
    return _step("host key", way, f"known from {way.key}" if way.key else "verified")


def _login(way: ConnectionProgress) -> Verdict:
    return _step("login", way, "logged in")


def _shell(way: ConnectionProgress) -> Verdict:
    verdict = _step("shell", way, "runs commands")
    if verdict.status == "ok" and (verdict.seconds or 0) > SLOW_SHELL:
        fix = "see what ~/.bashrc and its like do there: each connection waits for it"
        return warn(f"it needs {verdict.seconds:.1f} s to start", fix, "J432")
    return verdict


def _noise(way: ConnectionProgress) -> Verdict | None:
    if way.problem is not None:
        return None
    lines = [line.strip() for line in split_lines(way.noise) if line.strip()]
    if not lines:
        return succeed("silent where nobody looks")
    said = f"'{lines[0][:60]}'" + (f" and {len(lines) - 1} more lines" if len(lines) > 1 else "")
    return warn(
        f"it prints {said} where nobody looks: jobgen passes over it, scp, rsync and pdsh do not",
        "begin ~/.bashrc there with: [[ $- == *i* ]] || return",
        "J432",
    )


ROWS: tuple[CheckRow[ConnectionProgress], ...] = (
    CheckRow("ssh.route", "the ssh configuration leads to the host", _route),
    CheckRow("ssh.network", "its name is resolved and its port answers", _network),
    CheckRow("ssh.host-key", "its key is the one that is known", _host_key),
    CheckRow("ssh.login", "a key of yours is accepted", _login),
    CheckRow("ssh.shell", "the login shell runs a command, soon", _shell),
    CheckRow("ssh.noise", "the login shell prints nothing of its own accord", _noise),
)
