"""Where a run's files are, as people and programs write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.cli.output import defuse

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord


def format_location(record: RunRecord, path: str = "") -> str:
    """``hpc-login:/scratch/ann/run``; on this machine the path alone."""
    login = record.site.login
    path = path or record.directory or f"{record.site.root}/{record.folder}"
    if login.backend == "local":
        return defuse(path)
    host = f"{login.user}@{login.host}" if login.user else login.host
    return defuse(f"{host}:{path}")
