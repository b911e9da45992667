"""Runs that the run database does not know, taken up from what their run directories say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.app import clusters, jobs
from jobgen.app.permissions import require_login
from jobgen.app.world import World
from jobgen.errors import Missing, Usage
from jobgen.model.array import measure_array
from jobgen.model.fields import check_job_name
from jobgen.model.race import MOST, SHAPES
from jobgen.model.record import JobId, JobState, RunRecord
from jobgen.model.units import UnitError
from jobgen.named_tuple import NamedTuple
from jobgen.submission import scripts, wire
from jobgen.submission.program_report import EXPECTED, GPU
from jobgen.submission.states import Phase, State

if TYPE_CHECKING:
    from jobgen.model.record import Site

DEADLINE = 120.0
"""Seconds in which a root with thousands of run directories has answered."""
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)
_TOKEN = re.compile(r"[a-z2-7]{26}")


class Recovered(NamedTuple):
    """What was found on a cluster."""

    records: tuple[RunRecord, ...]
    """Runs that are known from now on, as they are now, newest first."""
    known: int
    """Runs that were known before."""
    passed_over: tuple[str, ...]
    """Directories that are no run's, or of which nothing was submitted."""


def recover(world: World, cluster: str | None, directories: Sequence[str] = ()) -> Recovered:
    """Take up the runs below the root of a cluster: those in these directories, or all.

    Nothing is changed there. Raises Missing for an unknown cluster and for a directory that is
    not there, Usage for one elsewhere, Unreachable.
    """
    profile = clusters.find(world, cluster)
    require_login(world, profile.file, profile.site)
    names = [_name_below(directory, profile.site.root) for directory in directories]
    with world.connect(profile.site.login) as transport:
        result = transport.call(scripts.recover(profile.site.root, names), deadline=DEADLINE)
    found = dict(wire.split(wire.split_frames(result.out), "run"))
    lost = [name for name in names if not any(path.endswith(f"/{name}") for path in found)]
    if lost:
        raise Missing(
            f"{profile.site.root}/{lost[0]} is no run directory of yours",
            hint=f"take up all that are: jobgen recover -c {profile.site.cluster}",
        )
    known, passed_over, made = 0, [], []
    for path, words in found.items():
        record = _read_record(profile.site, path, {key: text[-1] for key, text in words.items()})
        if record is None:
            passed_over.append(path)
        elif world.ledger.has(record.token):
            known += 1
        else:
            made.append(world.ledger.take_up(record))
    seen = jobs.refresh_stale(world, made)
    newest_first = sorted(seen, key=lambda record: record.created, reverse=True)
    return Recovered(tuple(newest_first), known, tuple(passed_over))


def _name_below(directory: str, root: str) -> str:
    """The last part of a run directory's path."""
    name = directory.rstrip("/").rpartition("/")[2]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}-[a-z2-7]{8}", name):
        hint = f"a run directory is named NAME-xxxxxxxx, below {root}"
        raise Usage(f"{directory} is not the path of a run directory", hint=hint)
    return name


def _read_record(site: Site, path: str, words: Mapping[str, str]) -> RunRecord | None:
    """The run of a directory, as it was submitted; None if it is none, or was never submitted."""
    about, token = _read_about(words.get("about", "")), words.get("token", "").strip()
    if about.get("token") != token or not _TOKEN.fullmatch(token):
        return None
    name, created = about.get("name"), _read_time(about.get("created"))
    attempt = int(words.get("attempt", "")) if _NUMBER.fullmatch(words.get("attempt", "")) else 0
    job = JobId.read(words.get("jobid", ""))
    if not _is_name(name) or created is None or not (job or attempt):
        return None
    phase = Phase.SUBMITTED if job else Phase.RESOLVING
    state = State(phase, path, attempt or 1, job=job, cancel="cancel" in words)
    shape = about.get("shape")
    sound = _keep_sound(shape) if isinstance(shape, dict) else {}
    inside = str(sound.get("inside", ""))
    if inside and not _NUMBER.fullmatch(inside):
        return None
    if inside:
        site = site._replace(inside=inside, nodes=int(sound.get("nodes", 0)))
    record = RunRecord(
        token=token,
        alias=str(about.get("alias", "")),
        name=str(name),
        site=site,
        digest=str(about.get("digest")),
        created=created,
        directory=path,
        job=job,
        state=JobState.PENDING if job else JobState.SUBMITTING,
        submission={"state": state.data(), "options": sound.get("options", [])},
        shape=sound,
    )
    return record if path.endswith(f"/{record.folder}") else None


