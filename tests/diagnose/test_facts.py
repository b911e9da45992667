"""The cause of real failures, each against what a person read in its logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobgen.diagnose import find_cause
from jobgen.follow.launcher_noise import drop_noise
from jobgen.model.cause import FailureCause
from tests.diagnose.facts import FAILURES, read_fact

FACTS = sorted(FAILURES.glob("*.txt"))


def explain(path: Path) -> FailureCause:
    wanted = json.loads(path.with_suffix(".json").read_text())
    cause = find_cause(read_fact(path.read_text(), wanted["state"]))
    assert cause is not None
    return cause


@pytest.mark.parametrize("path", FACTS, ids=lambda path: path.stem)
def test_the_cause_of_a_real_failure_is_found(path: Path) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text())
    found = {"state": wanted["state"], **explain(path)._asdict()}
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("path", FACTS, ids=lambda path: path.stem)
def test_the_lines_are_few_and_end_with_the_error(path: Path) -> None:
    cause = explain(path)
    assert 0 < len(cause.lines) <= 12
    assert "ChildFailedError" not in "".join(cause.lines)
    if cause.kind in ("exception", "import", "gpu_memory", "missing_file"):
        assert cause.lines[-1] == cause.text[:600]


@pytest.mark.parametrize("path", FACTS, ids=lambda path: path.stem)
def test_a_launchers_noise_is_folded_and_jobgens_own_words_stay(path: Path) -> None:
    for name, text, _ in read_fact(path.read_text(), "FAILED").logs:
        if name.startswith("job-"):
            shown = drop_noise(text.split("\n"))
            assert not [line for line in shown if "ChildFailedError" in line or "====" in line]
            own = [line for line in text.split("\n") if line.startswith("jobgen: ")]
            assert [line for line in shown if line.startswith("jobgen: ")] == own


def test_every_fact_has_a_cause_and_a_source() -> None:
    sources = (FAILURES / "sources.csv").read_text()
    for path in FACTS:
        assert path.with_suffix(".json").exists(), path.name
        kind = path.stem.partition("-")[0]
        assert path.name in sources or f"{kind}-*.txt" in sources, path.name
