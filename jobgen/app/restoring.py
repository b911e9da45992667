"""The code of a run, made anew in a folder: from its run directory, else from its commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from jobgen.errors import JobgenError, Missing
from jobgen.named_tuple import NamedTuple
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.provenance import Repository
    from jobgen.app.run_origin import KeptOrigin
    from jobgen.app.world import World
    from jobgen.model.origin import RunOrigin
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport
    from jobgen.transport.fetch import RemoteFile

_DEEPEST = 32
"""Parts of a path at most."""
_SECONDS = 600
"""Seconds that git gets for a checkout."""


class RestoredCode(NamedTuple):
    """A job file with its working directory, in a folder of their own."""

    job: Path
    workdir: Path
    source: str
    """What it was made from, for people."""
    differences: tuple[str, ...] = ()


class _Layout(NamedTuple):
    top: Path
    """Where the repository's top goes."""
    workdir: Path
    job: Path


def restore_code(
    world: World, transport: Transport, record: RunRecord, kept: KeptOrigin, folder: Path
) -> RestoredCode:
    """The code of a run below a folder. Raises Missing if nothing has it any more.

    The files of the run directory count, if none was changed there since the upload; else the
    commit with the patch.
    """
    origin = kept.origin
    if origin is None:
        raise Missing(f"{record.alias} has no provenance: it was submitted by an older jobgen")
    layout = _lay_out(origin, folder)
    layout.workdir.mkdir(parents=True)
    layout.job.parent.mkdir(parents=True, exist_ok=True)
    uploaded = not record.code_folder
    why = _restore_upload(transport, record, origin, layout.workdir) if uploaded else ""
    source = f"the run directory on {record.site.cluster}"
    differences: tuple[str, ...] = ()
    if not uploaded:
        source = f"{record.code_folder} on {record.site.cluster}, as it is now"
    elif why:
        differences = (why, *_restore_commit(world, record, kept, layout))
        source = f"commit {origin.commit[:12]}"
    if origin.job:
        layout.job.write_text(origin.job, encoding="utf-8", errors="surrogateescape")
    elif not layout.job.is_file():
        raise Missing(f"the job file of {record.alias} was not kept: it has a token in it")
    return RestoredCode(layout.job, layout.workdir, source, differences)


def _lay_out(origin: RunOrigin, folder: Path) -> _Layout:
    """Where everything goes, so that the job file names its working directory as before."""
    name = PurePosixPath(origin.label).name
    parts, prefix = PurePosixPath(origin.folder).parts, PurePosixPath(origin.prefix).parts
    up = sum(part == ".." for part in parts)
    below = parts[up:]
    clean = {"..", "/", ""}.isdisjoint({*below, *prefix, name})
    if not clean or max(len(parts), len(prefix)) > _DEEPEST:
        raise JobgenError(f"the provenance names an impossible folder: {origin.folder!r}")
    # the last folders of the working directory have the names that the job file gives them
    named = below[: max(len(below) - len(prefix), 0)]
    top = folder.joinpath("code", *named)
    workdir = top.joinpath(*prefix)
    base = workdir.parents[len(below) - 1] if below else workdir
    return _Layout(top, workdir, base.joinpath(*["job"] * up, name))


# from the run directory


def _restore_upload(
    transport: Transport, record: RunRecord, origin: RunOrigin, workdir: Path
) -> str:
    """Bring the uploaded files; why that is not possible, else nothing."""
    from jobgen.app.run_origin import read_file
    from jobgen.app.unpacking import compute_sum
    from jobgen.transport.fetch import list_files

    where = f"{record.directory}/src"
    listed = read_file(transport, f"{record.directory}/MANIFEST.sha256")
    sums = _parse_sums(listed)
    present = {file.path: file for file in list_files(transport, where) or ()} if sums else {}
    gone = [path for path in sums if path not in present]
    if not listed or gone:
        named = f"{gone[0]} is gone" if gone else "its list of files is gone"
        return f"the run directory on {record.site.cluster} is not whole: {named}"
    if sums:
        _fetch(transport, where, workdir, {path: present[path] for path in sums})
    changed = [path for path in sums if compute_sum(workdir / path) != sums[path]]
    if changed:
        for path in sums:
            (workdir / path).unlink()
        rest = f" and {count(len(changed) - 1, 'other file')}" if changed[1:] else ""
        return f"{changed[0]}{rest} changed on {record.site.cluster} since the upload"
    _finish_files(origin, workdir)
    return ""


