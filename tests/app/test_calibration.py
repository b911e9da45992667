"""Finished runs on a simulated node correct the plans of its cluster; others are refused."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest

from jobgen.app import jobs
from jobgen.app.advising import advise_job
from jobgen.app.calibrating import find_cluster_measurements
from jobgen.app.calibration import (
    CalibrationResult,
    calibrate_runs,
    forget_runs,
    locate_calibration,
    read_calibration,
)
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Missing
from jobgen.model.record import RunRecord
from jobgen.strategy.choice.offer import StrategyOption

Job = Callable[..., Path]
Train = Callable[..., str]
TRAIN = "train: {model: gpt2, strategy: ddp, seq_len: 1024, micro_batch: 8}"
GPU = "A100-SXM4-80GB"
MIB = 1 << 20


@pytest.fixture
def simulated(world: World) -> World:
    """A cluster whose node is said to have a GPU."""
    here = world.config / "clusters" / "here.yaml"
    text = here.read_text().replace("procs_per_node: 1\n", "")
    text = text.replace("{count: 2}", "{count: 2, gpus_per_node: 1, gpu: A100-80GB}")
    here.write_text(f"{text}gpu_request: none\n")
    return world


@pytest.fixture
def ready(simulated: World, job: Job) -> PreparedJob:
    """The job that is planned."""
    return prepare(simulated, job("true", TRAIN, "gpus_per_node: 1"), "here")


@pytest.fixture
def planned(ready: PreparedJob) -> Mapping[str, float]:
    """What its plan says, under the names of figures."""
    estimate = ready.plan.estimate
    assert estimate is not None
    assert estimate.seconds
    return {
        "peak_allocated_bytes": estimate.allocated,
        "peak_reserved_bytes": estimate.reserved,
        "nvidia-smi": estimate.total,
        "step_s": estimate.seconds,
        "tokens_per_step": estimate.tokens,
    }


@pytest.fixture
def run(simulated: World, job: Job) -> Callable[..., str]:
    """Runs the job to its end, with this report; gives the run's name."""

    def trained(report: Mapping[str, float], *lines: str, then: str = "") -> str:
        text = f"printf '%s' '{json.dumps(report)}' >$JOBGEN_REPORT_FILE\n{then}"
        path = job(text, TRAIN, "gpus_per_node: 1", *lines)
        return finish(simulated, path).alias

    return trained


def finish(world: World, path: Path) -> RunRecord:
    """A run of this job file, ended."""
    (record,) = jobs.wait(world, [submit(world, prepare(world, path, "here")).alias])
    return record


def find_option(ready: PreparedJob, world: World, *, calibrated: bool) -> StrategyOption:
    """What a plan shows first."""
    known = find_cluster_measurements(world, ready)
    advice = advise_job(ready, known=known, calibrated=calibrated).advice
    assert advice is not None
    assert advice.first_option is not None
    return advice.first_option


def list_ratios(result: CalibrationResult) -> tuple[float | None, float | None]:
    """Memory and step of the only cluster."""
    (kept,) = result.calibrations
    return kept.memory, kept.step


def test_the_median_of_several_runs_corrects_a_plan_only_where_asked(
    simulated: World, ready: PreparedJob, planned: Mapping[str, float], run: Train
) -> None:
    """One run of three is far off, and changes nothing."""
    plain = find_option(ready, simulated, calibrated=False)
    for memory, step in ((1.1, 0.8), (1.2, 0.9), (1.9, 1.9)):
        alias = run(
            {
                "peak_allocated_bytes": planned["peak_allocated_bytes"] * memory,
                "step_s": planned["step_s"] * step,
            }
        )
        result = calibrate_runs(simulated, [alias])
    assert list_ratios(result) == pytest.approx((1.2, 0.9), rel=1e-6)
    assert list_ratios(calibrate_runs(simulated, [alias])) == list_ratios(result)
    assert find_option(ready, simulated, calibrated=False) == plain
    scaled = find_option(ready, simulated, calibrated=True)
    assert scaled.memory.needed == pytest.approx(plain.memory.needed * 1.2, rel=1e-6)
    assert scaled.memory.nvidia_smi == pytest.approx(plain.memory.nvidia_smi * 1.2, rel=1e-6)
    assert plain.step is not None
    assert scaled.step is not None
    assert scaled.step.seconds == pytest.approx(plain.step.seconds * 0.9)
    # the next run is compared with the estimate as it is, not with the corrected one
    again = run({"peak_allocated_bytes": planned["peak_allocated_bytes"] * 1.2})
    (compared,) = calibrate_runs(simulated, [again]).compared
    assert compared.figures[0].ratio == pytest.approx(1.2, rel=1e-6)


