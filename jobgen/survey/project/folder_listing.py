"""A folder as ``jobgen init`` sees it: the names in it, and the text of its small files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobgen.named_tuple import NamedTuple

PLAIN_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*", re.ASCII)
"""Paths that need no quotes in YAML or bash; files with other names are not proposed."""
_TEXTS = re.compile(
    r".*\.(?:py|json|ya?ml)|(?:requirements[\w-]*\.txt|pyproject\.toml)", re.ASCII | re.DOTALL
)


class FolderListing(NamedTuple):
    """The names in a folder and in the folders right below it, relative to it."""

    name: str
    """What the folder is called."""
    files: tuple[str, ...]
    texts: Mapping[str, str] = {}
    """Path → text of the files that could be read; others are missing here."""
    venvs: tuple[str, ...] = ()
    """Folders that are Python environments: ``.venv``."""
    truncated: bool = False
    """Whether the folder holds more than was listed."""

    def find_top(self, pattern: str) -> str:
        """The first file in the folder itself whose whole name matches; empty if none does."""
        return next((path for path in self.files if re.fullmatch(pattern, path)), "")

    def list_texts(self, *suffixes: str) -> Iterator[tuple[str, str]]:
        """Path and text of the files with such an ending, by path."""
        for path in self.files:
            if path.endswith(suffixes) and path in self.texts:
                yield path, self.texts[path]


def is_wanted(path: str) -> bool:
    """Whether the text of a file of this name can matter."""
    return bool(_TEXTS.fullmatch(path) and PLAIN_PATH.fullmatch(path))
