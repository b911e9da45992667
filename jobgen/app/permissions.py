"""What files of a project may do only with a person's permission, given once and kept.

A project's profile leads to a login; a project's job names a file as a secret. Neither may be
somebody else's choice: a cloned repository holds both. Permissions are kept in the user's state,
one JSON list a line; ``-y`` gives none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.data.secret_rules import name_kind
from jobgen.errors import Diagnostic, Usage
from jobgen.shell import quote

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.catalog import ClusterFile
    from jobgen.model.job import SecretRef
    from jobgen.model.record import Site
    from jobgen.upload import Manifest

FILE = "permissions.jsonl"

Permission = tuple[str, ...]
"""A kind and what it is for: ("login", "ann@hpc:/scratch/ann"), ("secret", file, job folder)."""


def name_login(site: Site) -> str:
    """``USER@HOST:ROOT`` as ``--trust`` takes it: the parts that the profile states.

    Without a user it is ``HOST:ROOT``, with a port ``HOST:PORT:ROOT``.
    """
    login = site.login
    user = f"{login.user}@" if login.user else ""
    port = f":{login.port}" if login.port else ""
    return f"{user}{login.host or 'localhost'}{port}:{site.root}"


def require_login(world: World, file: ClusterFile, site: Site) -> None:
    """Return if this profile may be used to connect; ask for what is missing.

    Raises Usage where the answer is no or nobody can be asked.
    """
    wanted = _of_profile(file, site)
    named = name_login(site)
    if named in world.trusted:
        _keep(world, wanted)
        return
    missing = [permission for permission in wanted if permission not in _kept(world)]
    if not missing:
        return
    lines = [_untrusted(file), *_describe(file, site)]
    if world.consent("\n".join([*lines, f"Trust {named}?"])):
        _keep(world, missing)
        return
    hint = f"{_how_to_trust(file)}, or add --trust {quote(named)}"
    raise Usage(Diagnostic("J187", "\n".join(lines), None, hint))


def note_login(world: World, file: ClusterFile, site: Site) -> tuple[Diagnostic, ...]:
    """A warning where the first connection by this profile would ask for permission."""
    kept = _kept(world)
    if name_login(site) in world.trusted or all(one in kept for one in _of_profile(file, site)):
        return ()
    message = f"{_untrusted(file)}: submit asks first"
    return (Diagnostic("J187", message, None, _how_to_trust(file), "warning"),)


def _untrusted(file: ClusterFile) -> str:
    return f"{file.label} comes with this project, and its login is not trusted yet"


def _how_to_trust(file: ClusterFile) -> str:
    return f"if it is right: jobgen cluster trust {quote(_reference(file))}"


def trust_profile(world: World, file: ClusterFile, site: Site) -> str:
    """Keep the permission to connect as this profile says; the login's name."""
    _keep(world, _of_profile(file, site))
    return name_login(site)


def _of_profile(file: ClusterFile, site: Site) -> list[Permission]:
    if not file.of_project:
        return []
    hides = [("profile", realpath(file.path))] if _hides_shipped(file) else []
    return [("login", name_login(site)), *hides]


def _reference(file: ClusterFile) -> str:
    """The word that names this profile on a command line."""
    return file.label if file.origin == "file" else file.name


def _hides_shipped(file: ClusterFile) -> bool:
    from jobgen.catalog import SHIPPED

    return any(hidden.origin == SHIPPED for hidden in file.shadows)


def _describe(file: ClusterFile, site: Site) -> list[str]:
    login = site.login
    host = login.host or "this machine: jobs would run here"
    lines = [
        f"host  {host}" + (f", port {login.port}" if login.port else ""),
        f"user  {login.user or 'from ~/.ssh/config, or yours here'}",
        f"root  {site.root}",
    ]
    if _hides_shipped(file):
        lines.append(f"it is used instead of the profile {file.name} that ships with jobgen")
    return lines


def require_secrets(world: World, refs: Sequence[SecretRef], base: Path) -> None:
    """Return if the files that these secrets are read from may be read; ask for what is missing.

    Files below the job's folder need no permission. Raises Usage as ``require_login`` does.
    """
    from jobgen.app.secret import get_path

    folder = realpath(base)
    kept = _kept(world)
    for ref in refs:
        path = realpath(get_path(world, ref, base)) if ref.source == "file" else ""
        permission = ("secret", path, folder)
        if not path or Path(path).is_relative_to(folder) or permission in kept:
            continue
        message = f"secret {ref.name} is read from {path}, outside the job's folder"
        if not (world.outside or world.consent(f"{message}\nRead it, and send it to the cluster?")):
            hint = "if you want the job to have it: add --allow-outside"
            raise Usage(Diagnostic("J188", message, None, hint))
        _keep(world, [permission])


def require_workdir(world: World, manifest: Manifest, base: Path) -> None:
    """Return if this directory may be uploaded; ask if it is not of the job's project.

    The project is the git work tree that holds the job's folder, or that folder. The question and
    the permission name the secret files that the job's rules take along. Raises Usage as
    ``require_login`` does.
    """
    folder, path = realpath(base), realpath(manifest.root)
    if Path(path).is_relative_to(_find_project(world, Path(folder))):
        return
    files = (entry.path for entry in manifest.files if entry.path in manifest.named)
    taken = sorted(name for name in files if name_kind(name, is_directory=False))
    permission = ("workdir", path, folder, *taken)
    if permission in _kept(world):
        return
    message = f"workdir is {path}, outside the job's project"
    message += f"; it sends {', '.join(taken)} of it" if taken else ""
    if not (world.outside or world.consent(f"{message}\nUpload it to the cluster?")):
        hint = "if you want it uploaded: add --allow-outside"
        raise Usage(Diagnostic("J188", message, None, hint))
    _keep(world, [permission])


def _find_project(world: World, folder: Path) -> Path:
    """The git work tree around a folder, if it is smaller than the user's home; else the folder."""
    home = Path(realpath(world.home))
    trees = (path for path in (folder, *folder.parents) if (path / ".git").exists())
    tree = next(trees, folder)
    return folder if home.is_relative_to(tree) else tree


def _kept(world: World) -> set[Permission]:
    try:
        text = (world.state / FILE).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return set()
    return {permission for line in text.split("\n") if (permission := _parse(line))}


def _parse(line: str) -> Permission:
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    strings = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return tuple(words) if strings else ()


def _keep(world: World, permissions: Sequence[Permission]) -> None:
    known = _kept(world)
    lines = [json.dumps(permission) + "\n" for permission in permissions if permission not in known]
    if not lines:
        return
    try:
        world.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(world.state / FILE, flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write("".join(lines))
    except OSError as error:
        world.say(f"note: the answer is not kept: {world.state / FILE}: {error.strerror}")
