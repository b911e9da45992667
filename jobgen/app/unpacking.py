"""A tar stream of another machine → files below one folder, and nothing else.

Only files that were asked for are written, through no symbolic link; each appears under its name
when it is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from jobgen.errors import JobgenError

if TYPE_CHECKING:
    from jobgen.transport.fetch import RemoteFile

_BLOCK = 1 << 20

Done = Callable[["RemoteFile", int | None], None]
"""Called with a file and how many more of its bytes are there; None when it is whole."""
Receive = Callable[[Callable[[bytes], None]], None]
"""What sends: called with what takes the bytes."""


def compute_sum(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextlib.contextmanager
def explain_failure(path: Path | str) -> Iterator[None]:
    """Raise JobgenError where the system refuses to write a file or a folder."""
    try:
        yield
    except OSError as error:
        raise JobgenError(f"{path} cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Write into this folder alone. Raises JobgenError where another process does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise JobgenError(f"another pull writes into {folder}") from error
    finally:
        os.close(descriptor)


def name_part(folder: Path, file: RemoteFile) -> Path:
    """Where a file is written until it is whole; another version has another name."""
    path = folder / file.path
    return path.with_name(f".{path.name}.{file.size}-{file.modified:.0f}.part")


def make_parent(folder: Path, path: str) -> None:
    """Make the folders above a file. Raises JobgenError where one is a symbolic link or a file."""
    here = folder
    for part in path.split("/")[:-1]:
        here /= part
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            raise JobgenError(f"{here} is no folder: nothing is written through it")
        here.mkdir(exist_ok=True)


def open_part(folder: Path, file: RemoteFile, *, append: bool = False) -> IO[bytes]:
    """The part of a file, open for writing, after what it holds with ``append``."""
    make_parent(folder, file.path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_APPEND if append else os.O_TRUNC)
    return os.fdopen(os.open(name_part(folder, file), flags, 0o666), "wb")


def finish(folder: Path, file: RemoteFile) -> None:
    """Give a whole part its name and time. Raises JobgenError if it has another length."""
    part = name_part(folder, file)
    size = part.stat().st_size
    if size != file.size:
        part.unlink()
        raise JobgenError(f"{file.path} changed while it was read: {size} of {file.size} bytes")
    os.utime(part, (file.modified, file.modified))
    part.replace(folder / file.path)


def unpack(
    receive: Receive,
    folder: Path,
    wanted: Mapping[str, RemoteFile],
    done: Done,
) -> None:
    """Write the files of a tar stream below ``folder``.

    Raises JobgenError for a file that was not asked for, and what ``receive`` raises.
    """
    read, write = os.pipe()
    failed: list[BaseException] = []

    def consume() -> None:
        with os.fdopen(read, "rb") as source:
            try:
                _read_members(source, folder, wanted, done)
            except (JobgenError, OSError, tarfile.TarError) as error:
                failed.append(error)

    reader = threading.Thread(target=consume)
    reader.start()
    try:
        with os.fdopen(write, "wb", buffering=0) as sink:
            receive(lambda data: _write_all(sink, data))
    except BrokenPipeError:
        pass  # the reader has left: it says why
    finally:
        reader.join()
        broken = [error for error in failed if not isinstance(error, tarfile.TarError)]
        if broken:
            raise broken[0]
    if failed:
        raise JobgenError(f"the stream of files is damaged: {failed[0]}")


def _write_all(sink: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[sink.write(view) :]


def _read_members(
    source: IO[bytes],
    folder: Path,
    wanted: Mapping[str, RemoteFile],
    done: Done,
) -> None:
    with tarfile.open(fileobj=source, mode="r|", errorlevel=2) as stream:
        for member in stream:
            file = wanted.get(member.name.removeprefix("./"))
            content = stream.extractfile(member) if member.isreg() else None
            if file is None or content is None:
                raise JobgenError(f"the host sent {member.name!r}, which was not asked for")
            with explain_failure(file.path), open_part(folder, file) as part:
                while block := content.read(_BLOCK):
                    part.write(block)
                    done(file, len(block))
            finish(folder, file)
            done(file, None)
