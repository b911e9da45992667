"""One tar stream of known length: the working directory, the rendered files, and their sums.

Files are read once: hashed while they are sent, the sums come last, in MANIFEST.sha256. A stream
that breaks off holds no MANIFEST.sha256, so what was unpacked of it cannot be taken for whole.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from jobgen.model.bundle import BundleFile
from jobgen.upload.manifest import SMALL, Entry, Manifest, digest_content, read, read_small

SOURCE = "src"
"""The directory of the user's files in the stream."""

MANIFEST = "MANIFEST.sha256"
"""The last file of the stream, in the format of sha256sum, of all files in ``SUMMED``."""

SUMMED = ("src/", "bundle/")

_BLOCK = 512
_GATHER = 1 << 18
_AHEAD = 8 << 20
"""Bytes from which on reading and hashing get a thread beside the one that encrypts and sends."""
_TIME = 946_684_800  # 2000-01-01: the same bytes for the same files; tar warns of 1970
_SUM_CHARS = 64
_SIZE, _CHECKSUM = 124, 148
"""Where these fields begin in a header."""
_NO_SIZE = b"%011o" % 0
_OCTAL = 0o77777777777
"""The largest size that a header holds in octal digits."""


class TarStream:
    """Bytes for one upload: ``size`` bytes in ``chunks``; each time they are read anew."""

    def __init__(self, manifest: Manifest | None, extra: Sequence[BundleFile]) -> None:
        self._manifest = manifest
        self._entries = manifest.entries if manifest else ()
        self._extra = tuple(extra)
        self._hashes: dict[str, str] = {}
        self._sums: list[bytes] = []
        self.grown: set[str] = set()
        """Files that something was appended to since the scan: sent as far as they went then."""
        folder = _BLOCK if manifest else 0
        self.size = folder + _size_of(self._entries, self._extra)

    @property
    def chunks(self) -> Iterable[bytes]:
        """The stream, in pieces of about 256 KiB and more."""
        pieces = _gathered(self._members())
        return _ahead(pieces) if self.size >= _AHEAD else pieces

    @property
    def digest(self) -> str:
        """The content digest of the working directory; known when the stream has been sent."""
        if self._manifest is None:
            return ""
        return digest_content(self._manifest, self._hashes)

    def _members(self) -> Iterator[bytes]:
        self._hashes, self._sums = {}, []
        for file in self._extra:
            yield _header(file.path, b"0", len(file.content), file.mode)
            yield file.content
            yield _padding(len(file.content))
            if file.path.startswith(SUMMED):
                self._note(file.path, hashlib.sha256(file.content).hexdigest())
        if self._manifest is not None:
            yield _header(SOURCE + "/", b"5", 0, 0o755)
        for entry in self._entries:
            if entry.kind == "file" and entry.size <= SMALL:
                yield self._small_file(entry)
            else:
                yield from self._member(entry)
        sums = b"".join(self._sums)
        yield _header(MANIFEST, b"0", len(sums), 0o644)
        yield sums
        yield _padding(len(sums))
        yield bytes(2 * _BLOCK)

    def _member(self, entry: Entry) -> Iterator[bytes]:
        name = _name(entry)
        yield _header(name, _TYPES[entry.kind], entry.size, entry.mode, entry.target)
        if entry.kind != "file":
            return
        assert self._manifest is not None  # noqa: S101
        total = hashlib.sha256()
        for chunk in read(self._manifest.root, entry, self.grown):
            total.update(chunk)
            yield chunk
        yield _padding(entry.size)
        self._hashes[entry.path] = total.hexdigest()
        self._note(name, self._hashes[entry.path])

    def _small_file(self, entry: Entry) -> bytes:
        """Its header, bytes and padding in one piece: most of a working directory are such."""
        assert self._manifest is not None  # noqa: S101
        content = read_small(self._manifest, entry, self.grown)
        name, digest = _name(entry), hashlib.sha256(content).hexdigest()
        self._hashes[entry.path] = digest
        self._note(name, digest)
        return _header(name, b"0", entry.size, entry.mode) + content + _padding(entry.size)

    def _note(self, path: str, digest: str) -> None:
        self._sums.append(_sum_line(path, digest))


