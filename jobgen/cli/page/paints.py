"""What a component of memory, or of a step, is painted with.

The hues are told apart by colour-blind readers (Okabe and Ito, Color Universal Design, 2008);
shades within a hue, patterns and letters do it in black and white.
"""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple

_PATHS = {
    "rise": "M-1 7 7 -1M-1 1 1 -1M5 7 7 5",
    "fall": "M-1 -1 7 7M5 -1 7 1M-1 5 1 7",
    "bars": "M0 3H6",
}


class Paint(NamedTuple):
    """A fill, the pattern upon it, and the colour of a letter upon both."""

    fill: str
    pattern: str = ""
    letter: str = "#ffffff"

    @property
    def strokes(self) -> str:
        """The path of the pattern; dots have none."""
        return _PATHS.get(self.pattern, "")


_DARK = "#111111"
PAINTS = {
    "params": Paint("#0072b2"),
    "grads": Paint("#4a9bd8", letter=_DARK),
    "master": Paint("#8cc4ee", letter=_DARK),
    "moments": Paint("#c6e2f7", letter=_DARK),
    "gathered": Paint("#b04a8b", "rise"),
    "buckets": Paint("#cc79a7", "rise", _DARK),
    "temporary": Paint("#ecc3da", "rise", _DARK),
    "activations": Paint("#d55e00", "dots", _DARK),
    "logits": Paint("#f3ab4b", "dots", _DARK),
    "context": Paint("#666666", "bars"),
    "cache": Paint("#b3b3b3", "bars", _DARK),
    "compute": Paint("#0072b2"),
    "update": Paint("#8cc4ee", letter=_DARK),
    "exposed, in the node": Paint("#f3ab4b", "dots", _DARK),
    "exposed, network": Paint("#d55e00", "dots", _DARK),
    "bubble": Paint("#b3b3b3", "bars", _DARK),
    "offload": Paint("#b04a8b", "rise"),
}
OTHER = Paint("#e0d37a", "fall", _DARK)
"""Of a component that is not in the table."""
_ALL = tuple(dict.fromkeys((*PAINTS.values(), OTHER)))
PATTERNS = tuple((f"paint-{number}", paint) for number, paint in enumerate(_ALL) if paint.pattern)
"""Id and paint of what fills refer to: once in a document."""


def get_paint(name: str) -> Paint:
    """The paint of a component."""
    return PAINTS.get(name, OTHER)


def get_fill(name: str) -> str:
    """The value of a fill attribute: a colour, or a reference to a pattern."""
    paint = get_paint(name)
    return f"url(#paint-{_ALL.index(paint)})" if paint.pattern else paint.fill
