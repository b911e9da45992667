"""Kinds of words on the command line, and the arguments that several verbs have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import click

from jobgen.cli.completers import complete_jobs, complete_nodes
from jobgen.cli.job_files import choose_job
from jobgen.cli.output import defuse


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A length of time: ``90s``, ``2h``."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds."""
        from jobgen.model.units import UnitError, Walltime

        try:
            return float(value if isinstance(value, float) else Walltime.parse(value).seconds)
        except UnitError as error:
            self.fail(f"{defuse(error.message)}: {error.hint}", param, ctx)


class Size(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """An amount of memory or disk: ``10GiB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        from jobgen.model.units import UnitError, parse_size

        try:
            return value if isinstance(value, int) else parse_size(value)
        except UnitError as error:
            self.fail(f"{defuse(error.message)}: {error.hint}", param, ctx)


class Pattern(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The expression itself, known to be one."""
        try:
            re.compile(value)
        except re.error as error:
            self.fail(f"'{defuse(value)}' is not a regular expression: {error}", param, ctx)
        return str(value)


class Ranks(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Ranks: ``0,8-15`` or ``all``."""

    name = "ranks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The ranges; empty for all."""
        from jobgen.follow.view import parse_ranks

        try:
            return value if isinstance(value, tuple) else parse_ranks(value) or ()
        except ValueError as error:
            self.fail(defuse(error), param, ctx)


class Counts(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Whole numbers from 1 on: ``1,2,4,8``."""

    name = "counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The numbers."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(int(word) for word in value.split(","))
        except ValueError:
            found = ()
        if not found or not all(0 < one <= _MOST for one in found):
            self.fail(f"expected numbers such as 1,2,4,8, got '{defuse(value)}'", param, ctx)
        return found


_MOST = 1 << 17


class PortPair(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A port over there and one of this machine: ``6006``, ``6006:8080``."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Both numbers; None for the second if it is not named."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{1,5})(?::(\d{1,5}))?", value, re.ASCII)
        numbers = [int(number) for number in match.groups() if number] if match else []
        if not numbers or not all(0 < number < 1 << 16 for number in numbers):
            self.fail(
                f"expected a port such as 6006 or 6006:8080, got '{defuse(value)}'", param, ctx
            )
        return numbers[0], numbers[1] if len(numbers) > 1 else None


class Sizes(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Sizes of messages: ``1M..1G``."""

    name = "sizes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The bytes."""
        from jobgen.bench.message_sizes import parse

        try:
            return value if isinstance(value, tuple) else parse(value)
        except ValueError as error:
            self.fail(f"'{defuse(value)}': {defuse(error)}", param, ctx)


class Ops(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Collectives: ``allreduce,allgather``."""

    name = "ops"
    KNOWN = "Collectives: allreduce (default), allgather, reducescatter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Their names as PyTorch has them."""
        if isinstance(value, tuple):
            return value
        from jobgen.bench.formulas import OPS

        known = {op.replace("_", ""): op for op in OPS}
        words = [re.sub(r"[-_ ]", "", word.lower()) for word in value.split(",")]
        if any(word not in known for word in words):
            self.fail(f"expected some of {', '.join(known)}, got '{defuse(value)}'", param, ctx)
        return tuple(dict.fromkeys(known[word] for word in words))


class Sections(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Parts of the screen of ``plan``: ``env,sbatch``."""

    name = "sections"
    KNOWN = ("memory", "decisions", "steps", "sbatch", "env", "files", "checks")
    """In the order of the screen."""
    MEANT: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("strategies", "strategy", "estimate", "gpu"), "memory"),
        **dict.fromkeys(("environment", "nccl", "secrets", "variables"), "env"),
        **dict.fromkeys(("directives", "options", "slurm"), "sbatch"),
        **dict.fromkeys(("upload", "uploads", "bundle"), "files"),
        **dict.fromkeys(("warnings", "notes", "errors", "problems"), "checks"),
        **dict.fromkeys(("launch", "launcher", "run", "commands"), "steps"),
        **dict.fromkeys(("shape", "resources", "cpus", "setup"), "decisions"),
    }
    """Other names that people try."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names, each once."""
        names = tuple(dict.fromkeys(word.strip() for word in str(value).split(",")))
        for name in names:
            if name not in self.KNOWN:
                self.fail(self._explain_unknown(name), param, ctx)
        return names

    def _explain_unknown(self, name: str) -> str:
        from difflib import get_close_matches

        near = self.MEANT.get(name.lower()) or next(
            iter(get_close_matches(name.lower(), self.KNOWN, 1)), ""
        )
        meant = f" Did you mean '{near}'?" if near else ""
        return f"unknown section '{defuse(name)}'.{meant} Sections: {', '.join(self.KNOWN)}"

    def shell_complete(
        self, _: click.Context, __: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """The names, after those that are already there."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        names = [name for name in self.KNOWN if name.startswith(last)]
        return [CompletionItem(f"{before}{comma}{name}") for name in names]


_COMMON_STATES = ("pending", "running", "completed", "failed", "cancelled", "timeout")


class States(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A state of a job: ``running``."""

    name = "state"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The state in Slurm's spelling."""
        from jobgen.model.fields import find_nearest
        from jobgen.model.record import JobState

        if value.upper() in JobState.__members__:
            return str(value.upper())
        names = [state.lower() for state in JobState]
        near = find_nearest(value, names)
        hint = f"did you mean '{near}'?" if near else f"common states: {', '.join(_COMMON_STATES)}"
        message = f"unknown state '{defuse(value)}'; {hint}"
        return self.fail(message, param, ctx)


COUNTS = Counts()
SECTIONS = Sections()
FILE = click.Path(path_type=Path)
JOB = click.argument("job", metavar="[JOB]", type=FILE, required=False, callback=choose_job)
"""A job file; job.yaml here by default."""
ID = click.argument("ref", metavar="ID", shell_complete=complete_jobs)
"""A job: its name, its Slurm id, or ``@last``."""
NODE = click.option(
    "--node",
    metavar="NAME",
    default="",
    shell_complete=complete_nodes,
    help="On this node; default: the first one",
)
RANK = click.option(
    "--rank", metavar="R", type=click.IntRange(min=0), help="On the node of this rank"
)
GROUP = click.option(
    "--group", metavar="NAME", default="", help="On the first node of this group, or of its rank R"
)
IDS = click.argument("refs", metavar="ID...", nargs=-1, required=True, shell_complete=complete_jobs)
"""One job or several."""
