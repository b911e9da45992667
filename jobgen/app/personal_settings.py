"""``config``: every setting of this person and machine, with its value and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jobgen.data.secret_rules import mask_tokens
from jobgen.errors import Usage
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.world import World

_MOST = 1000
"""Permissions that are read."""


class PersonalSetting(NamedTuple):
    """One value. Some keys have several: folders in the order of their search, permissions."""

    key: str
    value: str
    """Empty if it is not set and has no default."""
    origin: Literal["variable", "file", "default"]
    place: str = ""
    """The variable's name, or a file and its line."""


KEYS = (
    "cluster",
    "state",
    "config",
    "ssh_config",
    "color",
    "width",
    "profiles",
    "templates",
    "permissions",
)


def list_settings(world: World, keys: Sequence[str] = ()) -> tuple[PersonalSetting, ...]:
    """The settings of these keys; all without any. Contacts nothing. Raises Usage."""
    from jobgen.model.fields import suggest

    for key in keys:
        if key not in KEYS:
            raise Usage(f"unknown setting '{key[:64]}'", hint=suggest(key, KEYS))
    settings = (*_list_variables(world), *_list_folders(world), *_list_permissions(world))
    masked = (setting._replace(value=mask_tokens(setting.value)) for setting in settings)
    return tuple(setting for setting in masked if not keys or setting.key in keys)


def _list_variables(world: World) -> Iterator[PersonalSetting]:
    environ = world.environ
    yield _read_variable(world, "cluster", ("JOBGEN_CLUSTER",), "")
    folders = {"state": world.state, "config": world.config}
    for key, folder in folders.items():
        names = (f"JOBGEN_{key.upper()}_HOME", f"XDG_{key.upper()}_HOME")
        # a relative XDG folder is passed over
        used = [name for name in names if folder in _name_folders(environ.get(name, ""))]
        if used:
            yield PersonalSetting(key, str(folder), "variable", used[0])
        else:
            yield PersonalSetting(key, str(folder), "default")
    ssh = str(world.home / ".ssh" / "config")
    yield _read_variable(world, "ssh_config", ("JOBGEN_SSH_CONFIG",), ssh)
    yield _describe_color(world)
    width = environ.get("COLUMNS", "")
    if width.isascii() and width.isdigit() and int(width):
        yield PersonalSetting("width", width, "variable", "COLUMNS")
    else:
        yield PersonalSetting("width", "of the terminal, else 80", "default")


def _read_variable(world: World, key: str, names: tuple[str, ...], default: str) -> PersonalSetting:
    for name in names:
        if value := world.environ.get(name):
            return PersonalSetting(key, value, "variable", name)
    return PersonalSetting(key, default, "default")


def _name_folders(value: str) -> tuple[Path, ...]:
    """The folders that the value of a variable may stand for."""
    return (Path(value), Path(value) / "jobgen") if value else ()


def _describe_color(world: World) -> PersonalSetting:
    if world.environ.get("NO_COLOR"):
        return PersonalSetting("color", "never", "variable", "NO_COLOR")
    if world.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return PersonalSetting("color", "always", "variable", "FORCE_COLOR")
    return PersonalSetting("color", "auto", "default")


def _list_folders(world: World) -> Iterator[PersonalSetting]:
    """The folders of profiles and templates that exist, in the order in which they are searched."""
    from jobgen.catalog import OWN, find_shipped

    search = world.open_catalog().search
    own = next(setting for setting in _list_variables(world) if setting.key == "config")
    # of profiles your own come first, of templates the nearest
    orders = {"clusters": sorted(search, key=lambda pair: pair[0] != OWN)}
    for key, below in (("profiles", "clusters"), ("templates", "templates/slurm")):
        for origin, folder in orders.get(below, search):
            if (folder / below).is_dir():
                value = world.format_path(folder / below)
                # the user's own folder is where its variable, or the default, says
                where = own if origin == OWN else own._replace(origin="default", place="")
                yield where._replace(key=key, value=value)
        shipped = find_shipped(below.partition("/")[0])
        yield PersonalSetting(key, f"{shipped} (shipped)", "default")


def _list_permissions(world: World) -> Iterator[PersonalSetting]:
    """What was allowed with ``cluster trust`` or an answer: each with its line."""
    from jobgen.app.permissions import FILE
    from jobgen.app.world import read_regular

    path = world.state / FILE
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except OSError:
        return
    for number, line in enumerate(text.split("\n")[:_MOST], 1):
        try:
            words = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            place = f"{world.format_path(path)}:{number}"
            yield PersonalSetting("permissions", " ".join(words), "file", place)
