"""Kinds of words on the command line, and what completes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

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


class Pattern(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The expression itself, known to be one."""
        try:
            re.compile(value)
        except re.error as error:
            self.fail(f"'{defuse(value)}' is no regular expression: {error}", param, ctx)
        return str(value)


class Ranks(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Ranks: ``0,8-15`` or ``all``."""

    name = "ranks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The ranges; None for all."""
        from jobgen.follow.view import parse_ranks

        try:
            return value if isinstance(value, tuple) else parse_ranks(value)
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
            self.fail(f"'{defuse(value)}': numbers such as 1,2,4,8 were expected", param, ctx)
        return found


_MOST = 1 << 17


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
    KNOWN = "allreduce, allgather, reducescatter; the first by default."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Their names as PyTorch has them."""
        if isinstance(value, tuple):
            return value
        from jobgen.bench.formulas import OPS

        known = {op.replace("_", ""): op for op in OPS}
        words = [re.sub(r"[-_ ]", "", word.lower()) for word in value.split(",")]
        if any(word not in known for word in words):
            self.fail(f"'{defuse(value)}': some of {', '.join(known)} were expected", param, ctx)
        return tuple(dict.fromkeys(known[word] for word in words))


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
        hint = f"did you mean '{near}'?" if near else f"such as {', '.join(_COMMON_STATES)}"
        message = f"unknown state '{defuse(value)}'; {hint}"
        return self.fail(message, param, ctx)


def complete_states(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """States of jobs, in small letters."""
    from jobgen.cli.flags import complete
    from jobgen.model.record import JobState

    return complete((state.lower() for state in JobState), incomplete.lower())


def complete_jobs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs; only the run database of this machine is read."""
    from jobgen.app.world import World
    from jobgen.cli.flags import complete

    runs = World.here().ledger.list_runs(limit=50)
    return complete(("@last", *(record.alias for record in runs)), incomplete)


COUNTS = Counts()
FILE = click.Path(path_type=Path)
JOB = click.argument("job", metavar="JOB", type=FILE)
"""A job file."""
ID = click.argument("ref", metavar="ID", shell_complete=complete_jobs)
"""A job: its name, its Slurm id, or ``@last``."""
IDS = click.argument("refs", metavar="ID...", nargs=-1, required=True, shell_complete=complete_jobs)
"""One job or several."""
