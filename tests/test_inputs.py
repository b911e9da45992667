"""The inputs of properties: fixed in ``make test``, free in ``make test-all``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

ROOT = Path(__file__).resolve().parents[1]
DRAW = """
import sys
from tests.inputs import load

load(free=sys.argv[1] == "free")
if len(sys.argv) > 2:
    import constants
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

@settings(max_examples=300)
@given(st.integers() | st.floats() | st.text(), st.sets(st.sampled_from("abcdef")))
def test(value, few):
    print(repr(value), sorted(few))

class Machine(RuleBasedStateMachine):
    @rule(number=st.integers())
    def step(self, number):
        print(number)

test()
run_state_machine_as_test(Machine, settings=settings(max_examples=5))
"""


def drawn(folder: Path, *words: str, **env: str) -> str:
    """What two properties were tried on by a process of their own."""
    program = folder / "draw.py"
    program.write_text(DRAW)
    (folder / "constants.py").write_text("NUMBER, TEXT, PART = 4711, 'canary', 0.4711\n")
    done = subprocess.run(
        [sys.executable, str(program), *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fixed_inputs_depend_on_the_property_alone(tmp_path: Path) -> None:
    """Not on what was imported before, on the hash seed, on CI's variables or on an earlier run."""
    first = drawn(tmp_path, "fixed", PYTHONHASHSEED="1")
    assert first.count("\n") > 300
    assert drawn(tmp_path, "fixed", "with-constants", PYTHONHASHSEED="2", CI="true") == first


def test_free_inputs_differ_from_run_to_run(tmp_path: Path) -> None:
    assert drawn(tmp_path, "free") != drawn(tmp_path, "free", CI="true")


def test_every_property_of_this_run_has_its_inputs(request: pytest.FixtureRequest) -> None:
    """Also those with settings of their own, which are made when their file is imported."""
    free = request.config.getoption("--full")
    tests = [item.obj for item in request.session.items if isinstance(item, pytest.Function)]
    used = {test: _settings(test) for test in tests if getattr(test, "is_hypothesis_test", False)}
    used |= {m: m.TestCase.settings for m in RuleBasedStateMachine.__subclasses__()}
    used |= {"inside of tests": settings.default}
    for test, chosen in used.items():
        assert chosen.deadline is None, test
        assert chosen.derandomize is not free, test
        assert free or chosen.database is None, test
        assert HealthCheck.too_slow in chosen.suppress_health_check, test


def _settings(test: object) -> settings:
    return getattr(test, "_hypothesis_internal_use_settings", settings.default)