def build_payload(manifest: Manifest | None, extra: Sequence[BundleFile] = ()) -> TarStream:
    """The stream of a working directory (below ``src/``) and of files made in memory.

    ``extra`` come first, under the paths they name; ``bundle/`` files are summed, others (TOKEN,
    secrets.env) are not.
    """
    return TarStream(manifest, extra)


_TYPES = {"file": b"0", "link": b"2", "dir": b"5"}


def _name(entry: Entry) -> str:
    return f"{SOURCE}/{entry.path}" + ("/" if entry.kind == "dir" else "")


def _header(name: str, kind: bytes, size: int, mode: int, target: str = "") -> bytes:
    encoded = name.encode("utf-8", "surrogateescape")
    if kind == b"0" and len(encoded) <= tarfile.LENGTH_NAME and size <= _OCTAL:
        return _fill_header(_empty_header(mode), encoded, b"%011o" % size)
    return _write_header(name, kind, size, mode, target)


def _write_header(name: str, kind: bytes, size: int, mode: int, target: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname, info.mtime = kind, size, mode, target, _TIME
    # GNU's format takes names of any bytes and any length, and every tar there is reads it
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


@cache
def _empty_header(mode: int) -> tuple[bytes, int, bytes, bytes]:
    """The header of an empty file without a name, and its checksum.

    Its parts are what stands before the size, the checksum, what stands between them, and the rest.
    """
    block = _write_header("", b"0", 0, mode)
    checksum = int(block[_CHECKSUM : _CHECKSUM + 6], 8)
    between = block[_SIZE + len(_NO_SIZE) : _CHECKSUM]
    return block[tarfile.LENGTH_NAME : _SIZE], checksum, between, block[_CHECKSUM + 6 :]


def _fill_header(parts: tuple[bytes, int, bytes, bytes], name: bytes, size: bytes) -> bytes:
    """An empty file's header with a name and a size: a tenth of the time of a new one."""
    before, checksum, between, rest = parts
    total = checksum + sum(name) + sum(size) - sum(_NO_SIZE)
    field = name.ljust(tarfile.LENGTH_NAME, b"\0")
    return b"%b%b%b%b%06o%b" % (field, before, size, between, total, rest)


def _sum_line(path: str, digest: str) -> bytes:
    name = path.encode("utf-8", "surrogateescape")
    if b"\\" in name:  # as sha256sum writes it
        return b"\\%s  %s\n" % (digest.encode(), name.replace(b"\\", b"\\\\"))
    return b"%s  %s\n" % (digest.encode(), name)


def _size_of(entries: Sequence[Entry], extra: Sequence[BundleFile]) -> int:
    total = 2 * _BLOCK
    sums = 0
    no_digest = "0" * _SUM_CHARS
    for file in extra:
        total += _header_size(file.path, "") + _padded(len(file.content))
        if file.path.startswith(SUMMED):
            sums += len(_sum_line(file.path, no_digest))
    for entry in entries:
        name = _name(entry)
        total += _header_size(name, entry.target) + _padded(entry.size)
        if entry.kind == "file":
            sums += len(_sum_line(name, no_digest))
    return total + _header_size(MANIFEST, "") + _padded(sums)


def _header_size(name: str, target: str) -> int:
    size = _BLOCK
    for text in (name, target):
        length = len(text.encode("utf-8", "surrogateescape"))
        if length > tarfile.LENGTH_NAME:
            size += _BLOCK + _padded(length + 1)
    return size


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    small: list[bytes] = []
    held = 0
    for piece in pieces:
        small.append(piece)
        held += len(piece)
        if held >= _GATHER:
            yield b"".join(small)
            small, held = [], 0
    if small:
        yield b"".join(small)


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """These pieces in their order; each next one is made while the one before is used."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, pieces, b"")
        while piece := coming.result():
            coming = pool.submit(next, pieces, b"")
            yield piece
