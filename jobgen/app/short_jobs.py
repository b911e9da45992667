"""A short job of jobgen's own on one node, with the environment of a user's job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.app.prepare import JobFile, PreparedJob, examine_opened, open_job
from jobgen.errors import CheckFailed, JobgenError, Place
from jobgen.model.bundle import Bundle, BundleFile
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.record import RunRecord

TAKEN = ("setup", "env", "container", "slurm", "vars", "workdir", "secrets")
"""Keys that it takes over from the user's job."""
_LEFT_OUT = frozenset({"begin", "dependency", "deadline", "reservation-time"})
"""Options of sbatch that say when the user's job runs."""
_LAST, _READ = 3, 20
"""Lines of a log that are shown if there is no report, and those they are taken from."""
_NOISE = ("srun: ", "slurmstepd: ", "jobgen: ")
"""Lines that follow from the end of the setup or the program."""


class ShortJob(NamedTuple):
    """What runs in place of the user's program."""

    name: str
    label: str
    """How places name its job file."""
    run: str
    time: str
    gpus: int
    files: tuple[BundleFile, ...]
    """Beside the rendered files, in $JOBGEN_BUNDLE_DIR."""
    keys: Mapping[str, Any] = {}
    """Further keys of the job file."""


def prepare_short_job(
    world: World, short: ShortJob, data: Mapping[str, Any], base: Path, cluster: str | None
) -> PreparedJob:
    """The job, with what it would upload; ``data`` is that of the user's job file in ``base``.

    Touches nothing. Raises CheckFailed with every problem, and Missing for an unknown cluster.
    """
    file = JobFile(_format_job(short, data), short.label, base, base)
    opened = open_job(world, file)
    read = opened.read._replace(loaded=opened.read.loaded and _drop_lines(opened.read.loaded))
    examined = examine_opened(world, opened._replace(read=read), cluster)
    if examined.ready is None:
        raise CheckFailed(*examined.diagnostics)
    bundle = examined.ready.bundle
    files = tuple(sorted((*bundle.files, *short.files)))
    return examined.ready._replace(bundle=Bundle(files, bundle.entry))


def _drop_lines(job: Loaded[JobSpec]) -> Loaded[JobSpec]:
    """The job without lines and columns: nobody has its file."""
    return job._replace(places={path: Place(place.file) for path, place in job.places.items()})


def _format_job(short: ShortJob, data: Mapping[str, Any]) -> str:
    """The job file; values as JSON, which YAML reads alike."""
    keys: dict[str, Any] = {
        "name": short.name,
        "run": short.run,
        "nodes": 1,
        "gpus_per_node": short.gpus,
        "time": short.time,
        "launcher": "plain",
        "preflight": "off",
        **({} if short.gpus else {"procs_per_node": 1}),
        **short.keys,
        **{key: data[key] for key in TAKEN if key in data},
    }
    if isinstance(slurm := keys.get("slurm"), dict):
        kept = {k: v for k, v in slurm.items() if k.replace("_", "-") not in _LEFT_OUT}
        keys["slurm"] = kept
    return "".join(f"{key}: {json.dumps(value, default=str)}\n" for key, value in keys.items())


def read_last_lines(world: World, record: RunRecord) -> str:
    """The last lines that setup and the program printed, as one; the job's state if there are
    none."""
    from jobgen.app import logs
    from jobgen.follow import Lines, View

    try:
        shown = logs.show(world, record.alias, View(lines=_READ))
        lines = [line for each in shown if isinstance(each, Lines) for line in each.list_texts()]
    except JobgenError as error:
        return str(error)
    return select_last(lines) or f"the job is {record.state}"


def select_last(lines: Sequence[str]) -> str:
    """The last lines that are not Slurm's or jobgen's, as one."""
    own = [line.strip() for line in lines if line.strip() and not line.startswith(_NOISE)]
    return "; ".join(own[-_LAST:])