def _parse_sums(content: bytes) -> dict[str, str]:
    """Path below ``src/`` → sha256, of a MANIFEST.sha256."""
    from jobgen.transport.fetch import is_inside

    sums: dict[str, str] = {}
    for line in content.decode("utf-8", "surrogateescape").split("\n"):
        escaped = line.startswith("\\")
        digest, _, path = line.removeprefix("\\").partition("  ")
        path = path.replace("\\\\", "\\") if escaped else path
        name = path.removeprefix("src/")
        if len(digest) == 64 and name != path and is_inside(name):
            sums[name] = digest
    return sums


def _fetch(
    transport: Transport, source: str, folder: Path, files: Mapping[str, RemoteFile]
) -> None:
    from jobgen.app.unpacking import unpack
    from jobgen.transport.fetch import send_tar

    paths = list(files)
    unpack(lambda sink: send_tar(transport, source, paths, sink), folder, files, lambda *_: None)


def _finish_files(origin: RunOrigin, workdir: Path) -> None:
    """Links and executables, which the tar of regular files does not have."""
    from jobgen.transport.fetch import is_inside

    for path in origin.executables:
        if is_inside(path) and (workdir / path).is_file():
            (workdir / path).chmod(0o755)
    for path, target in origin.links.items():
        link = workdir / path
        ends = os.path.normpath(f"{os.path.dirname(path)}/{target}")  # noqa: PTH120
        if is_inside(path) and is_inside(ends.lstrip("/")) and not target.startswith("/"):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


# from the commit


def _restore_commit(
    world: World, record: RunRecord, kept: KeptOrigin, layout: _Layout
) -> tuple[str, ...]:
    """Check the commit out and apply the patch; what is not as it was."""
    from jobgen.app.provenance import open_repository

    origin = kept.origin
    here = Path(record.job_file).parent if record.job_file else world.cwd
    with open_repository(here if here.is_dir() else world.cwd, world.environ) as repository:
        if origin is None or not origin.commit or repository is None:
            raise Missing(
                f"the code of {record.alias} cannot be restored: no git repository has it",
                hint=f"with the files as they are now: jobgen rerun {record.alias}",
            )
        if origin.changed and not kept.patch:
            raise Missing(f"the diff of the changes of {record.alias} is gone or was changed")
        _check_out(repository, origin.commit, layout.top)
        _apply(repository, kept.patch, layout.top)
    _delete(origin, layout.top)
    layout.workdir.mkdir(parents=True, exist_ok=True)
    return tuple(_list_lost(origin))


def _check_out(repository: Repository, commit: str, top: Path) -> None:
    """The files of a commit below a folder: no hook, filter or transport runs."""
    top.mkdir(parents=True, exist_ok=True)
    index = {**repository.variables, "GIT_INDEX_FILE": str(top.parent / ".index")}
    reader = repository._replace(variables=index)
    is_commit = commit.isalnum() and reader.git("cat-file", "-e", f"{commit}^{{commit}}")
    if is_commit is None or not commit.isalnum():
        raise Missing(
            f"commit {commit[:12]} is not in {repository.work_tree}",
            hint="fetch it, for example: git fetch --all",
        )
    prefix = f"--prefix={top}/"
    done = reader.git("read-tree", commit, seconds=_SECONDS)
    if done is None or reader.git("checkout-index", "-a", "-f", prefix, seconds=_SECONDS) is None:
        raise JobgenError(f"git cannot check out commit {commit[:12]} of {repository.work_tree}")
    (top.parent / ".index").unlink()


def _apply(repository: Repository, patch: bytes, top: Path) -> None:
    if not patch:
        return
    there = {**repository.variables, "GIT_WORK_TREE": str(top)}
    writer = repository._replace(variables=there)
    if writer.git("apply", "--whitespace=nowarn", "-", given=patch, folder=top) is None:
        raise JobgenError("the patch of the changes does not apply to its commit")


def _delete(origin: RunOrigin, top: Path) -> None:
    from jobgen.transport.fetch import is_inside

    for path in origin.deleted:
        if is_inside(path) and (top / path).is_file():
            (top / path).unlink()


def _list_lost(origin: RunOrigin) -> list[str]:
    """What the commit and the patch do not have."""
    lost = {"was not in git": origin.untracked, "was changed, without a diff": origin.omitted}
    texts = []
    for why, paths in lost.items():
        if paths:
            rest = f" and {count(len(paths) - 1, 'other file')}" if paths[1:] else ""
            texts.append(f"missing code: {paths[0]}{rest} {why}")
    return texts
