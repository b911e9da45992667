"""Reading the files of a workdir for what is in them: small regular files only.

Links are not followed and pipes not waited for, even if a file became one since it was listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import JobgenError

if TYPE_CHECKING:
    from jobgen.upload import Entry, Manifest

LARGEST = 1 << 20
"""Bytes: a larger file is data and no program."""
MOST = 64 << 20
"""Bytes of all files together that a search reads."""


def read_file(manifest: Manifest, entry: Entry) -> bytes | None:
    """The bytes of a file; None if it is large, or no longer the file that was listed."""
    from jobgen.upload.manifest import SMALL, read, read_small

    if entry.size > LARGEST:
        return None
    try:
        if entry.size <= SMALL:
            return read_small(manifest, entry)
        return b"".join(read(manifest.root, entry))
    except JobgenError:
        return None


def find_word(manifest: Manifest, word: bytes) -> bool | None:
    """Whether any file that is not large has the word; None if some could not be read."""
    small = [entry for entry in manifest.files if entry.size <= LARGEST]
    left = MOST
    for entry in sorted(small, key=lambda entry: not entry.path.endswith((".py", ".sh"))):
        left -= entry.size
        content = read_file(manifest, entry) if left >= 0 else None
        if content is None:
            return None
        if word in content:
            return True
    return False
