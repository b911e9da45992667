"""``rerun``: the job file, cluster and ``--set`` of a run, to submit them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Missing, Usage
from jobgen.model.array import fold_indexes, read_indexes
from jobgen.model.record import JobState
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.prepare import PreparedJob
    from jobgen.app.world import World
    from jobgen.model.record import RunRecord


class RerunRequest(NamedTuple):
    """What is to be submitted again."""

    record: RunRecord
    file: Path
    sets: tuple[str, ...]
    """Those of the run, and with ``failed`` the elements that did not succeed."""


def find_job(world: World, ref: str, *, failed: bool = False) -> RerunRequest:
    """What a run was submitted from. With ``failed``, of an array only what did not succeed.

    Raises Missing if its job file is not here, and Usage if nothing failed.
    """
    from jobgen.app.array_elements import find_run
    from jobgen.app.jobs import show

    record, elements = find_run(world, ref)
    if failed:
        record = show(world, ref).record._replace(alias=record.alias)
    file = Path(record.job_file)
    if not record.job_file or not file.is_file():
        where = record.job_file or "unknown"
        hint = "go to its folder, and submit it there: jobgen submit job.yaml"
        raise Missing(f"the job file of {record.alias} is not here: {where}", hint=hint)
    chosen = _choose_failed(record) if failed else _choose_elements(record, elements)
    return RerunRequest(record, file, (*record.sets, *chosen))


def _choose_elements(record: RunRecord, elements: Sequence[int]) -> tuple[str, ...]:
    """The values of ``--set`` that run these elements; nothing for a whole run."""
    if not elements:
        return ()
    indexes = fold_indexes(elements)
    if record.shape.get("sweep"):
        return (f"sweep.only={indexes}",)
    _, percent, limit = str(record.shape.get("array", "")).partition("%")
    return (f"array={indexes}{percent}{limit}",)


def _choose_failed(record: RunRecord) -> tuple[str, ...]:
    if not record.ended:
        message = f"{record.alias} is {record.state}: what fails is known when it has ended"
        raise Usage(Diagnostic("J000", message, hint=f"jobgen wait {record.alias}"))
    if record.state is JobState.COMPLETED:
        raise Usage(Diagnostic("J000", f"{record.alias} COMPLETED: nothing of it failed"))
    indexes = ",".join(record.unsuccessful.values())
    if record.shape.get("packed") and (listed := record.shape.get("array")):
        # of a job that has not run to its end, some elements have not started
        done = record.element_states.get(JobState.COMPLETED, "")
        indexes = fold_indexes(sorted({*read_indexes(listed)} - {*(done and read_indexes(done))}))
    if not record.shape.get("elements") or not indexes:
        return ()
    return _choose_elements(record, read_indexes(indexes))


def describe_differences(world: World, request: RerunRequest, ready: PreparedJob) -> list[str]:
    """What is not as it was when the run was submitted."""
    from jobgen.app.provenance import read_commit
    from jobgen.shell import join

    record, texts = request.record, []
    if ready.bundle.digest != record.digest:
        command = ["jobgen", "plan", str(request.file), "-c", record.profile]
        command += [word for value in ready.sets for word in ("--set", value)]
        shown = join([*command, "--against", record.alias])
        texts.append(f"the scripts differ from those of {record.alias}: {shown}")
    if ready.plan.code_folder:
        return texts
    before = str(record.shape.get("git", ""))
    now = read_commit(ready.workdir, world.environ)
    if before != now:
        texts.append(f"the commit was {before or 'unknown'}, and is {now or 'unknown'}")
    return texts
