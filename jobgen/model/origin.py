"""What a run was submitted from, and the environment that its job recorded, as the run directory
keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jobgen.named_tuple import NamedTuple

FOLDER = "provenance"
"""The folder of the run directory that keeps them."""
SUBMISSION, CHANGES = f"{FOLDER}/submission.json", f"{FOLDER}/changes.patch"
LONGEST = 8 << 20
"""Bytes that are read of such a file."""
_MOST = 100_000
"""Entries of a list that are read."""
_TEXT = 4096
"""Characters of a version, a name or a path."""


class RunOrigin(NamedTuple):
    """What a run was submitted from, beside the files of its working directory."""

    jobgen: str
    """The version that submitted it."""
    label: str
    """How places name its job file."""
    job: str = ""
    """The text of the job file; empty if it holds a token."""
    folder: str = "."
    """The working directory, relative to the folder of the job file."""
    cluster: str = ""
    profile: Mapping[str, str] = {}
    """Label → text, of the cluster profile and of those that it extends."""
    sets: tuple[str, ...] = ()
    """The values of ``--set``."""
    image: str = ""
    """The image of its container, as the job names it."""
    commit: str = ""
    mark: str = ""
    """``+`` if files were changed since the commit, ``?`` if git could not tell."""
    prefix: str = ""
    """The working directory, relative to the top of the repository."""
    changed: tuple[str, ...] = ()
    """Changed files that the patch has, relative to the top of the repository."""
    patch_digest: str = ""
    """SHA-256 of the patch."""
    deleted: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    """Changed files that the patch has not: too large, ignored, or with a token in them."""
    links: Mapping[str, str] = {}
    """Symbolic links of the working directory, and where they point."""
    executables: tuple[str, ...] = ()

    def dump(self) -> str:
        """The text that ``read_origin`` reads."""
        return json.dumps({"v": 1, **self._asdict()}, indent=1) + "\n"


class ImageDigest(NamedTuple):
    """Which image a container ran, as the first node saw it from outside."""

    name: str
    size: int = 0
    """Bytes of an image file; 0 of another one."""
    time: int = 0
    """When the file was changed last."""
    sha256: str = ""
    """Of the whole file."""
    ends: str = ""
    """Of a large file: SHA-256 of its first and its last MiB."""
    ids: tuple[str, ...] = ()
    """What docker calls it: its digests in registries, then its ID."""

    def describe(self) -> str:
        """The digest in a few words."""
        if self.ids:
            return self.ids[0]
        kind = "sha256" if self.sha256 else "sha256 of both ends"
        return f"{self.name}, {self.size} bytes, {kind} {self.sha256 or self.ends}"


class ProgramEnvironment(NamedTuple):
    """The environment of a program, as its job recorded it at its start."""

    python: str
    executable: str
    packages: Mapping[str, str]
    modules: tuple[str, ...] = ()
    cuda: str = ""
    """The CUDA release that torch was built for."""
    hip: str = ""
    driver: str = ""
    image: str = ""
    image_size: int = 0
    image_time: int = 0
    """When the image file was changed last, in seconds; 0 if that is not known."""

    @property
    def torch(self) -> str:
        """The version of torch; empty without it."""
        return self.packages.get("torch", "")

    @property
    def nccl(self) -> str:
        """The version of the NCCL package, if it was installed as one."""
        names = (name for name in self.packages if name.startswith("nvidia-nccl"))
        return next((self.packages[name] for name in names), "")


def read_origin(text: str) -> RunOrigin | None:
    """What ``RunOrigin.dump`` wrote; None if it is something else."""
    data = _load(text)
    if not data or data.get("v") != 1 or not isinstance(data.get("jobgen"), str):
        return None
    fields: dict[str, Any] = {}
    for name, default in RunOrigin(jobgen="", label="")._asdict().items():
        value = data.get(name)
        if isinstance(default, tuple):
            fields[name] = _list_texts(value)
        elif isinstance(default, Mapping):
            fields[name] = _map_texts(value)
        else:
            fields[name] = value if isinstance(value, str) else default
    return RunOrigin(**fields)


def read_environment(text: str) -> ProgramEnvironment | None:
    """What ``program_environment.py`` wrote; None if it is something else."""
    data = _load(text)
    if not data or not isinstance(data.get("python"), str):
        return None
    image = data["image"] if isinstance(data.get("image"), dict) else {}
    size, changed = image.get("size"), image.get("time")
    return ProgramEnvironment(
        _get_text(data, "python"),
        _get_text(data, "executable"),
        _map_texts(data.get("packages")),
        _list_texts(data.get("modules")),
        _get_text(data, "cuda"),
        _get_text(data, "hip"),
        _get_text(data, "driver"),
        _get_text(image, "path"),
        size if isinstance(size, int) else 0,
        _round(changed),
    )


def read_image(text: str) -> ImageDigest | None:
    """What ``image_digest.sh`` wrote; None if it found no image, or it is something else."""
    rows = [line.partition(" ")[::2] for line in text.split("\n")[:_MOST]]
    words = {key: value[:_TEXT] for key, value in rows}
    size, time = (words.get(key, "") for key in ("size", "time"))
    ids = [value[:_TEXT] for kind in ("digest", "id") for key, value in rows if key == kind]
    if not words.get("image") or not (ids or size.isdecimal()):
        return None
    return ImageDigest(
        words["image"],
        _count(size),
        _count(time),
        words.get("sha256", ""),
        words.get("ends", ""),
        tuple(filter(None, ids)),
    )


def _count(text: str) -> int:
    """The number; 0 for what is none."""
    return int(text) if text.isdecimal() else 0


def _round(value: object) -> int:
    """Whole seconds; 0 for what is no time."""
    return int(value) if isinstance(value, (int, float)) and 0 < value < 1e11 else 0


def _load(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _get_text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value[:_TEXT] if isinstance(value, str) else ""


def _list_texts(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else []
    return tuple(entry for entry in entries[:_MOST] if isinstance(entry, str))


def _map_texts(value: object) -> dict[str, str]:
    entries = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in list(entries)[:_MOST] if isinstance(text, str)}
