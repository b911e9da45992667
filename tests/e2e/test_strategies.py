"""Every strategy trains as DDP does, holds what the formulas say, and goes on from its checkpoint.

``scripts/strategies --all`` runs each under every launcher and prints a table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import LAUNCHERS
from tests.e2e.strategies import (
    CASES,
    KEPT,
    SAVED,
    WARNED,
    WARNED_AT,
    Outcome,
    apart,
    expected,
    once,
    run,
    stopped,
    warned,
)
from tests.products import one_of_each

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.train("torch", "deepspeed", "accelerate"),
]


@pytest.fixture(scope="module")
def reference(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What plain DDP does."""
    folder = tmp_path_factory.mktemp("reference") / "reference"
    return run(cluster, CASES["ddp"], "torchrun c10d", folder, stop=False)


@pytest.mark.parametrize(("name", "launcher"), one_of_each(once(), KEPT.items()))
def test_a_strategy_trains_as_ddp_does_and_goes_on(
    cluster: Cluster, tmp_path: Path, reference: Outcome, name: str, launcher: str
) -> None:
    case, stop = CASES[name], name in stopped()
    folder = tmp_path / name.replace(" ", "-")
    if name in WARNED:
        outcome = warned(cluster, case, launcher, folder)
        assert outcome.resumed == WARNED_AT
    else:
        outcome = run(cluster, case, launcher, folder, stop=stop)
        assert outcome.resumed == (SAVED if stop else 0)
    assert apart(outcome.losses, reference.losses) <= case.tolerance
    assert outcome.held == expected(case)


def test_plain_ddp_holds_what_the_formulas_say(reference: Outcome) -> None:
    assert reference.held == expected(CASES["ddp"])


def test_every_launcher_and_every_program_has_its_case() -> None:
    assert {*KEPT.values(), "torchrun c10d"} == LAUNCHERS.keys()
    programs = {CASES[name].program for name in (*KEPT, "ddp")}
    assert programs == {case.program for case in CASES.values()}
