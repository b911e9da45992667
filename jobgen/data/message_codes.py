"""The catalogue of codes of messages: the tables below ``codes/``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jobgen.named_tuple import NamedTuple

_FOLDER = Path(__file__).parent / "codes"
_LABELS = {"J4": ("Fails", "Fix"), "J5": ("Log", "Fixes")}
"""What the examples of a code are called, by its hundred."""


class Code(NamedTuple):
    """What a code of a message means: ``jobgen explain CODE``."""

    code: str
    title: str
    why: str
    wrong: str
    right: str
    words: tuple[str, ...] = ()
    """Words on a screen that ``explain`` takes for it, in small letters."""

    @property
    def examples(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The two examples with their labels: lines of a file, or what fails and how to fix it."""
        labels = _LABELS.get(self.code[:2], ("Wrong", "Right"))
        return (labels[0], self.wrong), (labels[1], self.right)


@cache
def codes() -> Mapping[str, Code]:
    """Every code of a message, in order."""
    import tomllib

    found: dict[str, Code] = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        for code, entry in table.items():
            if code in found:
                raise ValueError(f"{code} stands twice in the catalogue of codes")
            entry.setdefault("right", "\n".join(entry.get("fixes", ())))
            parts = (str(entry[part]).strip("\n") for part in ("title", "why", "wrong", "right"))
            title, why, wrong, right = parts
            found[code] = Code(code, title, why, wrong, right, tuple(entry.get("words", ())))
    return dict(sorted(found.items()))
