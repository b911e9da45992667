"""Every strategy trains as DDP does, holds what the formulas say, and goes on from its checkpoint.

``scripts/strategies --all`` runs each under every launcher and prints a table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.layout import REPOSITORY
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
    product,
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


@pytest.mark.parametrize(("words", "chosen"), [((), once()), (("--all",), product())])
def test_the_table_has_a_row_for_each_case(
    words: tuple[str, ...], chosen: tuple[tuple[str, str], ...]
) -> None:
    script = [sys.executable, "scripts/strategies", "--list", *words]
    done = subprocess.run(script, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name}: {launcher}" for name, launcher in chosen]


def test_every_launcher_and_every_program_has_its_case() -> None:
    """mpirun has its own in test_ranks.py: one more training of each program proves no more."""
    assert {*KEPT.values(), "torchrun c10d", "mpirun"} == LAUNCHERS.keys()
    programs = {CASES[name].program for name in (*KEPT, "ddp")}
    assert programs == {case.program for case in CASES.values()}
