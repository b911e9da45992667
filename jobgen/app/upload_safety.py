"""What must not leave this machine with a working directory: keys, credentials and tokens."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from itertools import islice
from os.path import realpath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobgen.app.workdir_files import read_file
from jobgen.app.world import World
from jobgen.data.secret_rules import find_tokens, name_kind
from jobgen.errors import Diagnostic, Place

if TYPE_CHECKING:
    from jobgen.upload import Manifest

KEYS = (".ssh", ".aws", ".gnupg", ".kube")
"""Directories of a home that hold keys; a working directory is none, lies in none and has none."""

_MOST_SHOWN = 10
_TEXT = 8192
"""A file with a zero byte among so many first ones is no text."""


def refuse_workdir(world: World, workdir: Path, place: Place) -> Diagnostic | None:
    """Why this directory is never uploaded, whatever the ignore file says; None if it may be."""
    home = Path(realpath(world.home))
    inside = next((part for part in workdir.parts if part in KEYS), "") or _secret_parent(workdir)
    holds = next((name for name in KEYS if (workdir / name).is_dir()), "")
    if home.is_relative_to(workdir):
        what = "is your home directory" if workdir == home else "contains your home directory"
    elif inside:
        what = f"is in {inside}, where keys are kept"
    elif holds:
        what = f"holds {holds}, where keys are kept"
    else:
        return None
    hint = "put the program into a directory of its own, and name that"
    return Diagnostic("J198", f"workdir {what}; it is not uploaded", place, hint)


def _secret_parent(workdir: Path) -> str:
    """The part of the path that names a directory of secrets, such as .docker; empty if none."""
    for folder in (workdir, *workdir.parents):
        holder = f"{folder.name}/config.json"
        if name_kind(str(folder), is_directory=True) or name_kind(holder, is_directory=False):
            return folder.name
    return ""


def find_leaks(
    world: World, manifest: Manifest, texts: Mapping[str, bytes] = MappingProxyType({})
) -> list[Diagnostic]:
    """The lines of files to be uploaded that hold a private key or a token, ten at most.

    Text files up to 1 MiB are searched, but for those that an ignore rule names with a ``!``; and
    so are ``texts``, by name, which become files of the job although they may not be uploaded.
    """
    return list(islice(_leaks(world, manifest, texts), _MOST_SHOWN))


def _leaks(world: World, manifest: Manifest, texts: Mapping[str, bytes]) -> Iterator[Diagnostic]:
    for entry in manifest.files:
        content = None if entry.path in manifest.named else read_file(manifest, entry)
        # most files hold none, and to name each of many takes longer than to search it
        if content is not None and next(_list_tokens(content), None):
            name = entry.path.rpartition("/")[2]
            rule = f"workdir: {{ignore: ['!{name}']}}"
            otherwise = f"leave the file out; to upload it as it is, {rule}"
            yield from find_tokens_in(
                content, world.format_path(manifest.root / entry.path), otherwise
            )
    for name in sorted(texts.keys() - {entry.path for entry in manifest.files}):
        yield from find_tokens_in(
            texts[name], world.format_path(manifest.root / name), "take it out"
        )


def find_tokens_in(content: bytes, label: str, otherwise: str) -> Iterator[Diagnostic]:
    """A problem for each private key and token of a text; none for a binary file."""
    for line, what in _list_tokens(content):
        article = "an" if what[0] in "AEIOU" else "a"
        message = f"{article} {what} would be uploaded with this file"
        hint = f"pass it with secrets: [NAME], or {otherwise}"
        yield Diagnostic("J197", message, Place(label, line), hint)


def _list_tokens(content: bytes) -> Iterator[tuple[int, str]]:
    """The line of each private key and token of a text, and what it is."""
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        content = content.decode("utf-16", "replace").encode()
    if b"\0" in content[:_TEXT]:
        return
    for token in find_tokens(content):
        yield content.count(b"\n", 0, token.start) + 1, token.what
