"""What plan, render, submit --dry-run, lint and the small verbs answer."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobgen.app import explaining
from jobgen.cli.layout import measure
from jobgen.cli.output import Ink
from jobgen.cli.screens import explain
from jobgen.data.message_codes import codes
from tests.cli.conftest import ROOT, Jobgen, home_of, process

JOB = """\
name: llama
nodes: 2
gpus_per_node: 8
time: 4h
mem: 0
run: train.py --config 'a b.yaml'
vars: {LR: 1e-5}
env: {HF_HOME: /scratch/$USER/hf, LR: "${LR}"}
secrets: [HF_TOKEN]
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_TOKEN", "hf_thisisacanary")
    (tmp_path / "train.py").write_text("print('hi')\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


ON = ("job.yaml", "-c", "a100x16")


def test_a_plan_says_what_why_and_what_next(jobgen: Jobgen, job: Path) -> None:
    said = jobgen("plan", *ON, "-v")
    assert said.code == 0
    assert said.out.startswith("llama on a100x16: 2 nodes \u00d7 8 A100-SXM4-80GB = 16 GPUs, 4h 0m")
    for part in ("Decisions", "Steps", "sbatch options", "Environment", "Rendered files", "Upload"):
        assert f"\n{part}" in said.out
    assert re.search(r"HF_HOME +/scratch/\$USER/hf\s+job.yaml:8", said.out)
    assert re.search(r"HF_TOKEN +\*\*\*", said.out)
    assert said.out.endswith("Next: jobgen submit job.yaml -c a100x16\n")


def test_a_plan_in_json_holds_every_decision(jobgen: Jobgen, job: Path) -> None:
    envelope = json.loads(jobgen("plan", *ON, "--json").out)
    assert envelope["schema"] == "jobgen/plan/1"
    data = envelope["data"]
    assert data["resources"]["world_size"] == 16
    assert data["cost"]["gpu_hours"] == 64
    assert data["environment"]["LR"]["value"] == "1e-5"
    assert data["sbatch"]["time"] == {
        "value": "04:00:00",
        "why": "time limit",
        "place": "job.yaml:4",
    }
    assert {f["path"] for f in data["files"]} >= {"job.sbatch", "rank.sh", "plan.json"}
    assert [f["path"] for f in data["upload"]["files"]] == ["job.yaml", "train.py"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", data["digest"])


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_only_what_must_not_be_broken_is_wider_than_the_screen(
    jobgen: Jobgen, job: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for line in (jobgen("plan", *ON, "-v").out + jobgen("plan", *ON).out).splitlines():
        longest = max(map(measure, line.split("  ")), default=0)
        assert measure(line) <= width or longest > width - 40 or "    | " in line, line


def test_the_next_command_is_the_same_call(jobgen: Jobgen, job: Path) -> None:
    out = jobgen("plan", *ON, "--set", "LR=3e-5", "-v").out
    assert out.endswith("Next: jobgen submit job.yaml -c a100x16 --set LR=3e-5\n")
    assert re.search(r"LR +3e-5", out)


def test_a_dry_run_shows_the_exact_commands_and_touches_nothing(
    jobgen: Jobgen, job: Path, tmp_path: Path
) -> None:
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    said = jobgen("submit", *ON, "--dry-run")
    assert said.code == 0
    assert "WOULD RUN  in this order; nothing was sent" in said.out
    assert re.search(r"^  \d submit +cd .* && sbatch --parsable --comment=jobgen:", said.out, re.M)
    assert re.search(r"HF_TOKEN +\*\*\* +your environment, \$HF_TOKEN", said.out)
    assert said.out.startswith("llama on a100x16: ")
    assert said.out.endswith("Next: jobgen submit job.yaml -c a100x16\n")
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_no_answer_holds_the_value_of_a_secret(jobgen: Jobgen, job: Path) -> None:
    for words in (["plan"], ["plan", "-v"], ["submit", "--dry-run", "-v"], ["render"]):
        for more in ([], ["--json"]):
            said = jobgen(*words, *ON, *more)
            assert said.code == 0
            assert "thisisacanary" not in said.out + said.err


def test_a_rendered_file_is_the_same_bytes_whatever_the_screen(job: Path, tmp_path: Path) -> None:
    env = {"HF_TOKEN": "x"}
    narrow = process("render", *ON, cwd=tmp_path, COLUMNS="40", NO_COLOR="1", **env).stdout
    wide = process("render", *ON, cwd=tmp_path, COLUMNS="200", FORCE_COLOR="1", **env).stdout
    ascii_only = process("render", *ON, "--ascii", cwd=tmp_path, LC_ALL="C", **env).stdout
    assert narrow == wide == ascii_only
    assert narrow.startswith("#!/bin/bash\n")


def test_rendered_files_can_be_kept_and_compared(jobgen: Jobgen, job: Path, tmp_path: Path) -> None:
    assert jobgen("render", *ON, "-o", "out").code == 0
    assert jobgen("render", *ON, "--check", "out").code == 0
    script = tmp_path / "out" / "job.sbatch"
    assert script.read_text() == jobgen("render", *ON).out
    script.write_text(script.read_text() + "# mine\n")
    said = jobgen("render", *ON, "--check", "out")
    assert said.code == 1
    assert "job.sbatch: different" in said.out
    assert "-# mine" in said.out


def test_lint_shows_all_problems_and_the_exit_code_says_how_bad(jobgen: Jobgen, job: Path) -> None:
    assert jobgen("lint", "job.yaml").code == 0
    job.write_text(JOB.replace("4h", "4:00").replace("gpus_per_node", "gpu_per_node"))
    said = jobgen("lint", "job.yaml")
    assert said.code == 3
    assert "job.yaml:4:7: error[" in said.out
    assert "job.yaml:3:1: error[" in said.out
    assert "did you mean 'gpus_per_node'?" in said.out
    assert "Found 2 errors in 1 file." in said.out
    assert said.out.count("^") == len("4:00") + len("gpu_per_node")


def test_lint_takes_changed_values_with_and_without_a_cluster(jobgen: Jobgen, job: Path) -> None:
    for where in ((), ("-c", "a100x16")):
        said = jobgen("lint", "job.yaml", *where, "--set", "nodes=many")
        assert said.code == 3
        assert "--set nodes: error" in said.out
        assert jobgen("lint", "job.yaml", *where, "--set", "nodes=2").code == 0


def test_lint_without_a_cluster_sees_missing_scripts_and_unknown_clusters(
    jobgen: Jobgen, job: Path
) -> None:
    job.write_text("cluster: a100x61\n" + JOB.replace("train.py", "trian.py"))
    said = jobgen("lint")
    assert said.code == 3
    assert "job.yaml:1:10: warning[J182]: there is no cluster 'a100x61'" in said.out
    assert "did you mean a100x16?" in said.out
    assert "error[J220]: trian.py is not in the job's folder" in said.out


@pytest.mark.parametrize("words", [["plan"], ["render"], ["submit"], ["submit", "--dry-run"]])
def test_every_verb_refuses_a_bad_file_as_lint_does(
    jobgen: Jobgen, job: Path, words: list[str]
) -> None:
    job.write_text(JOB.replace("4h", "4:00"))
    said = jobgen(*words, *ON)
    assert said.code == 3
    assert said.out == ""
    assert "job.yaml:4:7: error[J131]" in said.err
    assert "4 | time: 4:00" in said.err


VERBS = [["lint"], ["plan"], ["render"], ["submit"], ["submit", "--dry-run"]]


@pytest.mark.parametrize("words", VERBS)
@pytest.mark.parametrize("more", ["nodes: 2\nlauncher: srun\n", "nodes: 2\n", "nodes: 1\n"])
def test_every_verb_refuses_a_launcher_inside_a_launcher(
    jobgen: Jobgen, job: Path, words: list[str], more: str
) -> None:
    run = "run: |\n  set -e\n  exec torchrun --nproc-per-node=8 train.py --lr 1\n"
    job.write_text(f"name: demo\ntime: 4h\n{run}{more}")
    answer = jobgen(*words, *ON)
    assert answer.code == 3
    assert "job.yaml:5: error[J306]" in answer.err + answer.out
    assert "'train.py --lr 1'" in answer.err + answer.out


@pytest.mark.parametrize("words", VERBS)
@pytest.mark.parametrize("more", ["nodes: 2\nlauncher: accelerate\n", "nodes: 2\n", "nodes: 1\n"])
def test_every_verb_refuses_a_second_distributed_program(
    jobgen: Jobgen, job: Path, words: list[str], more: str
) -> None:
    job.write_text(f"name: demo\ntime: 4h\nrun: |\n  train.py\n\n  eval.py\n{more}")
    answer = jobgen(*words, *ON)
    assert answer.code == 3
    assert "job.yaml:6: error[J223]" in answer.err + answer.out
    assert "after: [demo]" in answer.err + answer.out


def test_an_unknown_cluster_is_answered_with_the_nearest(jobgen: Jobgen, job: Path) -> None:
    said = jobgen("plan", "job.yaml", "-c", "a100x61")
    assert said.code == 7
    assert "a100x16" in said.err


def test_the_cluster_may_come_from_the_environment(
    jobgen: Jobgen, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_CLUSTER", "a100x16")
    assert jobgen("plan", "job.yaml").out.startswith("llama on a100x16")
    assert jobgen("plan", "job.yaml", "-c", "local").out.startswith("llama on local")


def test_clusters_are_listed_and_shown(jobgen: Jobgen) -> None:
    listed = jobgen("cluster", "ls", "--all")
    assert re.search(
        r"^  a100x16 +2 +8 \S A100-SXM4 +80 GB +infiniband, 8 \S 200", listed.out, re.M
    )
    shown = jobgen("cluster", "show", "a100x16")
    assert "infiniband, 8 \u00d7 200 Gb/s" in shown.out
    assert "  name: a100x16" not in shown.out
    assert "  name: a100x16" in jobgen("cluster", "show", "a100x16", "-v").out
    assert json.loads(jobgen("cluster", "ls", "--json").out)["schema"] == "jobgen/cluster-ls/1"


@pytest.mark.parametrize("kind", ["job", "cluster"])
def test_schemas_are_json(jobgen: Jobgen, kind: str) -> None:
    assert json.loads(jobgen("schema", kind).out)["type"] == "object"


def test_a_code_is_explained_with_an_example(jobgen: Jobgen) -> None:
    said = jobgen("explain", "j131")
    assert said.code == 0
    assert said.out.startswith("J131: ")
    assert "Right:\n    " in said.out
    family = jobgen("explain", "j13*").out.splitlines()
    assert [line.split()[0] for line in family] == [f"J{n}" for n in range(131, 139)]
    wrong = jobgen("explain", "J999x")
    assert wrong.code == 7
    assert "jobgen explain" in wrong.err


def test_every_explanation_fits_a_terminal() -> None:
    for code in codes():
        text = explain.screen(explaining.explain(code), Ink(width=80))
        lines = [line for line in text.split("\n") if not line.startswith("    ")]
        assert max(map(measure, lines)) <= 80, code


def test_a_key_is_explained_as_data(jobgen: Jobgen) -> None:
    key, other, *inner = json.loads(jobgen("explain", "procs_per_node", "--json").out)["data"]
    assert (key["kind"], key["file"], key["path"]) == ("key", "job.yaml", "procs_per_node")
    assert (key["default"], key["example"]) == ("", "procs_per_node: 2")
    assert other["file"] == "cluster.yaml"
    assert {each["path"].split(".")[0] for each in inner} == {"steps", "groups"}


def test_explain_alone_says_what_there_is_and_every_line_works(jobgen: Jobgen) -> None:
    lines = jobgen("explain").out.splitlines()
    assert len(lines) < 10
    listed = 0
    for line in lines:
        command, text = re.split(r" {2,}", line, maxsplit=1)
        said = jobgen(*shlex.split(command)[1:])
        assert said.code == 0
        if number := re.match(r"(\d+) codes", text):
            assert len(said.out.splitlines()) == int(number[1])
            listed += int(number[1])
    assert listed == len(json.loads(jobgen("explain", "--json").out)["data"])


def test_a_costly_job_needs_a_yes(jobgen: Jobgen, job: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: c\nscheduler: slurm\npaths: {root: /nonexistent}\nnetwork: {fabric: ethernet}\n"
        "confirm: {gpu_hours: 10}\n"
        "nodes: {count: 2, gpus_per_node: 8, gpu: A100-SXM4-80GB}\n"
    )
    said = jobgen("submit", "job.yaml", "-c", "./c.yaml")
    assert said.code == 2
    assert "64 GPU-hours" in said.err
    assert "add -y" in said.err
    said = jobgen("submit", "job.yaml", "-c", "./c.yaml", "--set", "array=0-35999")
    assert "2,304,000 GPU-hours (asked above 10)" in " ".join(said.err.split())


def test_many_gpu_hours_are_written_out(jobgen: Jobgen, job: Path) -> None:
    said = jobgen("plan", *ON, "--set", "array=0-35999")
    assert "up to 2,304,000 GPU-hours" in said.out


def test_every_start_of_a_requeued_job_is_counted(
    jobgen: Jobgen, job: Path, tmp_path: Path
) -> None:
    job.write_text(job.read_text() + "checkpoint: {requeue: true, max_requeues: 99}\n")
    said = jobgen("plan", *ON).out
    assert "\nCost      up to 6,400 GPU-hours (100 starts of 64 GPU-hours)\n" in said
    cost = json.loads(jobgen("plan", *ON, "--json").out)["data"]["cost"]
    assert (cost["gpu_hours"], cost["starts"]) == (6400, 100)
    (tmp_path / "c.yaml").write_text(
        "name: c\nscheduler: slurm\npaths: {root: /nonexistent}\nnetwork: {fabric: ethernet}\n"
        "confirm: {gpu_hours: 100}\n"
        "nodes: {count: 2, gpus_per_node: 8, gpu: A100-SXM4-80GB}\n"
    )
    asked = jobgen("submit", "job.yaml", "-c", "./c.yaml")
    assert asked.code == 2
    assert "may use 6,400 GPU-hours in up to 100 starts (asked above 100)" in " ".join(
        asked.err.split()
    )


def test_clusters_complete(job: Path, tmp_path: Path) -> None:
    done = process(
        cwd=tmp_path,
        _JOBGEN_COMPLETE="bash_complete",
        COMP_WORDS="jobgen plan job.yaml -c a1",
        COMP_CWORD="4",
    )
    assert done.stdout.split() == ["plain,a100x16"]


def test_the_output_of_the_command_is_not_uploaded(job: Path) -> None:
    words = [sys.executable, "-m", "jobgen", "plan", "job.yaml", "-c", "a100x16", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home_of(job.parent))}
    with (job.parent / "out.json").open("w") as out, (job.parent / "err").open("w") as err:
        subprocess.run(words, cwd=job.parent, stdout=out, stderr=err, env=env, check=True)
    upload = json.loads((job.parent / "out.json").read_text())["data"]["upload"]
    assert [file["path"] for file in upload["files"]] == ["job.yaml", "train.py"]
    assert {each["path"] for each in upload["ignored"]} == {"out.json", "err"}


def test_a_problem_of_set_is_not_counted_as_a_file(jobgen: Jobgen, job: Path) -> None:
    said = jobgen("plan", *ON, "--set", "nodes=4", "--set", "mem=9999G")
    assert said.code == 3
    assert "--set nodes: error[J201]" in said.err
    assert "Found 2 errors in --set." in said.err


def test_a_problem_of_race_names_that_option(jobgen: Jobgen, job: Path) -> None:
    said = jobgen("plan", *ON, "--race", "partitn=a,b")
    assert said.code == 3
    assert "--race: error[J298]" in said.err
    assert "Found 1 error in --race." in said.err
    assert "--set" not in said.err


def test_lint_warns_of_a_secret_that_is_not_set_where_no_cluster_is_named(
    jobgen: Jobgen, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are checked in CI, too, where nobody submits; with -c as submit checks them."""
    monkeypatch.delenv("HF_TOKEN")
    job.write_text(f"{JOB}cluster: a100x16\n")
    said = jobgen("lint", "job.yaml")
    assert "warning[J221]: HF_TOKEN is not set in the environment" in said.out
    assert said.code == 0
    assert jobgen("lint", "job.yaml", "-c", "a100x16").code != 0
