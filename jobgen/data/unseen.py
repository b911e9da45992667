"""Characters that a reader of a file or a question does not see."""

from __future__ import annotations

import re
import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are drawn as nothing: Default_Ignorable_Code_Point of Unicode's
DerivedCoreProperties, but for U+FE0F of emoji, and the empty braille pattern."""


def is_unseen(char: str) -> bool:
    """Whether this character shows nothing of itself, or changes what stands around it."""
    return unicodedata.category(char) in _CATEGORIES or bool(_BLANK.match(char))
