"""This machine: what was found of it, judged."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.errors import Diagnostic
from jobgen.survey.health import Answer, judge_rows
from jobgen.survey.health.client import LOCAL, LOCAL_ROWS, ROWS, ClientMachine, StateFolder

FINE = StateFolder("~/.local/state/jobgen", there=True, writable=True, free=50 << 30)
WELL = ClientMachine(
    jobgen="1.0.0",
    python="3.11.7",
    system="Linux",
    paramiko="5.1.0",
    state=FINE,
    config=FINE,
    ledger=None,
    runs=3,
    now=2e9,
    newest=1.9e9,
    ssh=Answer(0, "", "OpenSSH_9.2p1 Debian-2, OpenSSL 3.0.15\n"),
    agent=Answer(0, "256 SHA256:x ann (ED25519)\n"),
    socket="/run/agent",
    keys=("id_ed25519",),
    git=Answer(0, "git version 2.39.5\n"),
    programs=dict.fromkeys(LOCAL, True),
    bash=Answer(0, "5.2.15(1)-release"),
    torch=Answer(0, "2.13.0\n"),
)


def verdicts(**changes: Any) -> dict[str, tuple[str, str]]:
    machine = WELL._replace(**changes)
    found = [*judge_rows("here", ROWS, machine), *judge_rows("local", LOCAL_ROWS, machine)]
    return {f.id: (f.verdict.status, f"{f.verdict.found} {f.verdict.fix}") for f in found}


def test_all_is_well() -> None:
    assert {status for status, _ in verdicts().values()} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "check", "status", "words"),
    [
        ({"paramiko": "3.4.0"}, "client.version", "failed", "paramiko>=5"),
        ({"state": FINE._replace(writable=False)}, "client.state", "failed", "JOBGEN_STATE_HOME"),
        ({"state": FINE._replace(free=1 << 20)}, "client.state", "failed", "1 MiB free"),
        ({"state": FINE._replace(free=500 << 20)}, "client.state", "warning", "500 MiB free"),
        ({"state": FINE._replace(kind="nfs4")}, "client.state", "ok", "on nfs4"),
        ({"ledger": Diagnostic("J000", "held", hint="wait")}, "client.runs", "failed", "wait"),
        ({"config": FINE._replace(loose=True)}, "client.config", "warning", "chmod go-w"),
        ({"now": 1.0}, "client.clock", "failed", "timedatectl"),
        ({"ssh": Answer(127)}, "client.ssh", "warning", "OpenSSH client"),
        ({"agent": Answer(2)}, "client.keys", "warning", "an agent that no longer runs"),
        ({"agent": Answer(2), "socket": ""}, "client.keys", "ok", "id_ed25519 in ~/.ssh"),
        ({"agent": Answer(1), "keys": ()}, "client.keys", "warning", "ssh-keygen"),
        ({"agent": Answer(124)}, "client.keys", "warning", "does not answer"),
        ({"git": Answer(127)}, "client.git", "warning", "commit"),
        ({"programs": {"setsid": False}}, "local.programs", "warning", "setsid"),
        ({"bash": Answer(0, "3.2.57")}, "local.programs", "warning", "4.0"),
        ({"torch": Answer(1, "", "no")}, "local.torch", "warning", "has no torch"),
        ({"torch": Answer(124)}, "local.torch", "unknown", "in time"),
    ],
)
def test_a_fault_is_named(changes: dict[str, Any], check: str, status: str, words: str) -> None:
    found = verdicts(**changes)
    assert found[check][0] == status
    assert words in found[check][1]