def test_a_run_is_forgotten(simulated: World, planned: Mapping[str, float], run: Train) -> None:
    peak = planned["peak_allocated_bytes"]
    first, second = (run({"peak_allocated_bytes": peak * ratio}) for ratio in (1.1, 0.7))
    assert list_ratios(calibrate_runs(simulated, [first, second]))[0] == pytest.approx(0.9)
    assert list_ratios(forget_runs(simulated, [second]))[0] == pytest.approx(1.1)
    assert list_ratios(forget_runs(simulated, [first, second])) == (None, None)


def test_monitors_measure_what_the_program_does_not_report(
    simulated: World, planned: Mapping[str, float], run: Train
) -> None:
    """The sample of a real H100, with another peak; tokens per second give the time of a step."""
    used = round(planned["nvidia-smi"] * 1.25 / MIB)
    tools = simulated.home / "tools"
    tools.mkdir()
    row = f"0, 97, {used}, 81559, 65, 612.34, 700.00, 1755, 1980, 2619, 0x4"
    (tools / "nvidia-smi").write_text(f"#!/bin/bash\necho '{row}'\n")
    (tools / "nvidia-smi").chmod(0o755)
    rate = planned["tokens_per_step"] / planned["step_s"] / 1.5
    seen = 'until [[ -s "$JOBGEN_STATE_DIR/monitor.0/local1.csv" ]]; do sleep 0.1; done'
    alias = run(
        {"tokens_per_second": rate}, "monitor: 1s", f"env: {{PATH: '{tools}:$PATH'}}", then=seen
    )
    result = calibrate_runs(simulated, [alias])
    (compared,) = result.compared
    assert [figure.name for figure in compared.figures] == ["nvidia-smi", "step"]
    assert compared.gpus == (used * MIB,)
    assert list_ratios(result) == pytest.approx((1.25, 1.5), rel=1e-3)


@pytest.mark.parametrize("factor", [0.25, 1e3, 1 / MIB], ids=["quarter", "kilo", "mib"])
def test_a_figure_of_something_else_is_shown_and_not_used_unless_forced(
    simulated: World, planned: Mapping[str, float], run: Train, factor: float
) -> None:
    alias = run({"peak_allocated_bytes": planned["peak_allocated_bytes"] * factor})
    result = calibrate_runs(simulated, [alias])
    (figure,) = result.compared[0].figures
    assert figure.doubt == "outside 0.5 to 2"
    assert result.unused == result.compared
    assert list_ratios(result) == (None, None)
    forced = calibrate_runs(simulated, [alias], force=True)
    assert forced.unused == ()
    assert list_ratios(forced)[0] == pytest.approx(factor, rel=1e-3)


def test_labels_that_are_mixed_up_are_not_trusted(
    simulated: World, planned: Mapping[str, float], run: Train
) -> None:
    """Both ratios look plausible, but no allocator allocates more than it reserves."""
    alias = run(
        {
            "peak_allocated_bytes": planned["peak_reserved_bytes"],
            "peak_reserved_bytes": planned["peak_allocated_bytes"],
            "step_s": planned["step_s"],
        }
    )
    result = calibrate_runs(simulated, [alias])
    doubts = [figure.doubt for figure in result.compared[0].figures]
    assert doubts == ["more is allocated than reserved"] * 2 + [""]
    assert list_ratios(result) == (None, pytest.approx(1.0))


