"""Where cluster profiles and templates are found.

Templates: the nearest of a name. Profiles: the user's own before those of a project, which may be
somebody else's, and those before the shipped ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os.path import realpath  # Path.resolve raises in a loop of links before Python 3.13
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Invalid, Missing
from jobgen.named_tuple import NamedTuple
from jobgen.wording import join_words

if TYPE_CHECKING:
    from jobgen.data.machines import Traits

OWN, SHIPPED, HERE = "your own", "shipped", "here"
"""Origins of the profiles that nobody else's file can replace."""
_EXTENDS = re.compile(
    r"^extends:[ \t]*([\"']?)([A-Za-z0-9][A-Za-z0-9._-]{0,63})\1[ \t]*(?:#.*)?$", re.M
)
_SUFFIXES = (".yaml", ".yml")
_LEVELS = 8
"""So long may a row of profiles be that extend each other."""
_FEW = 3
"""So many names stand in an error."""
_LIMIT = (1 << 20) + 1
"""One byte more than a file may have, so that whoever parses it can tell."""


_Entry = tuple[str, Path, str]
"""Origin, path and label of a profile's file."""


class Parent(NamedTuple):
    """A profile that another one extends: its text, its label, and what it extends itself."""

    text: str
    label: str
    parent: Parent | None = None


class Hidden(NamedTuple):
    """A profile that another one of its name hides."""

    origin: str
    label: str


class ClusterFile(NamedTuple):
    """A profile that a name reaches: its text, and where it comes from."""

    name: str
    text: str
    label: str
    """The file as shown to people; never an absolute path of ours for a shipped one."""
    origin: str
    """``file``, ``beside the job``, ``here``, ``your own`` or ``shipped``."""
    path: Path
    shadows: tuple[Hidden, ...] = ()
    """The profiles of that name that this one hides, in the order in which they would be used."""
    parent: Parent | None = None
    """The profile that it extends."""
    by_path: bool = False
    """Whether it was named by its path: its name may reach another one, or none."""

    @property
    def of_project(self) -> bool:
        """Whether it lies neither among the user's own profiles nor among the shipped ones."""
        return self.origin not in (OWN, SHIPPED)

    @property
    def texts(self) -> dict[str, str]:
        """Label → text, of this profile and of every one that it extends."""
        found, above = {self.label: self.text}, self.parent
        while above is not None:
            found[above.label], above = above.text, above.parent
        return found

    @property
    def traits(self) -> Traits:
        """What it can be found by."""
        from jobgen.data.machines import read_traits

        return read_traits(self.name, self.texts.values(), shipped=self.origin == SHIPPED)


class TemplateFile(NamedTuple):
    """A template of somebody's own, in place of the shipped one of its name or beside those."""

    name: str
    text: str
    label: str


def find_shipped(kind: str) -> Path:
    """The folder of that kind: inside the wheel, or beside the package in a checkout."""
    packed = Path(__file__).parent / "_data" / kind
    return packed if packed.is_dir() else Path(__file__).parents[1] / kind


