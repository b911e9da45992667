"""A run as plain data: what ``--json`` prints of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.screens.chain_rows import dump_chain
from jobgen.cli.screens.race_rows import dump_race
from jobgen.model.record import RunRecord

if TYPE_CHECKING:
    from jobgen.app.jobs import RunView


def dump_job(record: RunRecord) -> dict[str, Any]:
    """One job as plain data."""
    return {
        "id": record.alias,
        "name": record.name,
        "slurm_id": record.job and str(record.job),
        "cluster": record.site.cluster,
        "scheduler": record.site.scheduler,
        "state": str(record.state),
        "raw": record.raw or None,
        "reason": record.reason or None,
        "exit": record.exit or None,
        "nodes": record.nodes or None,
        "started": record.started or None,
        "elapsed": record.elapsed,
        "left": record.left,
        "restarts": record.restarts,
        "ended": record.ended,
        "created": record.created,
        "updated": record.updated,
        "dir": record.directory or None,
        "token": record.token,
        "digest": f"sha256:{record.digest}",
        "shape": dict(record.shape),
        **({"elements": dict(record.elements)} if record.elements else {}),
        **dump_race(record),
        **dump_chain(record),
        "report": dict(record.report),
        "preflight": [
            {"start": start, "node": node, "what": what} for start, node, what in record.unfit
        ],
        **_dump_steps(record),
        **_dump_codes(record),
        "failures": [failure._asdict() for failure in record.failures],
        "silences": [silence._asdict() for silence in record.silences],
        "cause": _dump_cause(record),
    }


def _dump_steps(record: RunRecord) -> dict[str, Any]:
    """The steps or groups that have begun, as plain data; nothing of a job with one program."""
    runs = [run._asdict() for run in record.step_runs]
    if record.part_kind == "group":
        return {"groups": runs}
    others = [{key: value for key, value in run.items() if key != "stopped"} for run in runs]
    return {"steps": others} if record.steps else {}


def _dump_codes(record: RunRecord) -> dict[str, Any]:
    """The code that each start ran, if it stays on the cluster, as plain data."""
    return {"codes": [code._asdict() for code in record.codes]} if record.code_folder else {}


def _dump_cause(record: RunRecord) -> dict[str, Any] | None:
    """Why it failed, as plain data; None if that is not known."""
    if record.cause is None or not record.ended:
        return None
    from jobgen.cli.screens import failure

    why = failure.explain_cause(record.cause)
    return {**record.cause._asdict(), "lines": list(record.cause.lines), "why": why}


def dump_run(found: RunView) -> dict[str, Any]:
    """One job as plain data, with what happened and its files."""
    more: dict[str, Any] = {}
    if found.watched is not None:
        from jobgen.cli.screens import monitor

        more["monitor"] = monitor.data(found.watched)
    if found.kept is not None:
        from jobgen.cli.screens import origin

        more["provenance"] = origin.dump_section(found.kept)
    return {
        "job": dump_job(found.record),
        "timeline": [{"time": h.time, "text": h.text} for h in found.timeline],
        "files": dict(found.files),
        **({"elements": [row._asdict() for row in found.elements]} if found.elements else {}),
        **more,
    }
