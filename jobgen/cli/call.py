"""One call of the program: its flags, its output, and the world it acts on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jobgen.cli.output import Ink, Output, defuse, is_tty
from jobgen.errors import Diagnostic, JobgenError, Usage

if TYPE_CHECKING:
    from jobgen.app.world import World


class Flags:
    """The flags of the command line that every verb shares."""

    # no dataclass, here and below: making one costs a hundredth of `ls`
    cluster: str | None = None
    sets: tuple[str, ...] = ()
    json: bool = False
    quiet: int = 0
    verbose: int = 0
    color: str = "auto"
    ascii: bool = False
    yes: bool = False
    inside: str | None = None
    trust: tuple[str, ...] = ()
    allow_outside: bool = False
    debug: bool = False


class Call:
    """What a verb is given."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.flags = Flags()
        self.verb = ""
        """For the name of the JSON schema: ``plan``, ``cluster-ls``."""

    @cached_property
    def world(self) -> World:
        """The real world; made when first asked for, because ``--help`` needs none."""
        from jobgen.app.world import World

        flags = self.flags
        return World.here(
            consent=self.ask_consent, trusted=frozenset(flags.trust), outside=flags.allow_outside
        )

    @property
    def texts(self) -> Mapping[str, str]:
        """Label → text of every file that was read."""
        return self.world.texts if "world" in self.__dict__ else {}

    @property
    def masked(self) -> Iterable[str]:
        """Values that must not be shown."""
        return self.world.masked if "world" in self.__dict__ else ()

    def settle(self) -> None:
        """Hand the flags to the output, once every one is read; the environment comes last."""
        if self.flags.cluster is None:
            self.flags.cluster = self.output.environ.get("JOBGEN_CLUSTER") or None
        self.output.color, self.output.ascii = self.flags.color, self.flags.ascii
        self.output.quiet = self.flags.quiet

    def answer(
        self,
        data: Callable[[], Any],
        screen: Callable[[Ink], str],
        *,
        warnings: Iterable[Diagnostic] = (),
    ) -> None:
        """Print the answer of a verb: an envelope with ``--json``, else the screen."""
        if self.flags.json:
            self.write_envelope(data(), warnings=warnings)
        else:
            self.output.write_text(screen(self.output.ink))

    def write_envelope(
        self, data: Any, *, warnings: Iterable[Diagnostic] = (), error: JobgenError | None = None
    ) -> None:
        """One JSON document on standard output, in the shape that all verbs share."""
        from jobgen.cli.diagnostics import dump_problem

        self.write_line(
            {
                "schema": f"jobgen/{self.verb or 'jobgen'}/1",
                "ok": error is None,
                "data": data,
                "warnings": [dump_problem(w) for w in warnings],
                "error": None if error is None else _error(error),
            }
        )

    def write_line(self, value: Mapping[str, Any]) -> None:
        """One JSON value on one line. ASCII only, so nothing in it can act on a terminal."""
        import json

        sys.stdout.write(json.dumps(value, default=str, separators=(", ", ": ")) + "\n")
        sys.stdout.flush()

    def complain(self, problems: Iterable[Diagnostic]) -> None:
        """Problems on standard error; warnings and notes are talk, errors are not."""
        from jobgen.cli.diagnostics import format_problem

        for problem in problems:
            level = 2 if problem.severity == "error" else 1
            self.output.say(
                format_problem(problem, self.texts, self.output.talk).rstrip("\n"), level=level
            )

    def confirm(self, question: str) -> bool:
        """Ask yes or no. Raises Usage where nobody can be asked; ``-y`` answers yes."""
        if self.flags.yes:
            return True
        if not self.can_ask:
            message = f"confirmation needed, but there is no terminal: {question}"
            raise Usage(message, hint="add -y to answer yes")
        return _ask(question)

    def ask_consent(self, question: str) -> bool:
        """Ask yes or no for a permission that ``-y`` does not give; no where nobody can be asked.

        The question may hold text of a file: what could act on a terminal is written out.
        """
        return self.can_ask and _ask("\n".join(map(defuse, question.split("\n"))))

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer a question."""
        return not self.flags.json and is_tty(sys.stdin) and is_tty(sys.stderr)


def _ask(question: str) -> bool:
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _error(error: JobgenError) -> dict[str, Any]:
    from jobgen.cli.diagnostics import dump_problem

    first = next((p for p in error.problems if p.severity == "error"), None)
    first = first or Diagnostic("J000", str(error))
    return {
        **{key: dump_problem(first)[key] for key in ("code", "message", "hint")},
        "exit": int(error.exit),
        "problems": [dump_problem(p) for p in error.problems],
    }
