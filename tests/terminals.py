"""Programs on a terminal of their own."""

from __future__ import annotations

import termios
from typing import Any

import pexpect


def spawn_on_terminal(program: str, words: list[str], **how: Any) -> pexpect.spawn:
    """A program whose output an interrupt does not throw away.

    At Ctrl-C a terminal signals the program first and drops its unread output afterwards, so that
    what the program says of the signal is lost where it is fast (NOFLSH in termios(3)).
    """
    child = pexpect.spawn(program, words, **how)
    modes = termios.tcgetattr(child.child_fd)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(child.child_fd, termios.TCSANOW, modes)
    return child
