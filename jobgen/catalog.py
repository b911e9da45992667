"""Where cluster profiles and templates are found, nearest first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os.path import realpath  # Path.resolve raises in a loop of links before Python 3.13
from pathlib import Path
from typing import NamedTuple

from jobgen.errors import Invalid, Missing, Problem

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


class Parent(NamedTuple):
    """A profile that another one extends: its text, its label, and what it extends itself."""

    text: str
    label: str
    parent: Parent | None = None


class ClusterFile(NamedTuple):
    """A profile that a name reaches: its text, and where it comes from."""

    name: str
    text: str
    label: str
    """The file as shown to people; never an absolute path of ours for a shipped one."""
    origin: str
    """``file``, ``beside the job``, ``here``, ``your own`` or ``shipped``."""
    path: Path
    shadows: tuple[str, ...] = ()
    """Labels of the profiles of that name further away, which this one hides."""
    parent: Parent | None = None
    """The profile that it extends."""

    @property
    def texts(self) -> dict[str, str]:
        """Label → text, of it and of all that it extends."""
        found, above = {self.label: self.text}, self.parent
        while above is not None:
            found[above.label], above = above.text, above.parent
        return found


class TemplateFile(NamedTuple):
    """A template of somebody's own, in place of the shipped one of its name or beside those."""

    name: str
    text: str
    label: str


def shipped(kind: str) -> Path:
    """The folder of that kind: inside the wheel, or beside the package in a checkout."""
    packed = Path(__file__).parent / "_data" / kind
    return packed if packed.is_dir() else Path(__file__).parents[1] / kind


class Catalog(NamedTuple):
    """Folders that hold ``clusters/`` and ``templates/``: (what to call it, the folder)."""

    search: tuple[tuple[str, Path], ...]
    cwd: Path = Path()

    @classmethod
    def standard(cls, *, cwd: Path, config: Path, beside: Path | None = None) -> Catalog:
        """Beside the job file, here, the user's own folder, then what ships with jobgen."""
        folders = [("beside the job", beside)] if beside else []
        folders += [("here", cwd), ("your own", config)]
        unique = {realpath(f): (origin, f) for origin, f in reversed(folders) if f}
        nearest = [pair for pair in folders if pair in unique.values()]
        return cls(tuple((o, f) for o, f in nearest if f), cwd)

    def cluster(self, name: str) -> ClusterFile:
        """The profile of this name, or in this file. Raises Missing with the nearest names."""
        if "/" in name or name.endswith(_SUFFIXES):
            return self._file(name)
        found = [f for f in self._files() if f[1].stem == name]
        if not found:
            raise self._missing(name)
        return self._read(found[0], tuple(label for _, _, label in found[1:]))

    def clusters(self) -> list[ClusterFile]:
        """Every profile that a name reaches, by name; those hidden are in ``shadows``."""
        by_name: dict[str, list[tuple[str, Path, str]]] = {}
        for entry in self._files():
            by_name.setdefault(entry[1].stem, []).append(entry)
        named = sorted(by_name.items())
        return [self._read(e[0], tuple(label for _, _, label in e[1:])) for _, e in named]

    def templates(self, kind: str) -> dict[str, str]:
        """The shipped templates of a scheduler, file name → text.

        The local scheduler runs the very script that Slurm would, so both have one folder.
        """
        base = shipped("templates")
        folder = base / kind if (base / kind).is_dir() else base / "slurm"
        return {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.j2"))}

    def own_templates(self, shipped: Mapping[str, str]) -> list[TemplateFile]:
        """What lies in ``templates/slurm/`` of those folders and is not as it is shipped.

        Each name once, the nearest; usually nothing.
        """
        found: dict[str, TemplateFile] = {}
        for _, folder in self.search:
            for path in _files_in(folder / "templates" / "slurm", (".j2",)):
                if path.name not in found:
                    label = self._label(path)
                    found[path.name] = TemplateFile(path.name, _text(path, label), label)
        return [file for file in found.values() if file.text != shipped.get(file.name)]

    def _file(self, name: str) -> ClusterFile:
        path = self.cwd / Path(name).expanduser()
        if not path.is_file():
            hint = "give the path of a profile, or a name: jobgen cluster ls"
            raise Missing(Problem("J182", f"there is no cluster profile '{name}'", None, hint))
        return self._read(("file", path, name), ())

    def _files(self) -> Iterator[tuple[str, Path, str]]:
        """Every profile's file, nearest first and each once: origin, path, label."""
        ours = shipped("clusters")
        for origin, folder in self.search:
            if realpath(folder / "clusters") != realpath(ours):
                for path in _files_in(folder / "clusters", _SUFFIXES):
                    yield origin, path, self._label(path)
        for path in _files_in(ours, _SUFFIXES):
            yield "shipped", path, f"clusters/{path.name}"

    def _label(self, path: Path) -> str:
        """Relative to where people stand, or to their home."""
        for base, mark in ((self.cwd, ""), (Path.home(), "~/")):
            try:
                return mark + str(path.resolve().relative_to(base.resolve()))
            except ValueError:
                continue
        return str(path)

    def _read(self, entry: tuple[str, Path, str], shadows: tuple[str, ...]) -> ClusterFile:
        origin, path, label = entry
        text = _text(path, label)
        return ClusterFile(path.stem, text, label, origin, path, shadows, self.parent(path, text))

    def parent(self, path: Path, text: str) -> Parent | None:
        """The profile that this text extends, with its own; None where there is none.

        A profile may extend one of its own name, which lies further away. A shipped one extends
        a shipped one, whatever of that name lies nearer.
        """
        return self._above(path, text, ())

    def _above(self, path: Path, text: str, below: tuple[Path, ...]) -> Parent | None:
        match = _EXTENDS.search(text)
        if not match or len(below) == _LEVELS:
            return None
        here = path.resolve()
        ours = here.parent == shipped("clusters").resolve()
        for origin, found, label in self._files():
            near = ours and origin != "shipped"
            if found.stem == match.group(2) and not near and found.resolve() not in (here, *below):
                above = _text(found, label)
                return Parent(above, label, self._above(found, above, (*below, here)))
        return None

    def suggest(self, name: str = "") -> str:
        """Where to go from a name that reaches no profile: those near it, or the user's own."""
        from difflib import get_close_matches

        origins = {path.stem: origin for origin, path, _ in reversed(list(self._files()))}
        near = get_close_matches(name[:64], sorted(origins), _FEW) if name else []
        own = sorted(stem for stem, origin in origins.items() if origin != "shipped")
        start = ""
        if near:
            start = f"did you mean {' or '.join(map(repr, near))}? "
        elif own:
            start = f"yours: {', '.join(own[:_FEW])}; "
        return f"{start}jobgen cluster ls lists all"

    def _missing(self, name: str) -> Missing:
        message = f"there is no cluster '{name[:64]}'"
        return Missing(Problem("J182", message, None, self.suggest(name)))


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
        raise Invalid(Problem("J181", message, None, "look at its permissions")) from error
