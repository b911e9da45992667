"""A compound command that is being read: ``if``, a loop, a function, what stands in brackets."""

from __future__ import annotations


class Frame:
    """A compound command that is open, and what holds for the commands in it."""

    def __init__(self, kind: str, above: Frame | None, *, always: bool, some: bool) -> None:
        self.kind = kind
        self.always, self.some = always, some
        self.outer_always, self.outer_some = always, some
        self.condition = kind in {"if", "while", "until"}
        """Whether its condition is being read."""
        self.tests = self.names_rank = self.tests_rank = False
        self.repeats = self.apart = False
        self.body: int | None = None
        """Where it begins, if it is the body of a function."""
        self.succeeds = True
        """Whether its last command is expected to succeed."""
        self.loops: tuple[Frame, ...] = above.loops if above else ()
        self.in_function: str = above.in_function if above else ""
        self.start_list()

    def start_list(self) -> None:
        """Begin a new list of commands: what && and || have decided so far is over."""
        self.sure, self.rank_test, self.piped = True, False, False
        self.passes = True
        self.first: int | None = None