def test_runs_without_a_comparison_are_refused_and_keep_nothing(
    simulated: World, job: Job, planned: Mapping[str, float], run: Train
) -> None:
    report = {"peak_allocated_bytes": planned["peak_allocated_bytes"]}
    good, failed, silent = run(report), run(report, then="exit 3"), run({})
    unplanned = finish(simulated, job("true")).alias
    path = job("true", TRAIN, "gpus_per_node: 1")
    program = "launcher: srun, run: 'true'"
    steps = f"steps: [{{name: first, {program}, {TRAIN}}}, {{name: second, {program}}}]"
    path.write_text(f"name: probe\nnodes: 1\ntime: 5m\ngpus_per_node: 1\n{steps}\n")
    several = finish(simulated, path).alias
    refused = {
        failed: "ended as FAILED: its peak may never have been reached",
        silent: "has measured neither its memory nor its steps",
        unplanned: "was submitted without an estimate to compare with",
        several: "is a run of several programs: its reports are not those of one planned program",
    }
    for alias, why in refused.items():
        with pytest.raises(CheckFailed, match=f"^{alias} {why}$"):
            calibrate_runs(simulated, [good, alias])
    with pytest.raises(Missing):
        calibrate_runs(simulated, ["nobody-7"])
    assert not locate_calibration(simulated, "here").exists()


def test_a_run_that_goes_on_is_refused(simulated: World, job: Job) -> None:
    path = job("until [[ -e end ]]; do sleep 0.1; done", TRAIN, "gpus_per_node: 1")
    record = submit(simulated, prepare(simulated, path, "here"))
    with pytest.raises(CheckFailed, match="it has not finished") as refused:
        calibrate_runs(simulated, [record.alias])
    assert refused.value.problems[0].hint == f"jobgen wait {record.alias}"
    Path(simulated.ledger.get(record.alias).directory, "src", "end").touch()
    jobs.wait(simulated, [record.alias])


DAMAGED = (
    "",
    "[]",
    '{"runs": 3}',
    '{"runs": [3, {}, {"alias": "a", "token": "t", "gpu": "G", "memory": NaN, "step": true}]}',
    '{"runs": [{"alias": null, "token": "t", "gpu": "G", "memory": 1.1, "step": null}]}',
    "[" * 100_000,
)


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_corrects_nothing(world: World, text: str) -> None:
    path = locate_calibration(world, "here")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read_calibration(world, "here", "G").runs == ()


def test_other_gpus_of_a_cluster_are_not_corrected(
    simulated: World, planned: Mapping[str, float], run: Train
) -> None:
    alias = run({"peak_allocated_bytes": planned["peak_allocated_bytes"]})
    calibrate_runs(simulated, [alias])
    assert len(read_calibration(simulated, "here", GPU).runs) == 1
    assert read_calibration(simulated, "here", "H100-SXM5-80GB").runs == ()
    assert read_calibration(simulated, "there", GPU).runs == ()


def test_the_name_of_a_cluster_leads_to_no_other_folder(world: World) -> None:
    path = locate_calibration(world, "../../etc/passwd")
    assert path.parent == world.state / "calibrations"


def test_two_at_once_lose_nothing(
    simulated: World, planned: Mapping[str, float], run: Train
) -> None:
    """The second waits while the first, here the test itself, changes the file."""
    peak = planned["peak_allocated_bytes"]
    first, second = (run({"peak_allocated_bytes": peak * ratio}) for ratio in (1.1, 1.3))
    calibrate_runs(simulated, [first])
    path = locate_calibration(simulated, "here")
    other = World(simulated.environ, simulated.cwd, simulated.home)
    with ThreadPoolExecutor() as pool, (path.parent / ".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        before, waits = path.read_text(), rf"-> FLOCK .*:{os.fstat(held.fileno()).st_ino} "
        changed = pool.submit(calibrate_runs, other, [second])
        while not changed.done() and not re.search(waits, Path("/proc/locks").read_text()):
            sleep(0.01)
        path.write_text(before)
        fcntl.flock(held, fcntl.LOCK_UN)
    changed.result()
    assert len(read_calibration(simulated, "here", GPU).runs) == 2
