"""Completion in the real shells: what a person sees after pressing Tab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import ROOT, home_of, process
from tests.terminals import spawn_on_terminal
from tests.waiting import HANG

JOB = "name: done\nnodes: 2\nprocs_per_node: 1\ntime: 1h\nlauncher: plain\nrun: echo hello\n"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose ``jobgen`` is this one, with an empty home."""
    folder = home_of(tmp_path) / "bin"
    folder.mkdir(parents=True)
    program = folder / "jobgen"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobgen "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(home_of(tmp_path)),
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
    }


def complete_fish(line: str, cwd: Path, environ: dict[str, str]) -> dict[str, str]:
    """Word → description, as fish offers them for this line."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = f"jobgen completion fish | source; complete --do-complete '{line}'"
    words = ["fish", "--no-config", "-c", script]
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=HANG)
    assert done.stderr == ""
    return dict(row.partition("\t")[::2] for row in done.stdout.split("\n") if row)


def complete_bash(line: str, cwd: Path, environ: dict[str, str]) -> list[str]:
    """The words that bash offers for this line."""
    script = (
        'eval "$(jobgen completion bash)"; COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("")\n'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }\n"
        '_jobgen_completion jobgen; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    words = ["bash", "--norc", "-c", script, "bash", line]
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=HANG)
    assert done.stderr == ""
    return done.stdout.split()


def test_fish_shows_whole_descriptions(tmp_path: Path, environ: dict[str, str]) -> None:
    offered = complete_fish("jobgen ", tmp_path, environ)
    assert offered["wait"] == "Wait for jobs to end; exit with their result"
    assert offered["lint"] == "Check job, cluster and sbatch files, offline"
    options = complete_fish("jobgen plan --color", tmp_path, environ)
    assert options == {"--color": "Use colours; auto respects NO_COLOR"}
    assert complete_fish("jobgen explain J13", tmp_path, environ)["J131"]


@pytest.fixture
def zsh(tmp_path: Path, environ: dict[str, str]) -> Iterator[pexpect.spawn]:
    """An interactive zsh that has read the line for ~/.zshrc, and nothing else."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    rc = home_of(tmp_path) / ".zshrc"
    rc.write_text("PS1='ready> '\nLISTMAX=0\n" + 'eval "$(jobgen completion zsh)"\n')
    child = spawn_on_terminal(
        *("zsh", ["-i"]), cwd=str(tmp_path), env=environ, dimensions=(60, 120), timeout=HANG
    )
    yield child
    child.close(force=True)


def test_zsh_completes_without_compinit_in_the_zshrc(zsh: pexpect.spawn) -> None:
    zsh.expect(b"ready> ")
    assert b"compdef" not in zsh.before
    zsh.send(b"jobgen exp\t")
    zsh.expect(rb"lain")
    zsh.send(b"J131\t")
    zsh.sendcontrol("u")
    zsh.send(b"jobgen w\t")
    zsh.expect(rb"ait")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("jobgen su", "submit"),
        ("jobgen ls --state RUN", "RUNNING"),
        ("jobgen ls --state fai", "failed"),
        ("jobgen explain J131", "J131"),
        ("jobgen explain train.micro_b", "train.micro_batch"),
        ("jobgen explain NCCL_IB_HC", "NCCL_IB_HCA"),
        ("jobgen help pl", "plan"),
        ("jobgen help cluster ad", "add"),
        ("jobgen plan -c a100x", "a100x16"),
        ("jobgen cluster show a100x", "a100x16"),
    ],
)
def test_bash_completes_words(
    line: str, word: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    assert word in complete_bash(line, tmp_path, environ)


@pytest.mark.parametrize("line", ["jobgen nonsense ", "jobgen status x", "jobgen help nonsense "])
def test_an_unknown_command_completes_to_nothing(
    line: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    assert complete_bash(line, tmp_path, environ) == []


def test_the_nodes_of_a_job_complete(tmp_path: Path, environ: dict[str, str]) -> None:
    assert complete_bash("jobgen logs gone-1 --node ", tmp_path, environ) == []
    (tmp_path / "job.yaml").write_text(JOB)
    done = process("submit", "job.yaml", "-c", "local", "--wait", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for job in ("done-1", "@last"):
        nodes = complete_bash(f"jobgen logs {job} --node lo", tmp_path, environ)
        assert nodes == ["local1", "local2"]
