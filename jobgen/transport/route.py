"""How to get to a host: its settings in ``ssh_config``, as ``ssh -G`` reads that file.

``ssh`` itself is the parser: it knows Include, Match, tokens and defaults of its own version.
The environment variable ``JOBGEN_SSH_CONFIG`` names a file to read instead of ``~/.ssh/config``
and ``/etc/ssh/ssh_config``, as ``ssh -F`` does.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobgen.errors import Diagnostic, Unreachable
from jobgen.shell import split_lines

CONFIG_VARIABLE = "JOBGEN_SSH_CONFIG"
PORT = 22
_PATIENCE = 10.0

# no leading dash, nothing a shell could read: both end up in argument lists and in ProxyCommand
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9._:%-]{0,254}")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@+\\-]{0,127}")
_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?P<host>\[[^]]+\]|[^:]+)(?::(?P<port>\d+))?")

Options = Mapping[str, Sequence[str]]
"""Keywords in small letters, each with all its values in order."""


@dataclass(frozen=True, slots=True)
class Route:
    """All that is needed to connect to one host; jump hosts are named, and routed in turn."""

    host: str
    """As asked for."""
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool = False
    identity_agent: str = "SSH_AUTH_SOCK"
    """A socket's path, ``SSH_AUTH_SOCK``, or ``none``."""
    proxy_jump: str = ""
    proxy_command: str = ""
    known_hosts: tuple[Path, ...] = ()
    host_key_alias: str = ""
    connect_timeout: float = 15.0
    host_key_checking: str = "ask"
    ciphers: str = ""
    """As ssh_config lists them, or ssh's own; only of what ``ssh -G`` prints."""
    control_master: str = "no"

    @property
    def known_name(self) -> str:
        """The name under which known_hosts has this host."""
        if self.host_key_alias:
            return self.host_key_alias
        name = self.hostname.lower()
        return name if self.port == PORT else f"[{name}]:{self.port}"

    @property
    def label(self) -> str:
        """The host for people, with the real name where the two differ."""
        name = self.hostname if self.port == PORT else f"{self.hostname} port {self.port}"
        return self.host if name == self.host else f"{self.host} ({name})"

    def list_jumps(self) -> tuple[Route, ...]:
        """The routes of the jump hosts, first one first."""
        if not self.proxy_jump:
            return ()
        hops = [_parse_jump(text) for text in self.proxy_jump.split(",")]
        # as ssh does it: a host in the list is reached through the one before, whatever
        # ssh_config says of it; only the first may have a jump host of its own
        routes = [replace(find_route(*hop), proxy_jump="", proxy_command="") for hop in hops[1:]]
        first = find_route(*hops[0])
        return (*first.list_jumps(), first, *routes)


def find_route(host: str, user: str = "", port: int | None = None) -> Route:
    """The route to a host. Raises Unreachable where ssh refuses the name or its configuration."""
    check_names(host, user)
    words = ["ssh", *list_config_options(), "-G", "-T"]
    words += ["-l", user] if user else []
    words += ["-p", str(port)] if port else []
    try:
        done = subprocess.run(
            [*words, "--", host],
            capture_output=True,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        from jobgen.transport.ssh.fallback import read_options

        return build_route(host, read_options(host, user, port))
    except subprocess.TimeoutExpired:
        problem = Diagnostic(
            "J401",
            f"{host}: ssh -G took more than {_PATIENCE:g} s to read the ssh configuration",
            hint="look for a slow `Match exec` in ~/.ssh/config",
        )
        raise Unreachable(problem) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        problem = Diagnostic(
            "J401",
            f"{host}: ssh cannot read its configuration: {said}",
            hint=f"see the whole message: ssh -G {host}",
        )
        raise Unreachable(problem)
    return build_route(host, parse(done.stdout.decode("utf-8", "surrogateescape")))


def list_config_options() -> list[str]:
    """The words that make ssh read the configuration that is wanted."""
    config = os.environ.get(CONFIG_VARIABLE)
    return ["-F", config] if config else []


def check_names(host: str, user: str) -> None:
    """Raise Unreachable where a name could be read as an option or by a shell."""
    for what, text, pattern in (("host", host, _HOST), ("user", user or "x", _USER)):
        if not pattern.fullmatch(text):
            problem = Diagnostic(
                "J401",
                f"{text!r} is not the name of a {what}",
                hint=f"correct ssh.{what} in the cluster profile",
            )
            raise Unreachable(problem)


def parse(text: str) -> dict[str, list[str]]:
    """What ``ssh -G`` printed, as options."""
    options: dict[str, list[str]] = {}
    for line in split_lines(text):
        key, _, value = line.partition(" ")
        options.setdefault(key.lower(), []).append(value)
    return options


def build_route(host: str, options: Options) -> Route:
    """The route that these options describe."""

    def get_option(key: str, default: str = "") -> str:
        value = next(iter(options.get(key, ())), default)
        return default if value == "none" else value

    def paths(keys: Sequence[str], split: Callable[[str], Sequence[str]]) -> tuple[Path, ...]:
        texts = [part for key in keys for value in options.get(key, ()) for part in split(value)]
        return tuple(_path(t, host, get_option("user")) for t in texts if t != "none")

    timeout = get_option("connecttimeout")
    return Route(
        host=host,
        hostname=get_option("hostname", host),
        port=int(get_option("port", str(PORT))),
        user=get_option("user") or _me(),
        identity_files=paths(["identityfile"], lambda v: [v]),
        certificate_files=paths(["certificatefile"], lambda v: [v]),
        identities_only=get_option("identitiesonly") == "yes",
        identity_agent=next(iter(options.get("identityagent", ())), "SSH_AUTH_SOCK"),
        proxy_jump=get_option("proxyjump"),
        proxy_command=get_option("proxycommand"),
        known_hosts=paths(["userknownhostsfile", "globalknownhostsfile"], _split_paths),
        host_key_alias=get_option("hostkeyalias"),
        connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) else 15.0,
        host_key_checking=get_option("stricthostkeychecking", "ask"),
        ciphers=get_option("ciphers"),
        control_master=get_option("controlmaster", "no"),
    )


def _split_paths(value: str) -> list[str]:
    # ssh -G prints several files in one line, unquoted, and a path may hold spaces
    return re.split(r" (?=[/~])", value)


def _path(text: str, host: str, user: str) -> Path:
    tokens = {"%d": str(Path.home()), "%h": host, "%r": user, "%u": _me(), "%%": "%"}
    for token, meaning in tokens.items():
        text = text.replace(token, meaning)
    return Path(text.strip('"')).expanduser()


def _me() -> str:
    import getpass

    return getpass.getuser()


def _parse_jump(text: str) -> tuple[str, str, int | None]:
    found = _JUMP.fullmatch(text.strip())
    if not found:
        problem = Diagnostic(
            "J401",
            f"ProxyJump {text!r} in the ssh configuration is no host",
            hint="expected [user@]host[:port], several separated by commas",
        )
        raise Unreachable(problem)
    port = found["port"]
    return found["host"].strip("[]"), found["user"] or "", int(port) if port else None
