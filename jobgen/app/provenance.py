"""The commit of a working directory, read without starting a program that its repository names."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
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


class _Repository(NamedTuple):
    work_tree: str
    index_file: Path
    objects: Path
    head: str
    settings: tuple[tuple[str, str], ...]
    """Those of ``_KEPT``, whoever set them."""


def read_commit(folder: Path, environ: Mapping[str, str]) -> str:
    """The commit, with ``+`` if files were changed since; empty outside git, or without git.

    ``?`` instead of ``+`` if git cannot tell: it took over 5 seconds, an object is missing, or
    only files that a filter makes (as Git LFS does) differ.
    """
    clean = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    ceilings = environ.get("GIT_CEILING_DIRECTORIES")
    clean |= {"GIT_CEILING_DIRECTORIES": ceilings} if ceilings else {}
    repository = _read_repository(folder, clean)
    if repository is None:
        return ""
    with TemporaryDirectory(prefix="jobgen-git-") as made:
        return repository.head + _compare(repository, Path(made), clean)


def _read_repository(folder: Path, environ: Mapping[str, str]) -> _Repository | None:
    """What ``rev-parse`` and ``config`` print: neither starts a program, whatever is configured."""
    words = ("--show-toplevel", "--git-path", "index", "--git-path", "objects", "HEAD")
    printed = (_git(folder, environ, "rev-parse", *words) or "").split("\n")
    if len(printed) != 5 or not _WORD.match(printed[3]):
        return None
    work_tree, index, objects, head, _ = printed
    listed = _git(folder, environ, "config", "--list", "-z") or ""
    pairs = (entry.partition("\n")[::2] for entry in listed.split("\0"))
    kept = tuple((name, value) for name, value in pairs if name in _KEPT and _WORD.fullmatch(value))
    return _Repository(work_tree, folder / index, folder / objects, head, kept)


def _compare(repository: _Repository, made: Path, environ: Mapping[str, str]) -> str:
    """``+``, ``?`` or nothing, as git says that reads a directory made here.

    Its own repository's configuration may name filters, monitors and transports of anybody's.
    """
    (made / "refs").mkdir()
    (made / "HEAD").write_text(f"{repository.head}\n")
    settings = {"core.repositoryformatversion": "1", **dict(repository.settings)}
    lines = (
        f"[{key.partition('.')[0]}] {key.partition('.')[2]} = {settings[key]}\n" for key in settings
    )
    (made / "config").write_text("".join(lines))
    neutral = {
        **environ,
        **_NEUTRAL,
        "GIT_DIR": str(made),
        "GIT_WORK_TREE": repository.work_tree,
        "GIT_INDEX_FILE": str(repository.index_file.absolute()),
        "GIT_OBJECT_DIRECTORY": str(repository.objects.absolute()),
        # git before 2.32 does not read GIT_CONFIG_GLOBAL
        "HOME": str(made),
        "XDG_CONFIG_HOME": str(made),
    }
    tree = Path(repository.work_tree)
    options = (
        "--porcelain",
        "-z",
        "--no-renames",
        "--untracked-files=no",
        "--ignore-submodules=all",
    )
    changed = _git(tree, neutral, "status", *options)
    if not changed:
        return "" if changed == "" else "?"
    paths = [entry[3:] for entry in changed.split("\0") if entry]
    filters = _git(tree, neutral, "check-attr", "-z", "--stdin", "filter", given="\0".join(paths))
    values = (filters or "").split("\0")[2::3]
    filtered = len(values) == len(paths) and "unspecified" not in values
    return "?" if filtered else "+"


def _git(folder: Path, environ: Mapping[str, str], *words: str, given: str = "") -> str | None:
    """What git printed; None where it failed or took too long."""
    try:
        done = subprocess.run(
            ["git", "--no-pager", "-C", str(folder), *words],
            capture_output=True,
            input=given.encode("utf-8", "surrogateescape"),
            timeout=_SECONDS,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = done.stdout.decode("utf-8", "surrogateescape")
    return printed if done.returncode == 0 else None
