"""Whether a job went on after all that looks like an error, by its logs alone.

A program logs errors that it survives, torchrun starts its ranks again, Slurm requeues a job: what
a training wrote later shows it. The order is that of the lines in a file, between files that of the
times that the lines state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.clues import Clue
from jobgen.diagnose.endings import Ending
from jobgen.diagnose.failure_rules import Level
from jobgen.diagnose.log_lines import LogLine, ProcessLog

_STEP = re.compile(r"\b(?:step|iter|iteration|epoch)\b\W{0,3}\d", re.IGNORECASE)
_DONE = re.compile(
    r"\b(?:done|finished|completed?)\b.*\b(?:steps?|epochs?|iterations?)\b|'train_runtime'"
    r"|`max_(?:epochs|steps)=\d+` reached",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"wandb: |\d+%\||jobgen: |srun: |slurm|Error\b|Exception\b")
"""Lines that say nothing of the training itself; a progress bar is written late."""
_DENIED = re.compile(r"\bnot\b|fail|error|abort|clean|upload", re.IGNORECASE)
"""In a line of the training's end: it is no good end, or that of something else."""
_FINAL = frozenset({"time_limit", "cancelled"})
"""Ends of a job that Slurm does not start again; its ranks may write on until they are killed."""
_STEPS = 3
"""Steps after an error by which a training went on."""


def has_gone_on(
    streams: Sequence[ProcessLog], seen: Sequence[Clue], endings: Sequence[Ending]
) -> bool:
    """Whether a training went on, or ended well, after the last line that looks like an error."""
    errors = [each for each in seen if each.level < Level.HINT]
    if any(each.level is Level.END and each.rule.cause in _FINAL for each in errors):
        return False
    marks: dict[str, int] = {}
    for path, order in (
        *((each.path, each.order) for each in errors),
        *((end.path, end.line.order) for end in endings),
    ):
        marks[path] = max(marks.get(path, -1), order)
    times = _list_times(streams, marks)
    written = _read_files(streams)
    done = _find_done(written)
    reported = {end.path for end in endings}
    raised = {each.path for each in errors if each.raised}

    def was_done_later(path: str) -> bool:
        if done is None or path in reported:
            return False
        # a command of a script that fails stops nothing, where the training ends well
        return path not in raised or times.get(path, done) < done

    return bool(marks) and all(
        _goes_on(written[path], order) or was_done_later(path) for path, order in marks.items()
    )


def _goes_on(lines: Sequence[LogLine], order: int) -> bool:
    after = [line for line in lines if line.order > order]
    steps = sum(_STEP.search(line.text) is not None for line in after)
    return steps >= _STEPS or any(_is_end(line.text) for line in after)


def _is_end(text: str) -> bool:
    return _DONE.search(text) is not None and _DENIED.search(text) is None


def _list_times(streams: Sequence[ProcessLog], marks: dict[str, int]) -> dict[str, float]:
    """When the last error of each file was written, where a line before it states a time."""
    return {
        stream.path: line.time
        for stream in streams
        for line in stream.lines
        if line.order == marks.get(stream.path) and line.time is not None
    }


def _find_done(written: Mapping[str, Sequence[LogLine]]) -> float | None:
    """When the training wrote last that it is done; None if it did not."""
    times = [
        line.time
        for lines in written.values()
        for line in lines
        if line.time is not None and _is_end(line.text)
    ]
    return max(times, default=None)


def _read_files(streams: Iterable[ProcessLog]) -> Mapping[str, Sequence[LogLine]]:
    """The lines of each file that a training may have written."""
    written: dict[str, list[LogLine]] = {}
    for stream in streams:
        own = (line for line in stream.lines if not _OTHERS.search(line.text))
        written.setdefault(stream.path, []).extend(own)
    return written
