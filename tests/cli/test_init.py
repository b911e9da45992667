"""``jobgen init`` as a person uses it: questions, defaults, JSON, and a next command that works."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Jobgen, home_of, process
from tests.cli.test_terminal import Terminal

DISTRIBUTED = "import torch.distributed\nif __name__ == '__main__':\n    print(1)\n"
SINGLE = "import torch\nif __name__ == '__main__':\n    print(1)\n"


@pytest.fixture
def torchrun(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A torchrun on PATH, as in an environment with PyTorch."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "torchrun").write_text("#!/bin/sh\n")
    (folder / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("torchrun")
def test_y_takes_the_defaults_and_the_next_command_works(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DISTRIBUTED)
    said = jobgen("init", "-y")
    assert said.code == 0
    assert said.err == "Found: train.py (torch.distributed)\n"
    assert said.out.startswith("Wrote job.yaml and job.schema.json (for editors)\nNext: ")
    command = shlex.split(said.out.partition("Next: ")[2])
    assert command == ["jobgen", "plan"]
    assert jobgen(*command[1:]).code == 0
    assert jobgen("lint").out.startswith("1 file checked: no problems")
    first = (tmp_path / "job.yaml").read_text().split("\n")[0]
    schema = first.partition("$schema=")[2]
    assert json.loads((tmp_path / schema).read_text())["properties"]["gpus_per_node"]


@pytest.mark.parametrize("cluster", ["local", "a100x16"])
@pytest.mark.parametrize("text", [DISTRIBUTED, SINGLE])
def test_the_job_plans_on_every_kind_of_cluster(
    jobgen: Jobgen, tmp_path: Path, cluster: str, text: str
) -> None:
    (tmp_path / "train.py").write_text(text)
    assert jobgen("init", "-y", "-c", cluster).code == 0
    plan = json.loads(jobgen("plan", "--json").out)
    assert plan["data"]["cluster"] == cluster
    assert {warning["code"] for warning in plan["warnings"]} <= {"J259"}  # setup is commented out


def test_a_folder_elsewhere_is_initialised(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "main.py").write_text(SINGLE)
    said = jobgen("init", "sub", "-y")
    assert "Wrote sub/job.yaml" in said.out
    command = shlex.split(said.out.partition("Next: ")[2])
    assert jobgen(*command[1:]).code == 0


def test_json_shows_what_is_detected_and_writes_nothing(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    (tmp_path / "uv.lock").touch()
    answer = json.loads(jobgen("init", "--json").out)["data"]
    assert answer["detected"]["files"] == {"uv": "uv.lock"}
    assert answer["detected"]["programs"][0] == {
        "path": "train.py",
        "kind": "torch",
        "required": [],
    }
    assert answer["answers"]["gpus"] == "1"
    assert (answer["written"], answer["next"]) == (None, None)
    assert not (tmp_path / "job.yaml").exists()
    written = json.loads(jobgen("init", "--json", "-y").out)["data"]
    assert (written["written"], written["next"]) == ("job.yaml", "jobgen plan")
    assert (tmp_path / "job.yaml").read_text() == written["job"] == answer["job"]


def test_without_a_terminal_y_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    done = process("init", cwd=tmp_path)
    assert done.returncode == 2
    assert "jobgen init -y;" in done.stderr
    assert "jobgen init -y -c NAME;" in done.stderr
    assert "jobgen cluster ls" in done.stderr
    assert not (tmp_path / "job.yaml").exists()


def test_a_job_that_is_there_is_named_and_kept(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    (tmp_path / "job.yaml").write_text("mine")
    said = jobgen("init", "-y")
    assert said.code == 2
    assert "job.yaml exists" in said.err
    assert "jobgen plan" in said.err
    assert (tmp_path / "job.yaml").read_text() == "mine"


def test_a_folder_without_a_program_is_refused(jobgen: Jobgen, tmp_path: Path) -> None:
    said = jobgen("init", "-y")
    assert said.code == 2
    assert "no Python program" in said.err
    assert not (tmp_path / "job.yaml").exists()


def test_an_unknown_cluster_is_refused(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    said = jobgen("init", "-y", "-c", "a100x17")
    assert said.code == 7
    assert "a100x16" in said.err
    assert not (tmp_path / "job.yaml").exists()


def test_a_profile_is_named_by_its_path(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    (tmp_path / "my profile.yaml").write_text("name: lab\nextends: a100x16\n")
    assert jobgen("init", "-y", "-c", "./my profile.yaml").code == 0
    assert json.loads(jobgen("plan", "--json").out)["data"]["cluster"] == "lab"


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_five_questions_are_answered_at_a_terminal(tmp_path: Path, term: str) -> None:
    (tmp_path / "train.py").write_text(DISTRIBUTED)
    (tmp_path / "eval.py").write_text(SINGLE)
    clusters = home_of(tmp_path) / ".config" / "jobgen" / "clusters"
    clusters.mkdir(parents=True)
    (clusters / "lab.yaml").write_text("name: lab\nextends: a100x16\n")
    shown = Terminal(tmp_path, "init", columns=80, TERM=term)
    for prompt, typed in (
        (rb"Number or name \[train.py\]: ", "1"),
        (rb"Number or name \[local\]: ", "5"),
        (rb"enter a number from 1 to 2, or a name", None),
        (rb"Number or name \[local\]: ", "2"),
        (rb"Nodes \[1\]: ", "two"),
        (rb"a number from 1 to 65536", None),
        (rb"Nodes \[1\]: ", "2"),
        (rb"GPUs per node \[all\]: ", ""),
        (rb"Time limit \[1h\]: ", "4h"),
    ):
        shown.child.expect(prompt)
        if typed is not None:
            shown.child.sendline(typed)
    assert shown.ended() == 0
    assert "Next: jobgen plan" in shown.text
    text = (tmp_path / "job.yaml").read_text()
    assert "cluster: lab " in text
    assert "\nnodes: 2\n" in text
    assert "\ntime: 4h " in text
    assert process("plan", cwd=tmp_path).returncode == 0


def test_one_program_is_not_asked_about_and_enter_takes_all(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    shown = Terminal(tmp_path, "init", columns=80)
    for prompt in (b"Number or name", b"Nodes", b"Time limit"):  # the GPUs here are what they are
        shown.child.expect(prompt + rb" .*\]: ")
        shown.child.sendline("")
    assert shown.ended() == 0
    assert len(shown.text.split("\n")) <= 25
    assert "\ngpus_per_node: 1\n" in (tmp_path / "job.yaml").read_text()


@pytest.mark.parametrize("end", ["c", "d"])
def test_leaving_a_question_writes_nothing(tmp_path: Path, end: str) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    shown = Terminal(tmp_path, "init")
    shown.child.expect(rb"Number or name .*\]: ")  # its last space is readline's: it reads now
    shown.child.sendcontrol(end)
    assert shown.ended() == 130
    assert "Traceback" not in shown.text
    assert not (tmp_path / "job.yaml").exists()


def test_the_program_is_parsed_and_never_imported(tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    for name in ("train.py", "torch.py", "ast.py", "json.py", "click.py"):
        (tmp_path / name).write_text(f"open({str(mark)!r}, 'w')\nimport torch.distributed\n")
    # -P: as the installed program, which does not look for modules here
    words = [sys.executable, "-P", "-m", "jobgen", "init", "-y"]
    home = {"HOME": str(home_of(tmp_path)), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Next: jobgen plan" in done.stdout
    assert not mark.exists()


@pytest.mark.parametrize(
    "words",
    [("plan",), ("submit",), ("render",), ("lint",), ("bench", "scaling"), ("submit", "--dry-run")],
)
def test_without_a_job_file_init_is_named(jobgen: Jobgen, words: tuple[str, ...]) -> None:
    said = jobgen(*words, "-c", "local")
    assert said.code == 2
    assert said.out == ""
    assert "no job.yaml in this folder" in said.err
    assert "jobgen init" in said.err
    assert f"jobgen {words[0]}" in said.err
    said = jobgen(*words, "--json")
    assert json.loads(said.out)["error"]["exit"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("render",),
        ("lint",),
        ("submit", "-n"),
        ("bench", "scaling", "-n", "--nodes", "1"),
    ],
)
def test_job_yaml_here_is_the_default(
    jobgen: Jobgen, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    assert jobgen("init", "-y").code == 0
    told = jobgen(*words)
    assert told.code == 0
    assert told.out == jobgen(*words, "job.yaml").out


def test_set_answers_the_questions_and_refuses_other_keys(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DISTRIBUTED)
    said = jobgen("init", "-y", "--set", "train.seq_len=4096")
    assert (said.code, (tmp_path / "job.yaml").exists()) == (2, False)
    assert "nodes, gpus_per_node, time" in said.err
    said = jobgen("init", "-y", "--set", "nodes=many")
    assert (said.code, "enter a number" in said.err) == (2, True)
    asked = ("--set", "nodes=2", "--set", "time=10m", "--set", "gpus_per_node=4")
    assert jobgen("init", "-y", *asked).code == 0
    text = (tmp_path / "job.yaml").read_text()
    assert "\nnodes: 2\ngpus_per_node: 4\ntime: 10m " in text


def test_quiet_init_only_writes(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SINGLE)
    said = jobgen("init", "-y", "-q")
    assert (said.out, said.err) == ("", "")
    assert (tmp_path / "job.yaml").exists()
