"""Is all well, here and on the way to a job? What was looked at, what was seen, what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from jobgen.app.world import World
from jobgen.survey.health import Finding, judge_rows

if TYPE_CHECKING:
    from jobgen.app.clusters import Profile

HERE, LOCAL = "This machine", "Jobs on this machine"


class Examination(NamedTuple):
    """All findings, in the order in which they were made."""

    cluster: str
    """The profile as it was asked for; empty where only this machine was looked at."""
    findings: tuple[Finding, ...]
    seconds: float
    profiles: tuple[str, ...]
    """Names of the profiles that are not shipped, to be looked at next."""

    @property
    def well(self) -> bool:
        """Whether nothing failed; warnings and what could not be seen are no failures."""
        return not any(found.verdict.status == "failed" for found in self.findings)


def examine(world: World, name: str | None) -> Examination:
    """This machine, and with a name that cluster over one connection. Submits nothing.

    Raises Missing for an unknown profile and Invalid for a wrong one; whatever else is wrong is a
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
    from jobgen.survey.health import client

    seen = local_checks.inspect_machine(world)
    yield from judge_rows(HERE, client.ROWS, seen)
    if profile is None or profile.loaded.value.scheduler == "local":
        yield from judge_rows(LOCAL, client.LOCAL_ROWS, seen)
    if profile is not None:
        yield from remote.list_findings(world, name, profile.loaded, profile.site)
