"""The steps of the way to a host: those before the fault are well, those after it not reached."""

from __future__ import annotations

import pytest

from jobgen.errors import Diagnostic
from jobgen.survey.health import judge_rows
from jobgen.survey.health.reach import ROWS, ConnectionProgress

WAY = ConnectionProgress("hpc", "ann@login port 22", "~/.ssh/known_hosts:3", took={"shell": 0.2})


def verdicts(way: ConnectionProgress) -> dict[str, str]:
    return {f.id: f.verdict.status for f in judge_rows("ssh", ROWS, way)}


def test_all_is_well() -> None:
    assert set(verdicts(WAY).values()) == {"ok"}


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("J401", "route"),
        *((code, "network") for code in ("J402", "J403")),
        *((code, "host-key") for code in ("J404", "J406", "J407", "J408")),
        ("J405", "login"),
        *((code, "shell") for code in ("J409", "J999")),
    ],
)
def test_a_fault_belongs_to_its_step(code: str, step: str) -> None:
    found = list(verdicts(WAY._replace(problem=Diagnostic(code, "no", hint="do"))).items())
    names = [name for name, _ in found]
    at = names.index(f"ssh.{step}")
    assert [status for _, status in found[:at]] == ["ok"] * at
    assert found[at][1] == "failed"
    assert {status for _, status in found[at + 1 :]} <= {"unknown"}


def test_a_slow_and_noisy_shell() -> None:
    found = verdicts(WAY._replace(took={"shell": 7.0}, noise="\nWelcome\n"))
    assert found["ssh.shell"] == found["ssh.noise"] == "warning"
