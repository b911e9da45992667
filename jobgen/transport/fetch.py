"""Files of a directory on the other side: the list of them, and some of them as one tar stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from jobgen.errors import JobgenError
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Result, build_script
from jobgen.transport import Payload, Transport

PATIENCE = 7 * 24 * 3600.0
"""Seconds that one stream may take: a checkpoint may have terabytes."""
_LIST = r"""
cd "$1" 2>/dev/null || { printf 'none\0'; exit 0; }
find . -type f -printf '%s %T@ %P\0' && printf 'end\0'
"""
_SEND = r"""
cd "$1" && tar --create --file=- --format=posix --no-recursion --hard-dereference \
    --null --verbatim-files-from --files-from=-
"""
_REST = r"""
tail -c "+$(($2 + 1))" "$1" | head -c "$3"
"""
_SUMS = r"""
cd "$1" && xargs -0 sha256sum -z --
"""


_ROW = re.compile(rb"(\d{1,19}) (-?\d{1,12}(?:\.\d+)?) (.+)", re.DOTALL)


class RemoteFile(NamedTuple):
    """One file below a directory."""

    path: str
    """Relative to the directory; bytes that are no UTF-8 as surrogates."""
    size: int
    """Bytes."""
    modified: float
    """Seconds since 1970."""


def list_files(transport: Transport, directory: str) -> tuple[RemoteFile, ...] | None:
    """Every regular file below a directory, by path; None if there is no such directory.

    Names that lead out of the directory, and those that cannot be printed, are left out. Raises
    JobgenError if the answer is not whole.
    """
    result = transport.call(build_script(_LIST, directory), deadline=600.0)
    if result.out == b"none\0":
        return None
    *rows, end, rest = result.out.split(b"\0") if b"\0" in result.out else [b"", b"", b""]
    if end != b"end" or rest:
        raise JobgenError(f"{directory} cannot be listed: {_complain(result)}")
    matches = [_ROW.fullmatch(row) for row in rows]
    if None in matches:
        raise JobgenError(f"{directory} cannot be listed: the answer is garbled")
    files = (
        RemoteFile(match[3].decode("utf-8", "surrogateescape"), int(match[1]), float(match[2]))
        for match in matches
        if match
    )
    return tuple(sorted((f for f in files if is_inside(f.path)), key=lambda file: file.path))


def is_inside(path: str) -> bool:
    """Whether a path that the other side sent stays below the directory it is put into."""
    parts = path.split("/")
    return not {"", ".", ".."} & {*parts} and path.isprintable()


def send_tar(
    transport: Transport, directory: str, paths: Sequence[str], sink: Callable[[bytes], None]
) -> None:
    """Hand over these files as one tar stream. Raises JobgenError if one could not be read,
    after the others were sent, and Unreachable."""
    listed = b"".join(_encode(path) + b"\0" for path in paths)
    script = build_script(_SEND, directory)
    result = transport.call(script, Payload(len(listed), [listed]), deadline=PATIENCE, sink=sink)
    if result.code:
        raise JobgenError(f"not every file was sent: {_complain(result)}")


def send_rest(
    transport: Transport, path: str, offset: int, count: int, sink: Callable[[bytes], None]
) -> None:
    """Hand over ``count`` bytes of one file from ``offset`` on. Raises Unreachable."""
    script = build_script(_REST, path, str(offset), str(count))
    transport.call(script, deadline=PATIENCE, sink=sink)


def compute_sums(transport: Transport, directory: str, paths: Iterable[str]) -> dict[str, str]:
    """SHA-256 of these files, by path, as the other side computes them."""
    listed = b"".join(_encode(path) + b"\0" for path in paths)
    script = build_script(_SUMS, directory)
    result = transport.call(script, Payload(len(listed), [listed]), deadline=PATIENCE)
    rows = (row.split(b"  ", 1) for row in result.out.split(b"\0") if b"  " in row)
    return {
        path.decode("utf-8", "surrogateescape").removeprefix("./"): digest.decode(
            "ascii", "replace"
        )
        for digest, path in rows
    }


def _encode(path: str) -> bytes:
    # ./ so that no name is read as an option
    return b"./" + path.encode("utf-8", "surrogateescape")


def _complain(result: Result) -> str:
    lines = [line for line in result.error_text.split("\n") if line.strip()]
    return lines[-1][-300:] if lines else f"incomplete answer (exit code {result.code})"
