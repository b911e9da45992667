"""The profile, compared with the machine that it describes."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Diagnostic
from jobgen.survey.compare import Comparison, ProfileDifference
from jobgen.survey.health import Finding, Verdict, skip, succeed, warn

GROUP = "Profile and machine"
_ASKS = "the profile agrees with Slurm"
_ELSEWHERE = ("defaults.", "limits.", "slurm_version", "accounting")
"""Keys that other checks have judged already."""


def list_findings(found: Comparison | Diagnostic, name: str) -> Iterator[Finding]:
    """A finding for each key that differs; one if none does, or if nothing was compared."""
    if isinstance(found, Diagnostic):
        yield Finding("profile.keys", GROUP, _ASKS, skip(f"not compared: {found.message}"))
        return
    wrong = [one for one in found.wrong if not one.key.startswith(_ELSEWHERE)]
    for one in wrong:
        yield Finding(f"profile.{one.key}", GROUP, f"{one.key} agrees with Slurm", _differs(one))
    if not (wrong or found.same):
        yield Finding(
            "profile.keys", GROUP, _ASKS, skip("Slurm reports nothing that could be compared")
        )
    elif not wrong:
        more = f"; details: jobgen cluster check {name}"
        keys = f"{len(found.same)} key{'s agree' if len(found.same) != 1 else ' agrees'}"
        yield Finding("profile.keys", GROUP, _ASKS, succeed(f"{keys}{more}"))


def _differs(one: ProfileDifference) -> Verdict:
    found = f"{one.said} in the profile, {one.found} according to {one.how}"
    return warn(found, f"correct {one.key} ({one.place})", "J436")
