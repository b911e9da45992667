"""``pull``: the files of a run, from the cluster into a folder here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from jobgen.app import wandb_sync
from jobgen.app.context import SubmitStage, ignore_stage
from jobgen.errors import JobgenError, Missing, Unreachable
from jobgen.named_tuple import NamedTuple
from jobgen.upload.ignore import PULLED

if TYPE_CHECKING:
    from jobgen.app.context import Progress
    from jobgen.app.world import World
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport
    from jobgen.transport.fetch import RemoteFile


class Pulled(NamedTuple):
    """What was brought here, or would be."""

    record: RunRecord
    folder: Path
    patterns: tuple[str, ...]
    matched: tuple[RemoteFile, ...]
    """The files of the run that match."""
    needed: tuple[RemoteFile, ...]
    """Those that were not here yet, or in another version."""
    checked: bool = False
    """Whether the content of all files was compared by SHA-256."""
    synced: tuple[str, ...] | None = None
    """The offline runs of W&B that were uploaded, or would be; None: not asked for."""


class PullRequest(NamedTuple):
    """What is to be copied."""

    ref: str
    patterns: tuple[str, ...] = ()
    """As in .gitignore; without any, those of ``outputs``."""
    folder: Path | None = None
    """By default one with the name of the run, in the current folder."""
    dry_run: bool = False
    checksum: bool = False
    """Whether contents are compared, instead of sizes and times."""
    sync: bool = False
    """Whether the offline runs of W&B are brought too, and uploaded from here."""


def pull(world: World, request: PullRequest, progress: Progress = ignore_stage) -> Pulled:
    """Copy files of a run's working directory to this machine.

    A file of the same size and time is here already. After a lost connection it goes on where it
    was, as long as something arrives. Raises Missing, Unreachable, JobgenError.
    """
    record = world.ledger.get(request.ref)
    wanted = request.patterns or tuple(map(str, record.shape.get("outputs", ())))
    program = ""
    if request.sync:
        program, wanted = wandb_sync.find_wandb(world), (*wanted, wandb_sync.PATTERN)
    if not wanted:
        hint = f"give a pattern: jobgen pull {record.alias} 'checkpoints/**'; or set outputs"
        raise Missing(f"the job of {record.alias} names no outputs", hint=hint)
    target = request.folder or Path(record.alias)
    with world.connect(record.site.login) as transport:
        source = _find_source(transport, record)
        matched = _match(_list(transport, record, source), wanted)
        sums = _compute_sums(transport, source, matched) if request.checksum else {}
    needed = tuple(file for file in matched if not _is_here(target, file, sums))
    found = Pulled(record, target, wanted, matched, needed, checked=request.checksum)
    if needed and not request.dry_run:
        _fetch_all(world, found, source, progress)
        _check_sums(target, needed, sums)
        wandb_sync.forget_marks(target, needed)
    return _sync(world, found, program, request) if request.sync else found


def _sync(world: World, found: Pulled, program: str, request: PullRequest) -> Pulled:
    """Upload the offline runs that are here and not on W&B; in a dry run only list them."""
    changed = {file.path for file in found.needed}
    runs = wandb_sync.list_offline_runs(found.matched)
    left = tuple(r for r in runs if r in changed or not wandb_sync.is_synced(found.folder, r))
    if left and not request.dry_run:
        wandb_sync.sync_runs(world, program, found.folder, left)
    return found._replace(synced=left)


def _find_source(transport: Transport, record: RunRecord) -> str:
    """The directory that the program ran in."""
    if not record.code_folder:
        return f"{record.directory}/src"
    from jobgen.app.code_folder import find_code

    return find_code(transport, record).at


def _list(transport: Transport, record: RunRecord, source: str) -> tuple[RemoteFile, ...]:
    from jobgen.transport.fetch import list_files

    files = list_files(transport, source)
    if files is None:
        raise Missing(f"{record.alias} has no files on {record.site.cluster}: no folder {source}")
    return files


def _match(files: Sequence[RemoteFile], patterns: Sequence[str]) -> tuple[RemoteFile, ...]:
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(patterns)
    return tuple(file for file in files if spec.match_file(file.path))


def _is_here(folder: Path, file: RemoteFile, sums: dict[str, str]) -> bool:
    path = folder / file.path
    if path.is_symlink() or not path.is_file():
        return False
    status = path.stat()
    if status.st_size != file.size:
        return False
    if sums:
        from jobgen.app.unpacking import compute_sum

        return compute_sum(path) == sums.get(file.path)
    return abs(status.st_mtime - file.modified) < 1


def _compute_sums(transport: Transport, source: str, files: Sequence[RemoteFile]) -> dict[str, str]:
    from jobgen.transport.fetch import compute_sums

    return compute_sums(transport, source, [file.path for file in files]) if files else {}


def _check_sums(folder: Path, files: Sequence[RemoteFile], sums: dict[str, str]) -> None:
    from jobgen.app.unpacking import compute_sum

    wrong = [f.path for f in files if sums and compute_sum(folder / f.path) != sums.get(f.path)]
    if wrong:
        raise JobgenError(f"{wrong[0]} differs from the file of the run: pull it again")


@dataclass
class _Remaining:
    """What is still to be brought, and how far it has come."""

    files: dict[str, RemoteFile]
    progress: Progress
    stage: SubmitStage

    def note(self, file: RemoteFile, size: int | None) -> None:
        """So many more bytes of a file are here; None: it is whole."""
        if size is None:
            self.files.pop(file.path, None)
        moved = min(self.stage.done + (size or 0), self.stage.total)
        self.stage = self.stage._replace(done=moved)
        self.progress(self.stage)


def _fetch_all(world: World, found: Pulled, source: str, progress: Progress) -> None:
    """Bring what is needed, over as many connections as it takes."""
    from jobgen.app.unpacking import lock_folder

    total = sum(file.size for file in found.needed) or 1
    stage = SubmitStage(1, "pull", of=1, total=total)
    left = _Remaining({file.path: file for file in found.needed}, progress, stage)
    _make_folder(found.folder)
    with lock_folder(found.folder):
        while left.files:
            before = (len(left.files), left.stage.done)
            try:
                with world.connect(found.record.site.login) as transport:
                    _fetch(transport, source, found.folder, left)
            except Unreachable as error:
                if before == (len(left.files), left.stage.done):
                    raise
                world.say(f"{error}; going on with {len(left.files)} of {len(found.needed)} files")
    progress(left.stage._replace(done=total, ended=True))


def _make_folder(folder: Path) -> None:
    """The folder; a new one is marked, so that no later run gets what is in it."""
    from jobgen.app.unpacking import explain_failure

    with explain_failure(folder):
        if not folder.is_dir():
            folder.mkdir(parents=True)
            (folder / PULLED).touch()


def _fetch(transport: Transport, source: str, folder: Path, left: _Remaining) -> None:
    """What is left, over one connection: the rest of the files that have begun, then the others."""
    from jobgen.app.unpacking import explain_failure, finish, name_part, open_part, unpack
    from jobgen.transport.fetch import send_rest, send_tar

    for file in [*left.files.values()]:
        part = name_part(folder, file)
        offset = part.stat().st_size if part.is_file() and not part.is_symlink() else 0
        if not 0 < offset <= file.size:
            continue
        with explain_failure(file.path), open_part(folder, file, append=True) as rest:
            keep = partial(_keep, rest, file, left)
            send_rest(transport, f"{source}/{file.path}", offset, file.size - offset, keep)
        finish(folder, file)
        left.note(file, None)
    if paths := list(left.files):
        wanted = dict(left.files)
        unpack(lambda sink: send_tar(transport, source, paths, sink), folder, wanted, left.note)


def _keep(rest: IO[bytes], file: RemoteFile, left: _Remaining, data: bytes) -> None:
    rest.write(data)
    left.note(file, len(data))
