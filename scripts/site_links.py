"""Links that a repository's page can follow and the site cannot.

Those out of docs/ (../../examples/x) become the file's path; those to a folder its README.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

_FOLDER = re.compile(r"\]\(([\w./-]+/)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")
ROOT = Path(__file__).resolve().parents[1]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page without links to files that the site does not have. A file that is missing from the
    repository, too, stays a link, which fails the build."""
    folder = PurePosixPath("docs", page.file.src_uri).parent

    def show(match: re.Match[str]) -> str:
        target = normpath(f"{folder}/{match[2]}")
        outside = not target.startswith("docs/") and (ROOT / target).exists()
        return f"{match[1]} (`{target}`)" if outside else match[0]

    return _FOLDER.sub(r"](\1README.md)", _LINK.sub(show, markdown))
