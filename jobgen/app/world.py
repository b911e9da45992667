"""The composition root: what the verbs need of the world, replaced whole in tests."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.errors import Invalid, Missing, Unreachable

if TYPE_CHECKING:
    from jobgen.catalog import Catalog
    from jobgen.ledger import Ledger
    from jobgen.model.record import Login
    from jobgen.transport import Transport


UNKNOWN_HOST = "J402"
"""The code of a host name that nothing resolves."""


def make_token() -> str:
    """A run's identity: 128 random bits as 26 characters of lower-case base32."""
    import base64
    import secrets

    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


def tell(line: str) -> None:
    """A line for the person, on standard error."""
    print(line, file=sys.stderr, flush=True)


def refuse(_: str) -> bool:
    """No, where there is nobody to ask."""
    return False


def _connect(login: Login, say: Callable[[str], None]) -> Transport:
    from jobgen.transport import connect

    return connect(login, say=say)


# no repr: the environment holds secrets
@dataclass(frozen=True, repr=False, eq=False)
class World:
    """Clock, randomness, environment, folders, the way out and the notebook."""

    environ: Mapping[str, str]
    cwd: Path
    home: Path
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = make_token
    say: Callable[[str], None] = tell
    consent: Callable[[str], bool] = refuse
    """Asks a person for a permission that ``-y`` does not give."""
    trusted: frozenset[str] = frozenset()
    """Logins that the command itself names: ``--trust USER@HOST:ROOT``."""
    outside: bool = False
    """Whether secrets may be read from any file: ``--allow-outside``."""
    dial: Callable[[Login, Callable[[str], None]], Transport] = field(default=_connect)
    texts: dict[str, str] = field(default_factory=dict)
    """Label → text of every file read, so that a problem can be shown with its line."""
    masked: set[str] = field(default_factory=set)
    """Values of secrets that were read; whatever prints masks them."""

    @classmethod
    def here(cls, **more: Any) -> World:
        """The real one."""
        return cls(environ=dict(os.environ), cwd=Path.cwd(), home=Path.home(), **more)

    def connect(self, login: Login) -> Transport:
        """A connected Transport. Raises Unreachable."""
        try:
            return self.dial(login, self.say)
        except Unreachable as error:
            raise self._explain_example(error, login.host) from None

    def _explain_example(self, error: Unreachable, host: str) -> Unreachable:
        """What to do about an unknown host that only a shipped profile names: there it stands for
        the site's own."""
        from jobgen.catalog import SHIPPED

        if not any(problem.code == UNKNOWN_HOST for problem in error.problems):
            return error
        try:
            shipped = self.open_catalog().find_cluster(host).origin == SHIPPED
        except (Missing, Invalid):
            return error
        hint = f"{host} is an example; add your cluster: jobgen cluster add NAME --from HOST"
        problems = (problem._replace(hint=hint) for problem in error.problems)
        return Unreachable(*problems) if shipped else error

    @cached_property
    def state(self) -> Path:
        """The folder of the ledger and of bug reports; it may not exist."""
        named = self.environ.get("JOBGEN_STATE_HOME")
        if named:
            return Path(named)
        return self._xdg("XDG_STATE_HOME", self.home / ".local" / "state") / "jobgen"

    @cached_property
    def config(self) -> Path:
        """The folder of the user's own cluster profiles and templates; it may not exist."""
        named = self.environ.get("JOBGEN_CONFIG_HOME")
        if named:
            return Path(named)
        return self._xdg("XDG_CONFIG_HOME", self.home / ".config") / "jobgen"

    def _xdg(self, name: str, otherwise: Path) -> Path:
        """The folder that a variable names; a relative one is passed over, as XDG's rules say."""
        named = Path(self.environ.get(name) or ".")
        return named if named.is_absolute() else otherwise

    @cached_property
    def ledger(self) -> Ledger:
        """The notebook; opening it for reading creates nothing."""
        from jobgen.ledger import Ledger

        return Ledger(self.state / "ledger.sqlite3")

    def open_catalog(self, beside: Path | None = None) -> Catalog:
        """Where profiles and templates are found, nearest first."""
        from jobgen.catalog import Catalog

        return Catalog.standard(cwd=self.cwd, config=self.config, beside=beside)

    def format_path(self, path: Path) -> str:
        """A path as people write it: relative to where they stand when it lies below."""
        try:
            return str(Path(realpath(path)).relative_to(realpath(self.cwd)))
        except ValueError:
            return str(path)

    def read(self, path: Path, label: str = "") -> str:
        """The text of a job or cluster file. Raises Invalid, never OSError or UnicodeError."""
        label = label or self.format_path(path)
        try:
            raw = read_limited(path)
        except OSError as error:
            raise Invalid(
                f"{label}: cannot be read: {error.strerror}",
                hint="name a file that you can read, such as job.yaml",
            ) from error
        text = raw.decode("utf-8", "surrogateescape")
        self.texts[label] = text
        return text


def read_limited(path: Path, limit: int = (1 << 20) + 1) -> bytes:
    """At most ``limit`` bytes of a file, which may be a pipe: nobody can feed us an endless one."""
    with path.open("rb") as stream:
        return stream.read(limit)


def read_regular(path: Path, limit: int = (1 << 20) + 1) -> bytes:
    """At most ``limit`` bytes of a regular file. Raises OSError, for a pipe or a device, too."""
    with open(path, "rb", opener=_open_unblocked) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return stream.read(limit)


def write_regular(path: Path, content: bytes) -> None:
    """Write a file, never through a link. Raises OSError, for a link, too."""
    follow = 0 if path.is_relative_to("/dev") else os.O_NOFOLLOW
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | follow
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from error
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def replace_file(path: Path, text: str) -> None:
    """Write a file of jobgen's own in one step: no reader sees half of it. Raises OSError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _open_unblocked(path: str, flags: int) -> int:
    """A descriptor at once, even of a pipe that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)