class Catalog:
    """Folders that hold ``clusters/`` and ``templates/``: (what to call it, the folder).

    The folders of profiles are listed once.
    """

    def __init__(self, search: tuple[tuple[str, Path], ...], cwd: Path = Path()) -> None:
        self.search = search
        self.cwd = cwd

    @classmethod
    def standard(cls, *, cwd: Path, config: Path, beside: Path | None = None) -> Catalog:
        """Beside the job file, here, the user's own folder, then what ships with jobgen."""
        folders = [("beside the job", beside)] if beside else []
        folders += [(HERE, cwd), (OWN, config)]
        unique = {realpath(f): (origin, f) for origin, f in reversed(folders) if f}
        nearest = [pair for pair in folders if pair in unique.values()]
        return cls(tuple((o, f) for o, f in nearest if f), cwd)

    def find_cluster(self, name: str) -> ClusterFile:
        """The profile of this name, or in this file. Raises Missing with the nearest names."""
        if "/" in name or name.endswith(_SUFFIXES):
            return self._file(name)
        if name not in self._index:
            raise self._missing(name)
        return self._read(self._index[name])

    def list_clusters(self) -> list[ClusterFile]:
        """Every profile that a name reaches, by name; those hidden are in ``shadows``."""
        return [self._read(entries) for _, entries in sorted(self._index.items())]

    def read_templates(self, kind: str) -> dict[str, str]:
        """The shipped templates of a scheduler, file name → text.

        The local scheduler runs the very script that Slurm would, so both have one folder.
        """
        base = find_shipped("templates")
        folder = base / kind if (base / kind).is_dir() else base / "slurm"
        return {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.j2"))}

    def list_overrides(self, shipped: Mapping[str, str]) -> list[TemplateFile]:
        """What lies in ``templates/slurm/`` of those folders and is not as it is shipped.

        Each name once, the nearest; usually nothing.
        """
        found: dict[str, TemplateFile] = {}
        for origin, folder in self.search:
            if origin == HERE and not _is_ours(folder / "templates"):
                continue
            for path in _files_in(folder / "templates" / "slurm", (".j2",)):
                if path.name not in found:
                    label = self._label(path)
                    if origin != OWN and not _stays_in(folder, path):
                        message = f"{label} is a link that leads out of {self._label(folder)}"
                        hint = "a template of a project is a file of it"
                        raise Invalid(Diagnostic("J241", message, None, hint))
                    found[path.name] = TemplateFile(path.name, _text(path, label), label)
        return [file for file in found.values() if file.text != shipped.get(file.name)]

    def _file(self, name: str) -> ClusterFile:
        path = self.cwd / Path(name).expanduser()
        if not path.is_file():
            hint = "give the path of a profile, or a name: jobgen cluster ls --all"
            raise Missing(Diagnostic("J182", f"there is no cluster profile '{name}'", None, hint))
        origin = OWN if self._is_own(path) else "file"
        return self._read([(origin, path, name)])._replace(by_path=True)

    def _is_own(self, path: Path) -> bool:
        """Whether this file lies in the folder of the user's own configuration."""
        own = [folder for origin, folder in self.search if origin == OWN]
        return any(
            path.absolute().is_relative_to(folder.absolute())
            or path.resolve().is_relative_to(folder.resolve())
            for folder in own
        )

    @cached_property
    def _index(self) -> dict[str, list[_Entry]]:
        """Every profile's file by its name, the one that is used first."""
        index: dict[str, list[_Entry]] = {}
        for entry in self._files():
            index.setdefault(entry[1].stem, []).append(entry)
        return index

    def _files(self) -> Iterator[_Entry]:
        """Every profile's file in the order in which a name is looked up: origin, path, label.

        What is byte for byte a shipped profile is that one, wherever a copy of it lies.
        """
        ours = find_shipped("clusters")
        for origin, folder in sorted(self.search, key=lambda pair: pair[0] != OWN):
            if realpath(folder / "clusters") != realpath(ours):
                real = Path(realpath(folder))
                for path in _files_in(folder / "clusters", _SUFFIXES):
                    outside = origin != OWN and not _stays_in(real, path)
                    if not outside and not _same(path, ours / path.name):
                        yield origin, path, self._label(path)
        for path in _files_in(ours, _SUFFIXES):
            yield SHIPPED, path, f"clusters/{path.name}"

    def _label(self, path: Path) -> str:
        """Relative to where people stand, or to their home."""
        real = realpath(path)
        for base, mark in self._bases:
            if real.startswith(base):
                return mark + real.removeprefix(base)
        return str(path)

    @cached_property
    def _bases(self) -> tuple[tuple[str, str], ...]:
        """Folders, with a slash at the end, that stand in a label as these marks."""
        return ((_resolve(self.cwd), ""), (_resolve(Path.home()), "~/"))

    def _read(self, entries: Sequence[_Entry]) -> ClusterFile:
        """The first of these; the others are hidden by it."""
        (origin, path, label), *others = entries
        text = _text(path, label)
        hidden = tuple(Hidden(origin, label) for origin, _, label in others)
        above = self._above(path, text, self._extendable(origin), ())
        return ClusterFile(path.stem, text, label, origin, path, hidden, above)

    def find_parent(self, path: Path, text: str) -> Parent | None:
        """The profile that this text extends, with its own; None where there is none.

        A profile may extend another one of its own name. A shipped one extends a shipped one, and
        one of the user's own never one of a project, whatever of that name lies nearer.
        """
        origin = OWN if self._is_own(path) else ""
        shipped_one = path.resolve().parent == find_shipped("clusters").resolve()
        allowed = self._extendable(SHIPPED if shipped_one else origin)
        return self._above(path, text, allowed, ())

    def _above(
        self, path: Path, text: str, allowed: tuple[str, ...], below: tuple[str, ...]
    ) -> Parent | None:
        match = _EXTENDS.search(text)
        if not match or len(below) == _LEVELS:
            return None
        here = realpath(path)
        for origin, found, label in self._index.get(match.group(2), ()):
            usable = not allowed or origin in allowed
            if usable and realpath(found) not in (here, *below):
                above = _text(found, label)
                # what stands above it may extend no more than it may itself
                rest = self._extendable(origin) or allowed
                return Parent(above, label, self._above(found, above, rest, (*below, here)))
        return None

    def _extendable(self, origin: str) -> tuple[str, ...]:
        """The origins of the profiles that one of this origin may extend; empty: any."""
        return {SHIPPED: (SHIPPED,), OWN: (OWN, SHIPPED)}.get(origin, ())

    def list_traits(self) -> list[Traits]:
        """What each profile can be found by."""
        return [file.traits for file in self.list_clusters()]

    def suggest(self, name: str = "") -> str:
        """What to write instead of a name that reaches no profile, or of none."""
        if name and (near := self.suggest_near(name)):
            return near
        own = [each.name for each in self.list_traits() if not each.shipped]
        yours = f"yours: {', '.join(own[:_FEW])}; " if own else ""
        if not name:
            return f"add -c NAME (-c local: this machine); {yours}all: jobgen cluster ls --all"
        made = f"describe it once: jobgen cluster add {quote(name)} --from LOGIN-HOST"
        return f"{made}; {yours}all: jobgen cluster ls --all"

    def suggest_near(self, name: str) -> str:
        """The profiles that a name may have meant; empty if none is near."""
        from jobgen.data.machines import is_match, rank_nearest

        traits = self.list_traits()
        near = rank_nearest(name, traits, _FEW)
        if near:
            alike = sum(is_match(name, each) for each in traits) > len(near)
            like = (
                f" like it: jobgen cluster ls {quote(name)}"
                if alike
                else ": jobgen cluster ls --all"
            )
            return f"did you mean {join_words(near, 'or')}? all{like}"
        file = self._find_beside(name)
        return f"to use the file {file}: -c ./{file}" if file else ""

    def _find_beside(self, name: str) -> str:
        """The file in the current folder that was meant by its name alone; empty without one."""
        files = (name, f"{name}.yaml", f"{name}.yml")
        return next((file for file in files if "/" not in file and (self.cwd / file).is_file()), "")

    def _missing(self, name: str) -> Missing:
        message = f"there is no cluster '{name[:64]}'"
        return Missing(Diagnostic("J182", message, None, self.suggest(name)))


def _is_ours(folder: Path) -> bool:
    """Whether a folder is the user's or root's: one stands by chance where others may write."""
    try:
        return folder.lstat().st_uid in (0, os.geteuid())
    except OSError:
        return False


def _stays_in(folder: Path, path: Path) -> bool:
    """Whether a file lies below a folder, with all links followed."""
    return realpath(path).startswith(_resolve(folder))


def _resolve(folder: Path) -> str:
    """A folder's path without links, with a slash at the end."""
    return f"{realpath(folder).rstrip('/')}/"


def _same(path: Path, other: Path) -> bool:
    """Whether the two are small files with equal bytes; a file that is not there equals none."""
    try:
        return path.read_bytes() == other.read_bytes() if other.is_file() else False
    except OSError:
        return False


def _files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix in suffixes and p.is_file())
    except OSError:
        return []


def _text(path: Path, label: str) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_LIMIT).decode("utf-8", "surrogateescape")
    except OSError as error:
        message = f"{label} cannot be read: {error.strerror}"
        raise Invalid(Diagnostic("J181", message, None, "look at its permissions")) from error
