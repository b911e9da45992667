"""The commit of a working directory and its changes, read without starting a program that its
repository names."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jobgen.named_tuple import NamedTuple

_SECONDS = 5
_NEUTRAL = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Variables under which git reads no configuration but its directory's, and writes nothing."""
_KEPT = frozenset(
    {
        "core.autocrlf",
        "core.checkstat",
        "core.eol",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.symlinks",
        "core.trustctime",
        "extensions.objectformat",
    }
)
"""Settings that decide whether a file counts as changed; none of them names a program."""
_WORD = re.compile(r"[A-Za-z0-9]{1,16}")


class _Found(NamedTuple):
    work_tree: str
    index_file: Path
    objects: Path
    head: str
    settings: tuple[tuple[str, str], ...]
    """Those of ``_KEPT``, whoever set them."""


class Repository(NamedTuple):
    """A repository as git sees it through a directory made here.

    Its own configuration may name filters, monitors and transports of anybody's.
    """

    work_tree: Path
    head: str
    """The short name of the commit that is checked out."""
    variables: Mapping[str, str]
    """The environment of git."""

    def git(
        self,
        *words: str,
        given: bytes = b"",
        folder: Path | None = None,
        seconds: float | None = None,
    ) -> bytes | None:
        """What git printed; None where it failed or took too long."""
        there = folder or self.work_tree
        return _git_bytes(there, self.variables, *words, given=given, seconds=seconds)

    def list_paths(self, *words: str) -> tuple[str, ...] | None:
        """The paths that a command with ``-z`` printed; None where it failed."""
        printed = self.git(*words)
        if printed is None:
            return None
        texts = printed.decode("utf-8", "surrogateescape").split("\0")
        return tuple(text for text in texts if text)

    def compare(self) -> str:
        """``+`` if files were changed since the commit, ``?`` if git cannot tell, or nothing."""
        options = (
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=no",
            "--ignore-submodules=all",
        )
        entries = self.list_paths("status", *options)
        if not entries:
            return "?" if entries is None else ""
        given = "\0".join(entry[3:] for entry in entries)
        words = ("check-attr", "-z", "--stdin", "filter")
        filters = self.git(*words, given=given.encode("utf-8", "surrogateescape")) or b""
        values = filters.split(b"\0")[2::3]
        filtered = len(values) == len(entries) and b"unspecified" not in values
        return "?" if filtered else "+"


@contextmanager
def open_repository(folder: Path, environ: Mapping[str, str]) -> Iterator[Repository | None]:
    """The repository that a folder lies in; None outside git, or without git."""
    clean = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    ceilings = environ.get("GIT_CEILING_DIRECTORIES")
    clean |= {"GIT_CEILING_DIRECTORIES": ceilings} if ceilings else {}
    found = _find_repository(folder, clean)
    if found is None:
        yield None
        return
    with TemporaryDirectory(prefix="jobgen-git-") as made:
        yield Repository(
            Path(found.work_tree), found.head, _make_directory(found, Path(made), clean)
        )


def read_commit(folder: Path, environ: Mapping[str, str]) -> str:
    """The commit, with ``+`` if files were changed since; empty outside git, or without git.

    ``?`` instead of ``+`` if git cannot tell: it took over 5 seconds, an object is missing, or
    only files that a filter makes (as Git LFS does) differ.
    """
    with open_repository(folder, environ) as repository:
        return repository.head + repository.compare() if repository else ""


def _find_repository(folder: Path, environ: Mapping[str, str]) -> _Found | None:
    """What ``rev-parse`` and ``config`` print: neither starts a program, whatever is configured."""
    words = ("--show-toplevel", "--git-path", "index", "--git-path", "objects", "HEAD")
    printed = (_git(folder, environ, "rev-parse", *words) or "").split("\n")
    if len(printed) != 5 or not _WORD.match(printed[3]):
        return None
    work_tree, index, objects, head, _ = printed
    listed = _git(folder, environ, "config", "--list", "-z") or ""
    pairs = (entry.partition("\n")[::2] for entry in listed.split("\0"))
    kept = tuple((name, value) for name, value in pairs if name in _KEPT and _WORD.fullmatch(value))
    return _Found(work_tree, folder / index, folder / objects, head, kept)


def _make_directory(found: _Found, made: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Fill a git directory that stands for the repository's; the environment that names it."""
    (made / "refs").mkdir()
    (made / "HEAD").write_text(f"{found.head}\n")
    settings = {"core.repositoryformatversion": "1", **dict(found.settings)}
    lines = (
        f"[{key.partition('.')[0]}] {key.partition('.')[2]} = {settings[key]}\n" for key in settings
    )
    (made / "config").write_text("".join(lines))
    return {
        **environ,
        **_NEUTRAL,
        "GIT_DIR": str(made),
        "GIT_WORK_TREE": found.work_tree,
        "GIT_INDEX_FILE": str(found.index_file.absolute()),
        "GIT_OBJECT_DIRECTORY": str(found.objects.absolute()),
        # git before 2.32 does not read GIT_CONFIG_GLOBAL
        "HOME": str(made),
        "XDG_CONFIG_HOME": str(made),
    }


def _git(folder: Path, environ: Mapping[str, str], *words: str) -> str | None:
    """What git printed, as text; None where it failed or took too long."""
    printed = _git_bytes(folder, environ, *words)
    return None if printed is None else printed.decode("utf-8", "surrogateescape")


def _git_bytes(
    folder: Path,
    environ: Mapping[str, str],
    *words: str,
    given: bytes = b"",
    seconds: float | None = None,
) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "--no-pager", "-C", str(folder), *words],
            capture_output=True,
            input=given,
            timeout=seconds or _SECONDS,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
