"""What must not leave this machine with a working directory: keys, credentials and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.workdir_files import read_file
from jobgen.app.world import World
from jobgen.data.secret_rules import find_tokens, name_kind
from jobgen.errors import Place, Problem

if TYPE_CHECKING:
    from jobgen.upload import Manifest

KEYS = (".ssh", ".aws", ".gnupg", ".kube")
"""Directories of a home that hold keys; a working directory is none, lies in none and has none."""

_MOST_SHOWN = 10
_TEXT = 8192
"""A file with a zero byte among so many first ones is no text."""


def refuse_workdir(world: World, workdir: Path, place: Place) -> Problem | None:
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
    return Problem("J198", f"workdir {what}; it is not uploaded", place, hint)


def _secret_parent(workdir: Path) -> str:
    """The part of the path that names a directory of secrets, such as .docker; empty if none."""
    for folder in (workdir, *workdir.parents):
        holder = f"{folder.name}/config.json"
        if name_kind(str(folder), is_directory=True) or name_kind(holder, is_directory=False):
            return folder.name
    return ""


def find_leaks(world: World, manifest: Manifest) -> list[Problem]:
    """The lines of files to be uploaded that hold a private key or a token, ten at most.

    Text files up to 1 MiB are searched, but for those that an ignore rule names with a ``!``.
    """
    return list(islice(_leaks(world, manifest), _MOST_SHOWN))


def _leaks(world: World, manifest: Manifest) -> Iterator[Problem]:
    for entry in manifest.files:
        content = None if entry.path in manifest.named else read_file(manifest, entry)
        if content is None or b"\0" in content[:_TEXT]:
            continue
        name = entry.path.rpartition("/")[2]
        for token in find_tokens(content):
            line = content.count(b"\n", 0, token.start) + 1
            place = Place(world.label(manifest.root / entry.path), line)
            message = f"a {token.what} would be uploaded with this file"
            if token.what[0] in "AEIOU":
                message = f"an{message[1:]}"
            hint = (
                "deliver it with secrets: [NAME], or leave the file out; to upload it as it is, "
                f"workdir: {{ignore: ['!{name}']}}"
            )
            yield Problem("J197", message, place, hint)
