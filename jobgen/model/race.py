"""A race: one run that waits in several queues of a cluster; the first job to start runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobgen.model.fields import LINE, TIME, check_integer, describe_value, suggest
from jobgen.model.form import Check, refuse
from jobgen.model.job_checks import MOST_NODES
from jobgen.model.record import JobId
from jobgen.model.units import Walltime
from jobgen.named_tuple import NamedTuple
from jobgen.wording import join_pairs

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord
    from jobgen.model.record_data import Submission

OPTIONS = ("partition", "qos", "account", "constraint", "reservation", "time")
"""Options of sbatch that decide when a job starts, and change nothing of its script."""
SHAPE = {
    "nodes": check_integer(1, MOST_NODES),
    "gpus_per_node": check_integer(0, 1024),
    "procs_per_node": check_integer(1, 1024),
}
"""Keys of the job that an entry may replace; its job then has scripts of its own."""
LEAST, MOST = 2, 4
"""Entries of a race."""
_CODE = "J298"
SHAPES = "race_shapes"
"""Key of a run's shape: number of an entry → what is different with its scripts."""
BUNDLE = "bundle"
"""Key of a run's shape: where the scripts of the winner are, unless in ``bundle`` itself."""

RaceOptions = Mapping[str, str]


def _check_options(value: object) -> RaceOptions:
    if not isinstance(value, Mapping) or not value:
        message = f"expected a mapping of options, got {describe_value(value)}"
        raise refuse("J120", message, "write {partition: short} or {partition: long, qos: high}")
    for name in value:
        if name == "cluster":
            message = "a race stays on one cluster: its jobs share a run directory"
            raise refuse(_CODE, message, "submit to each cluster and cancel the others")
        if name not in (*OPTIONS, *SHAPE):
            message = f"'{name}' cannot differ between the entries of a race"
            raise refuse(_CODE, message, suggest(str(name), [*OPTIONS, *SHAPE], "what may differ"))
    return {str(name): _check_option(str(name), text) for name, text in value.items()}


def _check_option(name: str, value: object) -> str:
    if name in SHAPE:
        # --race gives text
        number = isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII)
        return str(SHAPE[name](int(number[0]) if number else value))
    return TIME(value).format_slurm() if name == "time" else LINE(value)


def _check_race(value: object) -> tuple[RaceOptions, ...]:
    if not isinstance(value, (list, tuple)):
        message = f"expected a list of entries, got {describe_value(value)}"
        raise refuse("J120", message, "write [{partition: short}, {partition: long}]")
    entries = tuple(_check_options(each) for each in value)
    if not LEAST <= len(entries) <= MOST:
        message = f"a race has {LEAST} to {MOST} entries, not {len(entries)}"
        raise refuse(_CODE, message, "each entry is one more job in the queue")
    for number, entry in enumerate(entries):
        if entry in entries[:number]:
            raise refuse(_CODE, f"two entries are {join_pairs(entry)}", "remove one of them")
    return entries


RACE = Check(
    _check_race,
    {
        "type": "array",
        "minItems": LEAST,
        "maxItems": MOST,
        "items": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                **{name: {"type": ["string", "number"]} for name in OPTIONS},
                "time": TIME.schema,
                **{name: check.schema for name, check in SHAPE.items()},
            },
        },
    },
)


class RaceEntry(NamedTuple):
    """One job of a race."""

    options: tuple[str, ...]
    """Words of sbatch: ``--partition=short``; and of the shape of its own scripts: ``nodes=2``."""
    job: JobId | None = None
    """None if the scheduler has not taken it."""
    failure: str = ""
    """Why the scheduler refused it."""

    @property
    def name(self) -> str:
        """``partition=short,qos=high``."""
        return ",".join(word.removeprefix("--") for word in self.options)


def list_words(race: tuple[RaceOptions, ...]) -> tuple[tuple[str, ...], ...]:
    """The words of each entry: ``--partition=short`` for sbatch, ``nodes=2`` of its shape."""
    return tuple(
        tuple(f"{name if name in SHAPE else f'--{name}'}={text}" for name, text in entry.items())
        for entry in race
    )


