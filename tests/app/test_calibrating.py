"""A run that tells its own peak, and the next plan of the same job."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from jobgen.app import jobs
from jobgen.app.advising import advise_job
from jobgen.app.calibrating import list_measured
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submit import rehearse_submit, submit
from jobgen.app.world import World
from jobgen.model.record import JobState
from jobgen.submission.program_report import EXPECTED

Job = Callable[..., Path]
TRAIN = "train: {model: gpt2, strategy: auto, seq_len: 1024, micro_batch: 8}"
GIB = 1 << 30


@pytest.fixture
def ready(world: World, job: Job) -> PreparedJob:
    """A job on a simulated node that is said to have a GPU; it reports 10 GiB."""
    here = world.config / "clusters" / "here.yaml"
    text = here.read_text().replace("procs_per_node: 1\n", "")
    text = text.replace("{count: 2}", "{count: 2, gpus_per_node: 1, gpu: A100-80GB}")
    here.write_text(text + "gpu_request: none\n")
    told = json.dumps({"peak_allocated_bytes": 10 * GIB, "tokens_per_second": 1000})
    path = job(f"printf '%s' '{told}' >$JOBGEN_REPORT_FILE", TRAIN, "gpus_per_node: 1")
    return prepare(world, path, "here")


def test_a_reported_peak_stands_beside_what_was_expected(world: World, ready: PreparedJob) -> None:
    assert list_measured(world, ready) == ()
    record = submit(world, ready)
    expected = record.shape[EXPECTED]
    assert expected["gpu"] == "A100-SXM4-80GB"
    (ended,) = jobs.wait(world, [record.alias])
    assert (ended.state, ended.report["tokens_per_second"]) == (JobState.COMPLETED, 1000)
    (found,) = list_measured(world, ready)
    assert found.alias == record.alias
    memory, step = found.figures
    assert (memory.name, memory.measured) == ("allocated", 10 * GIB)
    before = advise_job(ready).advice
    assert before is not None
    assert before.chosen is not None
    known = before.chosen.memory
    assert memory.planned == pytest.approx(known.get_peak("allocated"), abs=1)
    assert expected["peak_nvidia_smi_bytes"] == pytest.approx(known.nvidia_smi, abs=1)
    assert before.chosen.step is not None
    assert step.planned == before.chosen.step.seconds
    assert step.measured == before.chosen.step.work / 1000


def test_a_submit_takes_the_estimate_of_the_plan(ready: PreparedJob) -> None:
    entered: set[str] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_globals.get("__name__", ""))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        rehearse_submit(ready)
    finally:
        sys.setprofile(before)
    assert "jobgen.app.submit" in entered
    assert not {name for name in entered if name.startswith(("jobgen.strategy", "jobgen.resolve"))}


def test_a_run_that_tells_nothing_calibrates_nothing(world: World, job: Job) -> None:
    other = prepare(world, job("true"), "here")
    jobs.wait(world, [submit(world, other).alias])
    assert list_measured(world, other) == ()
