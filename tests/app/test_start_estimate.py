"""What Slurm says before a submit of when the job would start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobgen.app.start_estimate import (
    MissingModel,
    Outlook,
    StartEstimate,
    build_question,
    parse_outlook,
)
from jobgen.cli.screens.submit import draw_missing_model
from jobgen.model.part_plans import HubPlan
from jobgen.shell import Result

NOW = "2026-11-23T14:00:00"
SAID = "sbatch: Job 41 to start at {} using 1 processors on nodes n3 in partition gpu"


def answer(now: str, said: str) -> Result:
    frames = {"now": now, "test": said, "limits": ""}
    text = "".join(f"{key} {len(content)}\n{content}\n" for key, content in frames.items())
    return Result(0, text.encode())


@pytest.mark.parametrize(
    ("start", "estimate"),
    [
        ("2026-11-23T16:30:00", StartEstimate("16:30", 9000.0)),
        ("2026-11-24T14:00:00", StartEstimate("Tue 24 Nov, 14:00", 86400.0)),
        ("2026-11-23T13:59:58", StartEstimate("13:59", 0.0)),
    ],
)
def test_an_estimate(start: str, estimate: StartEstimate) -> None:
    assert parse_outlook(answer(NOW, SAID.format(start))).start == estimate


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("", ""),
        (NOW, ""),
        (NOW, "allocation failure: Requested node configuration is not available"),
        (NOW, SAID.format("Unknown")),
        ("x", SAID.format(NOW)),
        ("2026-11-23T14:00:00+01:00", SAID.format(NOW)),
    ],
)
def test_no_estimate(now: str, said: str) -> None:
    assert parse_outlook(answer(now, said)) == Outlook(None, [])


MODEL = "org/a.model-1"


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", ""])
def test_a_model_that_the_cache_lacks_is_named_with_its_download(
    tmp_path: Path, variable: str
) -> None:
    below = {"HF_HUB_CACHE": "", "HF_HOME": "/hub", "XDG_CACHE_HOME": "/huggingface/hub"}
    cache = (
        f"{tmp_path}/$USER{below[variable]}" if variable else f"{tmp_path}/.cache/huggingface/hub"
    )
    hub = HubPlan(MODEL, {variable: f"{tmp_path}/$USER"} if variable else {})
    env = {"HOME": str(tmp_path), "USER": "a b", "PATH": os.environ["PATH"]}
    cache = cache.replace("$USER", "a b")

    def ask() -> Outlook:
        script = build_question("true", ("", ""), hub, ())
        done = subprocess.run(["sh", "-c", script], env=env, capture_output=True)
        return parse_outlook(Result(0, done.stdout), MODEL)

    assert ask().missing == MissingModel(MODEL, cache)
    assert MissingModel(MODEL, "/a b").command == f"HF_HUB_CACHE='/a b' hf download {MODEL}"
    snapshot = Path(cache) / "models--org--a.model-1" / "snapshots" / "c0"
    snapshot.mkdir(parents=True)
    assert ask().missing is not None
    (snapshot / "config.json").touch()
    assert ask().missing is None


def test_the_warning_ends_with_the_command_and_shows_no_control_characters() -> None:
    shown = draw_missing_model(MissingModel(MODEL, "/a\x1b[2J/hub"))
    assert "\x1b" not in shown
    assert shown.startswith(f"warning: {MODEL} is not in the Hugging Face cache /a")
    assert shown.splitlines()[-1].endswith(f" hf download {MODEL}")


def test_an_answer_that_is_cut_off_says_nothing() -> None:
    whole = answer(NOW, SAID.format("2026-11-23T16:30:00"))
    assert parse_outlook(Result(0, whole.out[:-3])) == Outlook(None, [])
