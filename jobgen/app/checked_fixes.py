"""Commands that a diagnosis proposes, tried on the job file before they are shown."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.diagnose.remedies import Remedy
from jobgen.errors import JobgenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.world import World
    from jobgen.model.plan import Estimate
    from jobgen.model.record import RunRecord

_SUBMIT = "jobgen submit job.yaml"
_MOST = 20
"""Files beside which a job file is looked for."""
_GIB = 1 << 30


def find_job_file(world: World, record: RunRecord) -> Path | None:
    """The job file of a run, where it stands in the current folder; None if none has its name."""
    name = re.compile(rf"^name: *[\"']?{re.escape(record.name)}[\"']? *(?:#.*)?$", re.MULTILINE)
    paths = [Path("job.yaml"), *sorted((*Path().glob("*.yaml"), *Path().glob("*.yml")))[:_MOST]]
    for path in paths:
        try:
            text = world.read(path, str(path)) if path.is_file() else ""
        except JobgenError:
            continue
        if name.search(text):
            return path
    return None


def check_fixes(world: World, record: RunRecord, remedies: Sequence[Remedy]) -> list[Remedy]:
    """The remedies that this job accepts, with what the planner says of each.

    Without its job file, those that change the job are shown as they are.
    """
    job = find_job_file(world, record)
    if job is None:
        return list(remedies)
    checked = (_check(world, record, job, remedy) for remedy in remedies)
    return [remedy for remedy in checked if remedy is not None]


def _check(world: World, record: RunRecord, job: Path, remedy: Remedy) -> Remedy | None:
    from jobgen.app.prepare import prepare

    if not remedy.command.startswith(_SUBMIT):
        return remedy
    words = shlex.split(remedy.command.removeprefix(_SUBMIT))
    sets = [value for flag, value in itertools.pairwise(words) if flag == "--set"]
    try:
        ready = prepare(world, job, record.site.cluster, sets, with_upload=False)
    except JobgenError:
        return None
    command = " ".join(["jobgen submit", shlex.quote(str(job)), *map(shlex.quote, words)])
    return Remedy(_join(remedy.text, ready.plan.estimate), f"{command} -c {record.site.cluster}")


def _join(text: str, estimate: Estimate | None) -> str:
    if estimate is None or not estimate.limit:
        return text
    memory = f"{estimate.total / _GIB:.1f} of {estimate.limit / _GIB:.1f} GiB"
    return "; ".join(part for part in (text, f"planner: {memory}") if part)
