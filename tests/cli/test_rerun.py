"""`jobgen rerun` and `jobgen reproduce`: what a dry run says."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Jobgen


def test_a_dry_run_of_a_rerun_names_the_rerun_as_next(jobgen: Jobgen, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    keys = "nodes: 1\ngpus_per_node: 1\ntime: 5m\nvars: {SEED: 1}\n"
    job.write_text(f"name: again\nrun: echo ${{SEED}}\n{keys}")
    assert jobgen("submit", str(job), "-c", "local", "-q").code == 0
    said = jobgen("rerun", "again-1", "--set", "SEED=2", "-n")
    assert said.out.rstrip().splitlines()[-1] == "Next: jobgen rerun again-1 --set SEED=2"
    assert "--set SEED=2 --against again-1" in said.err
    said = jobgen("reproduce", "again-1", "-n")
    assert said.out.rstrip().splitlines()[-1] == "Next: jobgen reproduce again-1"