def list_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """Those of an entry's words that are for sbatch."""
    return tuple(word for word in words if word.startswith("--"))


def read_shape(options: RaceOptions) -> dict[str, int]:
    """The keys of the job that this entry replaces."""
    return {name: int(text) for name, text in options.items() if name in SHAPE}


def name_folder(number: int) -> str:
    """The folder of the bundle with the scripts of an entry whose shape is its own."""
    return f"race.{number}"


def list_times(race: tuple[RaceOptions, ...], default: Walltime) -> tuple[Walltime, ...]:
    """The time limit of each entry, or that of a job without a race."""
    own = (entry.get("time") for entry in race or ({},))
    return tuple(Walltime.parse(text) if text else default for text in own)


def find_time_limit(record: RunRecord) -> int | None:
    """Seconds that the job of a run may take: of a race, those of the winner."""
    winner = find_winner(record)
    won = (entry.options for entry in list_entries(record) if entry.job == winner)
    words = (word for options in won for word in options if word.startswith("--time="))
    text = next(words, "").removeprefix("--time=")
    return Walltime.parse(text).seconds if text and winner else record.shape.get("seconds")


def read_race(shape: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The words of each entry of a run's race; of other runs none."""
    return tuple(tuple(map(str, words)) for words in shape.get("race", ()))


def find_winner(record: RunRecord) -> JobId | None:
    """The job of a race that runs, or ran; None while all wait."""
    winner = record.submission.get("winner")
    return JobId.parse(winner) if winner else None


def find_winner_shape(record: RunRecord) -> Mapping[str, Any]:
    """The shape of a run after its race is decided: that of the winner's scripts."""
    winner, shapes = find_winner(record), record.shape.get(SHAPES, {})
    if winner is None or BUNDLE in record.shape:
        return record.shape
    for number, entry in enumerate(list_entries(record)):
        if entry.job == winner and str(number) in shapes:
            bundle = f"bundle/{name_folder(number)}"
            return {**record.shape, **shapes[str(number)], BUNDLE: bundle}
    return record.shape


def list_entries(record: RunRecord) -> tuple[RaceEntry, ...]:
    """The entries of a race, each with its job as far as it is known."""
    later = record.submission.get("arrays", {})
    # the job of the first entry is the run's until another one wins
    others = record.submission.get("state", {}).get("others", [])
    candidates = [*([str(record.job)] if record.job else []), *others]
    first = next((job for job in candidates if job not in later.values()), None)
    ids = {**later, **({"0": first} if first else {})}
    failures = _read_failures(str(record.submission.get("arrays_failed", "")))
    return tuple(
        RaceEntry(
            words,
            JobId.parse(ids[str(number)]) if str(number) in ids else None,
            failures.get(number, ""),
        )
        for number, words in enumerate(read_race(record.shape))
    )


def _read_failures(text: str) -> dict[int, str]:
    """``NUMBER MESSAGE`` of each line."""
    rows = (line.partition(" ") for line in text.split("\n"))
    return {int(number): message for number, _, message in rows if number.isdecimal()}


def is_undecided(record: RunRecord) -> bool:
    """Whether the run is a race of which no job has started yet."""
    return bool(read_race(record.shape)) and find_winner(record) is None


def lacks_entries(record: RunRecord) -> bool:
    """Whether entries of an undecided race were neither taken nor refused yet."""
    entries = list_entries(record) if is_undecided(record) else ()
    return any(entry.job is None and not entry.failure for entry in entries)


def decide_race(record: RunRecord, claim: JobId | None) -> RunRecord:
    """The record of a race that ``claim`` has won; any other run as it is."""
    if claim is None or not is_undecided(record):
        return record
    submission: Submission = {**record.submission, "winner": str(claim)}
    return record._replace(job=claim, submission=submission)
