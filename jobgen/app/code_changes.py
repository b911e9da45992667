"""The changes of a working directory since its commit: the diff of what is uploaded of it."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.provenance import Repository, open_repository
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.upload import Manifest

LARGEST = 1 << 20
"""Bytes of the patch, and of a file that is in it."""
_MOST = 500
"""Changed files of one patch; untracked files that are named."""
_DIFF = (
    "diff",
    "HEAD",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--no-color",
    "--ignore-submodules=all",
)


class CodeChanges(NamedTuple):
    """A commit, and what differs from it. Paths are relative to the top of the repository."""

    commit: str = ""
    mark: str = ""
    """``+`` if files were changed since, ``?`` if git cannot tell."""
    prefix: str = ""
    """The working directory."""
    patch: bytes = b""
    """The diff of ``changed``, for ``git apply``."""
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    """Changed files that are not in the patch."""
    folder: str = ""
    """Of restored code, the working directory relative to the folder of the job file."""


def read_changes(
    workdir: Path, manifest: Manifest | None, environ: Mapping[str, str]
) -> CodeChanges:
    """The commit of a working directory and the diff of what is uploaded of it.

    What is ignored or looks like a secret is not uploaded, and so in no diff. Without a manifest
    the commit alone; nothing outside git.
    """
    with open_repository(workdir, environ) as repository:
        if repository is None:
            return CodeChanges()
        prefix = _find_prefix(repository, workdir)
        changes = CodeChanges(repository.head, repository.compare(), prefix)
        if manifest is None:
            return changes
        changes = changes._replace(untracked=_list_untracked(repository, manifest, prefix))
        return _add_patch(repository, manifest, changes) if changes.mark else changes


def _find_prefix(repository: Repository, workdir: Path) -> str:
    path = Path(realpath(workdir)).relative_to(realpath(repository.work_tree))
    return "" if path == Path() else path.as_posix()


def _list_untracked(repository: Repository, manifest: Manifest, prefix: str) -> tuple[str, ...]:
    tracked = repository.list_paths("ls-files", "-z")
    if tracked is None:
        return ()
    known = frozenset(tracked)
    paths = (_join(prefix, entry.path) for entry in manifest.entries if entry.kind != "dir")
    return tuple(path for path in paths if path not in known)[:_MOST]


def _join(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix else path


def _add_patch(repository: Repository, manifest: Manifest, changes: CodeChanges) -> CodeChanges:
    """The changes with their patch. Of a deleted file only the name is kept: its content is in the
    commit, and may be a secret."""
    prefix = changes.prefix
    sizes = {_join(prefix, e.path): e.size for e in manifest.entries if e.kind == "file"}
    names = repository.list_paths(*_DIFF, "--name-only", "-z", "--diff-filter=d") or ()
    gone = repository.list_paths(*_DIFF, "--name-only", "-z", "--diff-filter=D") or ()
    inside = [name for name in names if not prefix or name.startswith(f"{prefix}/")]
    wanted = [name for name in inside if sizes.get(name, LARGEST + 1) <= LARGEST][:_MOST]
    patch, taken = _diff_clean(repository, wanted) if wanted else (b"", [])
    return changes._replace(
        patch=patch,
        changed=tuple(taken),
        deleted=tuple(name for name in gone if not prefix or name.startswith(f"{prefix}/")),
        omitted=tuple(name for name in inside if name not in taken),
    )


def _diff_clean(repository: Repository, names: list[str]) -> tuple[bytes, list[str]]:
    """The diff of these files, without those that show a token; nothing if it is too large."""
    patch = _diff(repository, names)
    if _shows_token(patch):
        names = [name for name in names if not _shows_token(_diff(repository, [name]))]
        patch = _diff(repository, names) if names else b""
    return (patch, names) if 0 < len(patch) <= LARGEST else (b"", [])


def _diff(repository: Repository, names: list[str]) -> bytes:
    paths = [f":(top,literal){name}" for name in names]
    return repository.git(*_DIFF, "--binary", "--full-index", "--", *paths) or b""


def _shows_token(patch: bytes) -> bool:
    from jobgen.data.secret_rules import find_tokens

    return next(iter(find_tokens(patch)), None) is not None
