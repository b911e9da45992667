"""Questions to the person at the terminal, where there is one."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable


class Terminal:
    """The controlling terminal. ``say`` receives lines that a person should see."""

    def __init__(
        self,
        say: Callable[[str], None] | None,
        *,
        before_asking: Callable[[], object] = lambda: None,
    ) -> None:
        self._say = say
        self._before_asking = before_asking

    @property
    def there(self) -> bool:
        """Whether somebody can be asked."""
        return sys.stdin is not None and sys.stdin.isatty()

    def show(self, text: str) -> None:
        """Show a text of the server's, made harmless."""
        if self._say and text.strip():
            self._say(strip_controls(text.strip()))

    def ask(self, prompt: str, *, echo: bool = False) -> str:
        """What the person typed; hidden, unless ``echo``."""
        self._before_asking()
        if not echo:
            return getpass.getpass(strip_controls(prompt))
        sys.stderr.write(strip_controls(prompt))
        sys.stderr.flush()
        return sys.stdin.readline().rstrip("\n")


def strip_controls(text: str) -> str:
    """The text without what could move a cursor or open a link; lines are kept."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
