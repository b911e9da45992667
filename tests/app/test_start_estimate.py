"""What Slurm says before a submit of when the job would start."""

from __future__ import annotations

import pytest

from jobgen.app.start_estimate import StartEstimate, parse_estimate
from jobgen.shell import Result

NOW = "2026-11-23T14:00:00"
SAID = "sbatch: Job 41 to start at {} using 1 processors on nodes n3 in partition gpu"


@pytest.mark.parametrize(
    ("start", "estimate"),
    [
        ("2026-11-23T16:30:00", StartEstimate("16:30", 9000.0)),
        ("2026-11-24T14:00:00", StartEstimate("Tue 24 Nov, 14:00", 86400.0)),
        ("2026-11-23T13:59:58", StartEstimate("13:59", 0.0)),
    ],
)
def test_an_estimate(start: str, estimate: StartEstimate) -> None:
    assert parse_estimate(Result(0, f"{NOW}\n{SAID.format(start)}\n".encode())) == estimate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        NOW,
        f"{NOW}\nallocation failure: Requested node configuration is not available",
        f"{NOW}\n{SAID.format('Unknown')}",
        f"x\n{SAID.format(NOW)}",
        f"2026-11-23T14:00:00+01:00\n{SAID.format(NOW)}",
    ],
)
def test_no_estimate(text: str) -> None:
    assert parse_estimate(Result(1, text.encode())) is None
