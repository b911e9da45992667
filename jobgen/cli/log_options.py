"""The options of ``logs``: what they ask for, and which of them contradict each other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from jobgen.app.program_parts import count_part_ranks, describe_missing_rank, require_parts
from jobgen.cli.call import Call
from jobgen.cli.output import is_tty
from jobgen.errors import Usage
from jobgen.model.record import RunRecord
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.follow import View
    from jobgen.follow.view import Ranks


class LogsOptions(NamedTuple):
    """The options of ``logs``."""

    follow: bool
    lines: int | None
    ranks: Ranks | None
    """None if nothing was asked for, empty for all."""
    nodes: tuple[str, ...]
    grep: str
    stderr: bool
    stdout: bool
    task: str | None
    """Elements of an array: ``3,7-9``."""
    restart: int | None
    no_collapse: bool
    no_prefix: bool
    raw: bool
    exit_status: bool
    since: float | None
    timestamps: bool
    files: tuple[str, ...]
    steps: tuple[str, ...] = ()
    tasks: frozenset[str] | None = None
    """The elements that are meant; None for all."""

    @property
    def is_unspecific(self) -> bool:
        """Whether nothing chooses among the ranks, or asks for every byte or line."""
        chosen = self.nodes or self.files or self.grep or self.raw or self.stdout
        return self.ranks is None and not chosen


MANY = 8
"""Ranks, of which each is shown; of more, rank 0 and what the others write to stderr."""


def check_options(options: LogsOptions) -> None:
    """Raise Usage where options of ``logs`` contradict each other."""
    if options.raw and is_tty(sys.stdout):
        raise Usage(
            "--raw could let the log act on your terminal",
            hint="send it elsewhere: jobgen logs ID --raw > FILE",
        )
    if options.stderr and options.stdout:
        raise Usage(
            "--stderr and --stdout leave nothing", hint="give one of them, or none for both"
        )


def check_ranks(options: LogsOptions, record: RunRecord) -> None:
    """Raise Usage where a rank was asked for that the job, step or group does not have."""
    for span in options.ranks or ():
        if missing := describe_missing_rank(record, span.start, options.steps):
            raise Usage(missing)


def select_steps(options: LogsOptions, record: RunRecord) -> LogsOptions:
    """The options with the runs of the steps or groups that were asked for. Raises Usage."""
    chosen = dict.fromkeys(run for name in options.steps for run in require_parts(record, name))
    return options._replace(steps=tuple(chosen))


def select_lines(call: Call, options: LogsOptions, record: RunRecord) -> View:
    """The lines that the options of ``logs`` ask for."""
    from jobgen.follow import View

    stream: Literal["all", "out", "err"] = "err" if options.stderr else "all"
    return View(
        ranks=options.ranks or None,
        brief=options.is_unspecific and count_part_ranks(record, options.steps) > MANY,
        nodes=options.nodes,
        stream="out" if options.stdout else stream,
        grep=options.grep,
        lines=options.lines,
        tasks=options.tasks,
        restart=options.restart,
        collapse=not (options.no_collapse or options.raw),
        colour=call.flags.color == "always",
        raw=options.raw,
        files=options.files,
        steps=options.steps,
        since=options.since,
        timestamps=options.timestamps,
        fold=_folds(call, options),
    )


def _folds(call: Call, options: LogsOptions) -> bool:
    """Whether a launcher's noise is folded: not where somebody reads all."""
    whole = options.raw or options.no_prefix
    return not (whole or call.flags.verbose or call.flags.json)


def read_elements(call: Call, ref: str, options: LogsOptions) -> tuple[RunRecord, LogsOptions]:
    """The run, and the options with the elements that stand behind it: ``scan-1[3]``.

    Raises Usage, Missing.
    """
    from jobgen.app.array_elements import require_elements, split_ref

    name, elements = split_ref(ref)
    if options.task is not None:
        elements = split_ref(f"{name}[{options.task}]")[1]
    record = call.world.ledger.get(name)
    require_elements(record, elements)
    tasks = frozenset(map(str, elements)) if elements else None
    return record, options._replace(tasks=tasks)
