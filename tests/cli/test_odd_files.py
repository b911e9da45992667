"""Links in a circle, pipes and a damaged run database: a message, and never a hang or a bug."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobgen.errors import Exit
from tests.cli.conftest import Jobgen, home_of

JOB = """\
name: demo
run: train.py
nodes: 1
procs_per_node: 1
time: 30m
"""
VERBS = (["lint"], ["lint", "-c", "local"], ["plan", "-c", "local"], ["submit", "-c", "local"])


def write(folder: Path, text: str = JOB) -> None:
    (folder / "train.py").write_text("print()\n")
    (folder / "job.yaml").write_text(text)


@pytest.mark.parametrize("words", VERBS)
def test_a_job_file_that_links_to_itself_cannot_be_read(
    jobgen: Jobgen, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "job.yaml").symlink_to("job.yaml")
    answer = jobgen(*words, "job.yaml")
    assert answer.code == Exit.INVALID
    assert "job.yaml: cannot be read: Too many levels of symbolic links" in answer.err + answer.out


@pytest.mark.parametrize("words", VERBS[1:])
def test_a_workdir_that_links_to_itself_is_no_directory(
    jobgen: Jobgen, tmp_path: Path, words: list[str]
) -> None:
    write(tmp_path, f"{JOB}workdir: here\n")
    (tmp_path / "here").symlink_to("here")
    answer = jobgen(*words, "job.yaml")
    assert answer.code == Exit.INVALID
    assert "workdir 'here' is not a directory" in answer.err + answer.out


def test_folders_of_profiles_that_link_to_themselves_are_empty(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    write(tmp_path)
    (tmp_path / "clusters").symlink_to("clusters")
    (tmp_path / "templates").symlink_to("templates")
    assert jobgen("lint", "job.yaml", "-c", "local").code == Exit.DONE


def test_a_job_from_a_pipe_is_read_once(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    for words in VERBS[:3]:
        reader, writer = os.pipe()
        os.write(writer, f"{JOB}workdir: {tmp_path}\n".encode())
        os.close(writer)
        try:
            answer = jobgen(*words, f"/dev/fd/{reader}")
        finally:
            os.close(reader)
        assert answer.code == Exit.DONE, answer.err + answer.out


@pytest.mark.parametrize("words", VERBS[1:])
def test_a_configuration_that_is_a_pipe_is_not_waited_for(
    jobgen: Jobgen, tmp_path: Path, words: list[str]
) -> None:
    write(tmp_path, f"{JOB}launcher: {{type: accelerate, config: pipe.yaml}}\n")
    os.mkfifo(tmp_path / "pipe.yaml")
    answer = jobgen(*words, "job.yaml")
    assert answer.code == Exit.INVALID
    assert (
        "launcher.config 'pipe.yaml' cannot be read: not a regular file" in answer.err + answer.out
    )


PROGRAMS = {
    "groups": "groups: {train: {nodes: 1, run: train.py, KEY}}",
    "steps": "steps: [{name: one, run: train.py, KEY}]",
}


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("launcher: {type: accelerate, config: absent.yaml}", "launcher.config"),
        ("train: {model: absent.json, strategy: ddp}", "train.model"),
    ],
)
def test_a_missing_file_of_one_of_several_programs_is_named(
    jobgen: Jobgen, tmp_path: Path, kind: str, value: str, named: str
) -> None:
    parts = JOB.replace("run: train.py\n", f"{PROGRAMS[kind]}\n").replace("KEY", value)
    write(tmp_path, parts)
    answer = jobgen("lint", "job.yaml", "-c", "local")
    assert answer.code == Exit.INVALID, answer.err
    where = "groups.train" if kind == "groups" else "steps.0"
    assert f"{where}.{named} 'absent" in answer.err + answer.out


def test_a_secret_in_a_pipe_is_not_waited_for(jobgen: Jobgen, tmp_path: Path) -> None:
    home = home_of(tmp_path)
    os.mkfifo(home / "key")
    write(tmp_path, f"{JOB}secrets: {{KEY: {{file: ~/key}}}}\nworkdir: {{ignore: [home]}}\n")
    answer = jobgen("lint", "job.yaml", "-c", "local")
    assert answer.code == Exit.FAILED
    assert "J221" in answer.out


def test_lint_without_a_cluster_opens_no_run_database(jobgen: Jobgen, tmp_path: Path) -> None:
    state = home_of(tmp_path) / ".local" / "state" / "jobgen"
    state.mkdir(parents=True)
    (state / "ledger.sqlite3").write_bytes(b"damaged" * 1000)
    more = "after: [prepare]\ntrain: {strategy: fsdp2}\ncheckpoint: {grace: 1m}\n"
    write(tmp_path, f"{JOB}{more}")
    answer = jobgen("lint", "job.yaml")
    assert answer.code == Exit.DONE, answer.err
    assert "J257" in answer.out


def test_a_configuration_that_is_a_link_out_of_the_workdir_is_not_read(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    (home_of(tmp_path) / "key").write_text("a: secret-canary\n")
    (tmp_path / "acc.yaml").symlink_to(home_of(tmp_path) / "key")
    (tmp_path / ".jobgenignore").write_text("acc.yaml\n")
    write(tmp_path, f"{JOB}launcher: {{type: accelerate, config: acc.yaml}}\n")
    for words in (("plan",), ("render", "--file", "accelerate.yaml"), ("submit", "-y")):
        answer = jobgen(*words, "job.yaml", "-c", "local")
        assert answer.code == Exit.INVALID
        assert "outside the working directory" in answer.err + answer.out
        assert "secret-canary" not in answer.err + answer.out


@pytest.mark.parametrize("line", ["env: {FOO: bar: TOKEN}", "secrets: [TOKEN]", "# TOKEN\nfoo: 1"])
def test_no_message_shows_a_token_of_the_file(jobgen: Jobgen, tmp_path: Path, line: str) -> None:
    token = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZabcdefgh"
    write(tmp_path, f"{JOB}{line.replace('TOKEN', token)}\n")
    for words in (("lint",), ("plan", "-c", "local"), ("plan", "-c", "local", "--json")):
        answer = jobgen(*words, "job.yaml")
        assert answer.code == Exit.INVALID
        assert token not in answer.err + answer.out


def test_no_message_shows_a_token_of_the_command_line(jobgen: Jobgen, tmp_path: Path) -> None:
    token = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZabcdefgh"
    write(tmp_path, JOB)
    for setting in (f"{token}=1", f"={token}"):
        for more in ((), ("--json",)):
            answer = jobgen("plan", "job.yaml", "-c", "local", *more, "--set", setting)
            assert answer.code != Exit.DONE
            assert token not in answer.err + answer.out


@pytest.mark.parametrize("where", ["out/program.sh", "out"])
def test_nothing_is_written_through_a_link(jobgen: Jobgen, tmp_path: Path, where: str) -> None:
    """A repository may ship a link where a page or a bundle is to be written."""
    write(tmp_path, JOB)
    outside = home_of(tmp_path) / "rc"
    if where == "out":
        outside.mkdir()
    else:
        outside.write_text("mine")
        (tmp_path / "out").mkdir()
    (tmp_path / where).symlink_to(outside)
    answer = jobgen("render", "job.yaml", "-c", "local", "-o", "out")
    assert answer.code == Exit.USAGE
    assert "it is a symbolic link" in answer.err
    assert outside.is_dir() or outside.read_text() == "mine"
    assert not outside.is_dir() or not list(outside.iterdir())