def _read_about(text: str) -> Mapping[str, Any]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _read_time(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e11 else None


def _keep_sound(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Of what the directory says of the job's shape, what is of the type that screens expect."""
    return {key: value for key, value in shape.items() if _SOUND.get(key, _is_odd)(value)}


def _is_odd(_: object) -> bool:
    """No other key is kept."""
    return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 31


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_labels(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_steps(value: object) -> bool:
    from jobgen.model.steps import MOST_RUNS, is_step_name

    names = value if isinstance(value, list) and len(value) <= MOST_RUNS else []
    return bool(names) and all(is_step_name(name) for name in names)


def _is_ranks(value: object) -> bool:
    """Whether this is the number of ranks of each step or group."""
    counts = value if isinstance(value, dict) else {}
    return _is_steps([*counts]) and all(map(_is_number, counts.values()))


def _is_race(value: object) -> bool:
    """Whether this is the words of the jobs of a race."""
    entries = value if isinstance(value, list) and len(value) <= MOST else []
    return bool(entries) and all(bool(entry) and _is_texts(entry) for entry in entries)


def _is_shapes(value: object) -> bool:
    """Whether this is what is different if some entry of a race wins."""
    return isinstance(value, dict) and all(map(_is_shape, value.values()))


def _is_shape(value: object) -> bool:
    return isinstance(value, dict) and value.keys() <= {*_keep_sound(value)} - {SHAPES}


def _is_estimate(value: object) -> bool:
    """Whether this is what the plan of a run expected, and of which GPU."""
    told = value if isinstance(value, dict) else {GPU: None}
    return all(_is_text(told[key]) if key == GPU else _is_amount(told[key]) for key in told)


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < 1 << 60


def _is_indexes(value: object) -> bool:
    """Whether this is what ``sbatch --array`` takes."""
    try:
        return isinstance(value, str) and bool(measure_array(value))
    except UnitError:
        return False


def _is_arrays(value: object) -> bool:
    """Whether this is the offset and the indexes of each array of a large sweep."""
    rows = value if isinstance(value, list) else []
    return bool(rows) and all(
        isinstance(row, list) and len(row) == 2 and _is_number(row[0]) and _is_indexes(row[1])
        for row in rows
    )


def _is_dependency(value: object) -> bool:
    """Whether this is what stands on sbatch's command line of a job that waits for others."""
    words = value if isinstance(value, list) and _is_texts(value) else [""]
    return all(re.fullmatch(r"--dependency=[\w:,?+]+", word) for word in words)


_SOUND: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("nodes", "ranks_per_node", "gpus_per_node", "seconds"), _is_number),
    **dict.fromkeys(("elements", "packed", "monitor", "sweep", "chain"), _is_number),
    **dict.fromkeys(("launcher", "git", "code", "origin", "inside"), _is_text),
    **dict.fromkeys(("sets", "outputs"), _is_texts),
    **dict.fromkeys(("steps", "groups"), _is_steps),
    "part_ranks": _is_ranks,
    EXPECTED: _is_estimate,
    "labels": _is_labels,
    "race": _is_race,
    SHAPES: _is_shapes,
    "array": _is_indexes,
    "arrays": _is_arrays,
    "options": _is_dependency,
}
"""Key → whether its value is one that jobgen writes."""


def _is_name(name: object) -> bool:
    try:
        check_job_name(name)
    except ValueError:
        return False
    return True
