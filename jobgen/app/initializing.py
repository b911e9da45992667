"""``jobgen init``: the folder is listed, its job.yaml is written; no file of it is run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from jobgen.app.upload_safety import refuse_workdir
from jobgen.app.world import World, read_regular
from jobgen.errors import CheckFailed, Diagnostic, Invalid, Place, Usage
from jobgen.named_tuple import NamedTuple
from jobgen.survey.project.detect import Project, detect
from jobgen.survey.project.folder_listing import PLAIN_PATH, FolderListing, is_wanted
from jobgen.survey.project.init_questions import LOCAL, ChosenCluster
from jobgen.survey.project.job_text import SCHEMA

JOB = "job.yaml"
MOST_FILES = 2000
"""So many names of files are read."""
MOST_TEXTS = 200
"""So many files are read."""
LARGEST = 256 << 10
"""Bytes: a larger file is no program and no configuration."""
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
_PASSED_OVER = {"node_modules", "__pycache__", "site-packages", "wandb", "build", "dist"}


class WrittenFiles(NamedTuple):
    """What was written, as people name it, and the command to go on with."""

    job: str
    schema: str
    """Empty if there was one already."""
    next: str


def survey_folder(world: World, folder: Path, *, dry: bool = False) -> Project:
    """What the folder holds. Raises Usage if it cannot be read.

    Unless ``dry``, raises Usage if there is a job.yaml already, and CheckFailed if the folder is
    one that is never uploaded.
    """
    root = world.cwd / folder
    if not dry:
        if os.path.lexists(root / JOB):
            raise _refuse(world, root / JOB)
        if refusal := refuse_workdir(world, Path(os.path.realpath(root)), Place("")):
            raise CheckFailed(refusal._replace(place=None))
    try:
        listing = list_folder(root)
    except OSError as error:
        message = f"{world.format_path(root)}: cannot be read: {error.strerror}"
        raise Usage(message, hint="name a folder with a training program") from error
    return detect(listing)


def list_folder(root: Path) -> FolderListing:
    """The names in a folder and one level below, and the texts that matter. Follows no links."""
    files: list[str] = []
    venvs: list[str] = []
    truncated = False
    for path, is_venv in _walk(root):
        if is_venv:
            venvs += [path] if PLAIN_PATH.fullmatch(path.removeprefix(".")) else []
        elif len(files) == MOST_FILES:
            truncated = True
            break
        else:
            files.append(path)
    files.sort(key=lambda path: (path.count("/"), path))
    wanted = [path for path in files if is_wanted(path)]
    texts = {path: text for path in wanted[:MOST_TEXTS] if (text := _read_text(root / path))}
    name = Path(os.path.realpath(root)).name
    return FolderListing(name, tuple(files), texts, tuple(sorted(venvs)), truncated)


def _walk(root: Path) -> Iterator[tuple[str, bool]]:
    """Files as (path, False), and Python environments as (path, True)."""
    inner: list[str] = []
    with os.scandir(root) as entries:
        for entry in entries:
            if any(os.path.lexists(f"{entry.path}/{mark}") for mark in _ENVIRONMENT_MARKS):
                yield entry.name, True
            elif entry.is_dir(follow_symlinks=False):
                inner.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                yield entry.name, False
    for folder in sorted(inner):
        if not folder.startswith(".") and folder not in _PASSED_OVER:
            yield from ((f"{folder}/{name}", False) for name in _list_files(root / folder))


def _list_files(folder: Path) -> list[str]:
    """The names of the regular files in a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            few = islice(entries, MOST_FILES + 1)
            return [entry.name for entry in few if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []


def _read_text(path: Path) -> str:
    """The text of a small regular file; empty if it is none."""
    try:
        raw = read_regular(path, LARGEST + 1)
    except OSError:
        return ""
    return raw.decode("utf-8-sig", "replace") if len(raw) <= LARGEST else ""


def list_clusters(world: World) -> tuple[dict[str, str], tuple[str, ...]]:
    """Every cluster with its origin, and the names that are not shipped."""
    from jobgen.catalog import SHIPPED

    files = world.open_catalog().list_clusters()
    labels = {file.name: file.origin for file in files} | {LOCAL: "this machine, simulated nodes"}
    own = tuple(f.name for f in files if f.origin != SHIPPED and f.name != LOCAL)
    return labels, own


def read_cluster(world: World, name: str) -> ChosenCluster:
    """What ``init`` writes of a cluster; nothing where its profile has errors, which ``plan``
    reports."""
    from jobgen.app.clusters import find

    try:
        profile = find(world, name).loaded.value
    except Invalid:
        return ChosenCluster()
    return ChosenCluster(profile.scheduler == "local", profile.nodes.gpus_per_node)


def _refuse(world: World, path: Path) -> Usage:
    label = world.format_path(path.parent / JOB)
    hint = f"edit it, then {_next_command(world, path)}; or move it away and run init again"
    return Usage(Diagnostic("J000", f"{label} exists; init does not replace it", hint=hint))


def write_files(world: World, folder: Path, text: str) -> WrittenFiles:
    """Write job.yaml, and the schema beside it if there is none. Raises Usage."""
    path, schema = world.cwd / folder / JOB, world.cwd / folder / SCHEMA
    try:
        _create(path, text)
    except FileExistsError:
        raise _refuse(world, path) from None
    except OSError as error:
        message = f"{world.format_path(path)}: cannot be written: {error.strerror}"
        raise Usage(message, hint="name a folder that you may write to") from error
    written = ""
    if not os.path.lexists(schema):
        import json

        from jobgen.load import build_schema

        _create(schema, json.dumps(build_schema("job"), indent=1) + "\n")
        written = world.format_path(schema)
    return WrittenFiles(world.format_path(path), written, _next_command(world, path))


def _create(path: Path, text: str) -> None:
    """Write a new file; one that appears at this moment is not replaced."""
    with path.open("x", encoding="utf-8") as stream:
        stream.write(text)


def _next_command(world: World, path: Path) -> str:
    from jobgen.shell import join

    label = world.format_path(path)
    return join(["jobgen", "plan"] if label == JOB else ["jobgen", "plan", label])
