"""The screen of ``calibrate``, and what ``plan`` shows of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobgen.app.advising import Advised
from jobgen.app.calibrating import ClusterMeasurements
from jobgen.app.calibration import CalibratedRun, Calibration, CalibrationResult
from jobgen.app.run_comparison import Figure, Objection, RunComparison
from jobgen.cli.output import TIMES, Ink
from jobgen.cli.screens.calibrate import draw_kept, draw_result, dump_result
from jobgen.cli.screens.measurement_rows import draw_measurements
from jobgen.strategy.estimate import GIB
from tests.cli.conftest import ROOT, Jobgen, home_of

GPU = "A100-SXM4-80GB"
FIGURES = (
    Figure("allocated", 0.01 * GIB, 49.1 * GIB, "outside 0.5 to 2"),
    Figure("nvidia-smi", 65.3 * GIB, 63.4 * GIB),
    Figure("step", 2.27, None),
)
RUN = RunComparison("llama-3", "t", "a100x16", GPU, FIGURES, (64.8 * GIB, 65.3 * GIB))
KEPT = Calibration(
    "a100x16",
    GPU,
    "state/a100x16.json",
    tuple(CalibratedRun(f"llama-{n}", str(n), GPU, 1.0 + n / 100, None) for n in (2, 3, 9)),
)
JOB = """\
name: llama
cluster: a100x16
nodes: 2
time: 1h
run: train.py
train: {model: gpt2, strategy: ddp, seq_len: 1024, micro_batch: 8}
"""


def test_measured_and_planned_stand_side_by_side_and_doubts_are_named() -> None:
    text = draw_result(CalibrationResult((RUN,), (KEPT,)), Ink(width=80))
    assert (
        text.replace(TIMES, "x")
        == """\
llama-3 on a100x16 (A100-SXM4-80GB)
              MEASURED  PLANNED   RATIO
  allocated   <0.1 GiB  49.1 GiB  x0.00  not used: outside 0.5 to 2
  nvidia-smi  65.3 GiB  63.4 GiB  x1.03  used
  step        2.27 s    unknown   -
  nvidia-smi: 64.8 to 65.3 GiB on 2 GPUs

Your runs on a100x16 (A100-SXM4-80GB): 3, memory x1.03 (medians)
Kept in state/a100x16.json: plan shows it, plan --calibrated applies it
"""
    )


def test_forced_figures_say_so() -> None:
    figures = (FIGURES[0], FIGURES[2])
    forced = CalibrationResult((RUN._replace(figures=figures),), (), forced=True)
    text = draw_result(forced, Ink(width=80))
    assert "used: forced, outside 0.5 to 2\n" in text


def test_nothing_is_left_of_what_was_removed() -> None:
    assert draw_kept([KEPT._replace(runs=())], Ink(width=80)) == (
        "Your runs on a100x16 (A100-SXM4-80GB): none\n"
    )


def test_plain_data_name_their_units() -> None:
    data = dump_result(CalibrationResult((RUN,), (KEPT,)))
    first, _, step = data["runs"][0]["figures"]
    assert (first["measured_bytes"], first["used"]) == (0.01 * GIB, False)
    assert (step["measured_seconds"], step["planned_seconds"]) == (2.27, None)
    assert data["calibrations"][0]["memory_ratio"] == 1.03


def test_a_plan_shows_what_is_kept_apart_and_applies_it_only_where_asked(jobgen: Jobgen) -> None:
    Path("job.yaml").write_text(JOB)
    Path("train.py").touch()
    refused = jobgen("plan", "--calibrated")
    assert refused.code == 7
    assert "nothing is calibrated on a100x16" in refused.err
    plain = json.loads(jobgen("plan", "--json").out)["data"]
    folder = home_of(Path.cwd()) / ".local" / "state" / "jobgen" / "calibrations"
    folder.mkdir(parents=True)
    rows = [{"alias": "llama-1", "token": "t", "gpu": GPU, "memory": 1.5, "step": 0.5}]
    (folder / "a100x16.json").write_text(json.dumps({"runs": rows}))

    shown = " ".join(jobgen("plan").out.replace(TIMES, "x").split())
    expected = "Measured your runs on a100x16: 1, memory x1.50, step x0.50; --calibrated applies"
    assert expected in shown
    beside = json.loads(jobgen("plan", "--json").out)["data"]
    assert beside["estimate"] == plain["estimate"]
    assert beside["calibration"]["memory_ratio"] == 1.5
    assert "step x0.50; applied" in jobgen("plan", "--calibrated").out.replace(TIMES, "x")
    reasons = " ".join(jobgen("plan", "--calibrated", "--why").out.split())
    assert "x 1.5 measured / estimated, in your runs" in reasons
    assert "x 0.5 measured / estimated, in your runs" in reasons
    text = jobgen("plan", "--section", "memory").out.replace(TIMES, "x")
    assert "Measured\n  your runs on a100x16  1, memory x1.50, step x0.50; --calibr" in text


def test_a_run_is_kept_only_by_a_command_that_takes_it() -> None:
    failed = RUN._replace(alias="llama-2", objection=Objection("ended as FAILED: why", "hint"))
    doubtful = RUN._replace(alias="llama-1", figures=FIGURES[:1])
    kept = RUN._replace(alias="llama-9", token="9")
    runs = (RUN, failed, doubtful, kept)
    known = ClusterMeasurements(KEPT, runs)
    (text,) = draw_measurements(Advised(None, known=known), Ink(width=200))
    rows = dict(line.split(None, 1) for line in text.splitlines()[2:])
    assert rows["llama-3"].endswith("; jobgen calibrate llama-3 keeps it")
    assert rows["llama-2"].endswith("; ended as FAILED: why")
    assert rows["llama-1"].endswith("; jobgen calibrate --force llama-1 keeps it")
    assert rows["llama-9"].endswith("estimated (+3%)")


@pytest.mark.slow
def test_a_run_of_the_example_is_compared_with_its_plan(jobgen: Jobgen) -> None:
    job = ROOT / "examples" / "calibrate" / "job.yaml"
    trust = "localhost:$HOME/.local/share/jobgen/runs"
    assert jobgen("submit", str(job), "--wait", "-q", "--trust", trust).code == 0
    shown = jobgen("calibrate", "@last").out
    assert "llama-1 on workstation (A100-SXM4-80GB)" in shown
    rows = {words[0]: words[-1] for line in shown.split("\n") if len(words := line.split()) > 4}
    assert (rows["allocated"], rows["step"]) == ("used", "used"), shown
