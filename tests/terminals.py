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


_WAIT = 'until [ "$(stty size)" = "$1" ]; do sleep 0.01; done; shift; exec "$@"'


def spawn_sized(
    program: str, words: list[str], lines: int, columns: int, **how: Any
) -> pexpect.spawn:
    """The same for a program that must not start before its terminal has this size.

    pexpect sets the size after the program has started; on a busy machine that may be late.
    """
    shell = ["-c", _WAIT, "sh", f"{lines} {columns}", program, *words]
    return spawn_on_terminal("sh", shell, dimensions=(lines, columns), **how)
