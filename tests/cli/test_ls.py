"""`jobgen ls`: which runs it lists, and how they fit a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobgen.app.array_elements import ElementRow
from jobgen.app.listing import CROWDED, list_runs
from jobgen.app.run_filter import RunFilter
from jobgen.app.world import World
from jobgen.cli.output import Ink
from jobgen.cli.screens.job_table import draw_jobs, draw_listed
from jobgen.cli.screens.sweep_rows import LISTED, draw_elements
from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.record import JobId, JobState, RunRecord
from jobgen.model.sweep import TABLE, format_table
from tests.cli.conftest import Jobgen
from tests.test_ledger import record

NOW = 2000.0
REASON = "Priority"


def run(number: int, **values: Any) -> RunRecord:
    state = values.get("state", JobState.COMPLETED)
    settled = {"ended": state.final, "updated": NOW, "job": JobId(8120 + number)}
    return record(number, **{**settled, "state": state, **values})


def keep(*records: RunRecord) -> None:
    ledger = World.here().ledger
    for each in records:
        ledger.begin(each)


def test_a_number_of_runs_is_the_newest_whatever_their_state(jobgen: Jobgen) -> None:
    keep(run(0, name="old", state=JobState.RUNNING), run(1, name="new"))
    listed = json.loads(jobgen("ls", "-n", "1", "--cached", "--json").out)["data"]
    assert [job["id"] for job in listed] == ["new-1"]


def test_running_jobs_are_listed_before_newer_ones_are_left_out(jobgen: Jobgen) -> None:
    keep(run(0, name="old", state=JobState.RUNNING), *(run(n) for n in range(1, 30)))
    listed = json.loads(jobgen("ls", "--cached", "--json").out)["data"]
    assert len(listed) == 20
    assert listed[-1]["id"] == "old-1"


def test_a_state_is_looked_for_among_all_runs(jobgen: Jobgen) -> None:
    keep(run(0, name="bad", state=JobState.FAILED), *(run(n) for n in range(1, 30)))
    for words in (["failed"], ["FAILED", "-n", "3"]):
        listed = json.loads(jobgen("ls", "--json", "--state", *words).out)["data"]
        assert [job["id"] for job in listed] == ["bad-1"]


def test_runs_are_found_by_their_set_values(jobgen: Jobgen) -> None:
    keep(
        run(0, name="small", shape={"sets": ["LR=0.001", "time=2h"]}),
        run(1, name="large", shape={"sets": ["LR=1e-2"]}),
        *(run(n) for n in range(2, 30)),
    )
    for words, names in (
        (["LR=1e-3"], ["small-1"]),
        (["LR"], ["large-1", "small-1"]),
        (["LR=1e-3", "--set", "time=2h"], ["small-1"]),
        (["LR=1e-3", "--set", "time=3h"], []),
        (["SEED=1"], []),
    ):
        listed = json.loads(jobgen("ls", "--cached", "--json", "--set", *words).out)["data"]
        assert [job["id"] for job in listed] == names
    assert "--set: LR=0.001, time=2h" in jobgen("show", "small-1", "--cached").out


def test_elements_of_sweeps_are_found_by_their_values(jobgen: Jobgen) -> None:
    table = format_table([{"LR": lr, "SEED": seed} for lr in ("0.001", "0.01") for seed in "123"])
    shape = {"elements": 5, "sweep": True, "array": "0-4%2", "sets": ["time=2h"]}
    states = {"FAILED": "1", "COMPLETED": "0,2-4"}
    swept = run(0, name="scan", shape=shape, submission={"element_states": states})
    World.here().ledger.begin(swept, Bundle((BundleFile(TABLE, table),)))
    keep(run(1, name="small", shape={"sets": ["LR=1e-3"]}), run(2, shape=shape))
    for words, names in (
        (["LR=1e-3"], ["small-1", "scan-1[0-2]"]),
        (["LR=1e-2"], ["scan-1[3-4]"]),
        (["LR=1e-2", "--set", "SEED=3"], []),
        (["LR=1e-3", "--set", "SEED=2", "--set", "time=2h"], ["scan-1[1]"]),
        (["SEED"], ["scan-1[0-4]"]),
        (["WD"], []),
    ):
        listed = json.loads(jobgen("ls", "--cached", "--json", "--set", *words).out)["data"]
        assert [job["id"] for job in listed] == names
    (one,) = json.loads(
        jobgen("ls", "--cached", "--json", "--set", "SEED=2", "--set", "LR=1e-3").out
    )["data"]
    assert one["state"] == "FAILED"
    out = jobgen("ls", "--cached", "-v", "--set", "LR=1e-2").out
    assert "LR=0.01,SEED=1" in out
    assert "LR=0.001" not in out


def test_files_that_prune_removed_are_not_shown(jobgen: Jobgen) -> None:
    kept = record(0, name="old", state=JobState.COMPLETED, ended=True, directory="/runs/old")
    keep(kept)

    def list_files() -> list[str]:
        return list(json.loads(jobgen("show", "old", "--cached", "--json").out)["data"]["files"])

    ledger = World.here().ledger
    assert list_files() == ["bundle/job.sbatch", "src", "logs", "bundle/plan.json"]
    ledger.note(kept.token, "pruned", "", {"parts": ["sources", "logs"]})
    assert list_files() == ["bundle/job.sbatch", "src", "bundle/plan.json"], "outputs are in src"
    ledger.note(kept.token, "pruned", "", {"parts": ["outputs", "scripts"]})
    assert list_files() == []
    assert "Files in" not in jobgen("show", "old", "--cached").out


def test_an_unknown_state_is_refused_with_those_that_there_are(jobgen: Jobgen) -> None:
    said = jobgen("ls", "--state", "foo")
    assert said.code == 2
    assert "unknown state 'foo'" in said.err
    for state in ("pending", "running", "failed", "timeout"):
        assert state in said.err
    assert "did you mean 'failed'?" in " ".join(jobgen("ls", "--state", "faild").err.split())


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (60, ["JOB", "STATE", "ELAPSED", "INFO"]),
        (200, ["JOB", "JOBID", "CLUSTER", "STATE", "NODES", "ELAPSED", "LEFT", "INFO"]),
    ],
)
def test_a_table_fits_its_terminal(width: int, columns: list[str]) -> None:
    runs = [
        run(0, alias="llama8b-sft-3", state=JobState.PENDING, reason=REASON, shape={"nodes": 2}),
        run(1, alias="llama8b-sft-2", state=JobState.RUNNING, nodes="n[1-2]", elapsed=99, left=9),
    ]
    text = draw_jobs(runs, NOW, Ink(colour=False, width=width), clipped=True)
    assert max(map(len, text.splitlines())) <= width
    assert text.splitlines()[0].split() == columns
    assert "waiting for othe" in text


def test_a_column_without_values_is_left_out_on_a_terminal() -> None:
    text = draw_jobs([run(0, alias="a-1")], NOW, Ink(colour=False, width=200), clipped=True)
    assert "LEFT" not in text.splitlines()[0]
    piped = draw_jobs([run(0, alias="a-1")], NOW, Ink(colour=False, width=20), clipped=False)
    assert "LEFT" in piped.splitlines()[0]


def test_show_names_the_run_directory_once(jobgen: Jobgen) -> None:
    directory = "/scratch/ann/jobgen/llama-abcdefgh"
    keep(run(0, directory=directory))
    said = jobgen("show", "llama-1", "--cached").out
    assert said.count(directory) == 1
    for name in ("bundle/job.sbatch", "src", "logs"):
        assert name in said
    files = json.loads(jobgen("show", "llama-1", "--cached", "--json").out)["data"]["files"]
    assert files["logs"] == f"{directory}/logs"


def test_elements_that_have_no_room_are_shown_by_the_command_that_is_named() -> None:
    rows = [ElementRow(index, f"LR={index}", JobState.RUNNING) for index in range(LISTED + 2)]
    drawn = draw_elements(rows, every=False, more="jobgen show scan-1 -v")
    assert drawn[-1] == "  2 more (jobgen show scan-1 -v)"
    assert len(drawn) == LISTED + 1
    assert len(draw_elements(rows, every=True)) == LISTED + 2


def test_a_cluster_on_which_runs_hold_much_is_named_with_what_frees_it(jobgen: Jobgen) -> None:
    keep(run(0), run(1))
    world = World.here()
    world.ledger.set_held("a100", {run(0).token: CROWDED, run(1).token: 1 << 30})
    world.ledger.set_held("h100", {run(1).token + "x": CROWDED})
    drawn = draw_listed(list_runs(world, cached=True), NOW, Ink(), clipped=True)
    assert drawn.splitlines()[-1] == "2 runs hold 21 GiB or more on a100: jobgen prune -c a100"
    assert "prune" not in jobgen("ls", "--cached").out, "in a pipe there are jobs alone"
    assert not list_runs(world, cached=True, wanted=RunFilter("h100")).crowded


def test_uploads_count_until_prune_has_measured_and_removed_them(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(f"print(1)  # {'x' * 100_000}")
    job = tmp_path / "job.yaml"
    job.write_text("name: held\nrun: train.py\nnodes: 1\ngpus_per_node: 1\ntime: 5m\n")
    assert jobgen("submit", str(job), "-c", "local", "-q").code == 0
    ledger = World.here().ledger
    runs, uploaded = ledger.sum_held()["local"]
    assert (runs, uploaded > 100_000) == (1, True)
    assert jobgen("wait", "held-1").code == 0
    assert jobgen("prune", "-c", "local").code == 0
    _, measured = ledger.sum_held()["local"]
    assert measured > uploaded, "with scripts and logs"
    assert jobgen("prune", "held-1", "-y").code == 0
    assert "local" not in ledger.sum_held()
