"""Checks of this machine, of a cluster, and of a job's environment: findings, each with its fix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.app.world import World
from jobgen.named_tuple import NamedTuple
from jobgen.survey.health import Finding, judge_rows

if TYPE_CHECKING:
    from jobgen.app.clusters import Profile

HERE, LOCAL = "This machine", "Jobs on this machine"


class Examination(NamedTuple):
    """All findings, in the order of the checks."""

    cluster: str
    """The profile as the command named it; empty if only this machine was checked."""
    findings: tuple[Finding, ...]
    seconds: float
    profiles: tuple[str, ...]
    """Names of the profiles that are not shipped, to be checked next."""
    job: str = ""
    """The job file whose environment was checked; empty if none was."""

    @property
    def well(self) -> bool:
        """Whether nothing failed; warnings and skipped checks are no failures."""
        return not any(found.verdict.status == "failed" for found in self.findings)


def examine(world: World, name: str | None) -> Examination:
    """Check this machine, and with a name that cluster over one connection. Submits nothing.

    Raises Missing for an unknown profile and Invalid for a wrong one; any other problem is a
    finding.
    """
    begun = time.monotonic()
    profile = _profile(world, name) if name else None
    findings = tuple(_findings(world, name or "", profile))
    own = tuple(
        file.name for file in world.open_catalog().list_clusters() if file.origin != "shipped"
    )
    return Examination(name or "", findings, time.monotonic() - begun, own)


def _profile(world: World, name: str) -> Profile:
    from jobgen.app import clusters
    from jobgen.app.permissions import require_login

    profile = clusters.find(world, name)
    require_login(world, profile.file, profile.site)
    return profile


def _findings(world: World, name: str, profile: Profile | None) -> Iterator[Finding]:
    from jobgen.app.doctor import local_checks, remote
    from jobgen.survey.health import client, local_gpus

    seen = local_checks.inspect_machine(world)
    yield from judge_rows(HERE, client.ROWS, seen)
    if profile is None or profile.loaded.value.scheduler == "local":
        # with a profile the programs are checked like those of a login host
        rows = client.LOCAL_ROWS if profile is None else client.LOCAL_ROWS[1:]
        yield from judge_rows(LOCAL, rows, seen)
    if profile is not None:
        here = profile.loaded.value.scheduler == "local"
        if here and (gpus := local_checks.inspect_gpus(world, profile.loaded)):
            yield from judge_rows(LOCAL, local_gpus.ROWS, gpus)
        yield from remote.list_findings(world, name, profile.loaded, profile.site)
