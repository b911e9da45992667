"""profile_steps.py before a program of torch: the trace of the steps that were asked for."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "jobgen" / "payload"
PROGRAM = """
import sys, torch
layer = torch.nn.Linear(4, 4)
main = torch.optim.SGD(layer.parameters(), 0.1)
other = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1)
for step in range(int(sys.argv[1])):
    with torch.profiler.record_function(f"marked {step + 1}"):
        layer(torch.ones(4)).sum().backward()
    main.step()
    other.step()
"""
pytestmark = pytest.mark.train("torch")


def run(folder: Path, steps: str, count: int, *scripts: str, **env: str) -> str:
    (folder / "train.py").write_text(PROGRAM)
    asked = {"JOBGEN_PROFILE_STEPS": steps, "JOBGEN_PROFILE_RANKS": "0,2", **env}
    before = [str(SCRIPTS / name) for name in (*scripts, "profile_steps.py")]
    done = subprocess.run(
        [sys.executable, *before, "train.py", str(count)],
        cwd=folder,
        env={**os.environ, "JOBGEN_RUN_DIR": str(folder), **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def marks(path: Path) -> set[str]:
    """The steps of the program that a trace holds."""
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return {e["name"] for e in events if str(e.get("name", "")).startswith("marked")}


@pytest.mark.parametrize(
    ("steps", "found"),
    [("2-2", {"marked 2"}), ("3-4", {"marked 3", "marked 4"}), ("5-6", {"marked 5", "marked 6"})],
)
def test_exactly_the_steps_are_traced(tmp_path: Path, steps: str, found: set[str]) -> None:
    said = run(tmp_path, steps, 6)
    (trace,) = (tmp_path / "profile").iterdir()
    assert trace.name == f"rank0.steps-{steps}.json.gz"
    assert str(trace) in said
    assert marks(trace) == found


def test_only_the_ranks_that_are_asked_for_write_and_restarts_keep_the_first(
    tmp_path: Path,
) -> None:
    for rank in ("1", "2"):
        run(tmp_path, "2-3", 4, RANK=rank)
    run(tmp_path, "2-3", 4, RANK="2", JOBGEN_RESTART="1")
    names = {trace.name for trace in (tmp_path / "profile").iterdir()}
    assert names == {"rank2.steps-2-3.json.gz", "rank2.steps-2-3.restart-1.json.gz"}


def test_a_program_that_ends_before_says_so(tmp_path: Path) -> None:
    assert "no trace of steps 5-9: the program took 3" in run(tmp_path, "5-9", 3)
    assert not (tmp_path / "profile").exists()


def test_it_goes_together_with_the_wrapper_that_saves(tmp_path: Path) -> None:
    env = {"JOBGEN_STOP_FILE": "stop", "JOBGEN_STOPPED_FILE": "stopped"}
    run(tmp_path, "2-3", 4, "save_on_stop.py", **env)
    assert len(list((tmp_path / "profile").iterdir())) == 1


def test_nothing_is_written_beside_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "empty.py").touch()
    for name in ("profile_steps.py", "save_on_stop.py", "wrapped_program.py"):
        script = tmp_path / "bundle" / name
        script.write_bytes((SCRIPTS / name).read_bytes())
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    asked = {"JOBGEN_PROFILE_STEPS": "2-3", "JOBGEN_PROFILE_RANKS": "0"}
    asked |= {name: str(tmp_path / "x") for name in ("JOBGEN_STOP_FILE", "JOBGEN_STOPPED_FILE")}
    for name in ("profile_steps.py", "save_on_stop.py"):
        words = [sys.executable, str(tmp_path / "bundle" / name), "empty.py"]
        subprocess.run(words, cwd=tmp_path, env={**env, **asked}, check=True)
    assert not (tmp_path / "bundle" / "__pycache__").exists()
