"""Which files of a run are on its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobgen.ledger import Ledger
    from jobgen.model.record import RunRecord

_PARTS = {"logs": "logs", "bundle/job.sbatch": "scripts", "bundle/plan.json": "scripts"}
_PARTS |= {"state": "scripts"}
"""File → the part of a run with which ``prune`` removes it."""


def list_kept_files(
    ledger: Ledger, record: RunRecord, *, watched: bool
) -> tuple[tuple[str, str], ...]:
    """Label → path of what a person looks for in a run directory; nothing that was pruned."""
    if not record.directory:
        return ()
    names = ["bundle/job.sbatch", "src", "logs", "bundle/plan.json"]
    names += ["state"] if watched else []
    pruned = [e.data for e in ledger.list_events(record.token) if e.kind == "pruned"]
    gone = {part for data in pruned for part in data.get("parts", ())}
    # outputs that were not asked for stay in src, if there were some
    emptied = "sources" in gone and ("outputs" in gone or any(d.get("emptied") for d in pruned))
    left = [name for name in names if _PARTS.get(name) not in gone]
    left = [name for name in left if name != "src" or not emptied]
    own = [name.replace("bundle", record.bundle_folder, 1) for name in left]
    return tuple((name, f"{record.directory}/{name}") for name in own)
