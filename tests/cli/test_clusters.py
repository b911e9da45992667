"""`jobgen cluster ls` and `show`: what a stranger finds on them, and how they fit a screen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobgen.catalog import find_shipped
from tests.cli.conftest import Jobgen, home_of

SCREEN = 25
SHIPPED = sorted(path.stem for path in find_shipped("clusters").glob("*.yaml"))


def put(folder: Path, name: str, text: str = "") -> Path:
    """A profile of a folder: a shipped one with another number of nodes."""
    shipped = (find_shipped("clusters") / "a100x16.yaml").read_text("utf-8")
    path = folder / "clusters" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    renamed = shipped.replace("name: a100x16", f"name: {name}")
    path.write_text(text or renamed.replace("count: 2", "count: 7"))
    return path


def test_the_default_screen_is_short_and_says_how_to_see_the_rest(jobgen: Jobgen) -> None:
    said = jobgen("cluster", "ls").out
    assert len(said.splitlines()) <= SCREEN
    assert max(map(len, said.splitlines())) <= 80
    assert re.search(r"^  local +8 +none", said, re.M)
    counts = [int(number) for number in re.findall(r"\((\d+)\)", said)]
    assert sum(counts) == len(SHIPPED) - 1
    for command in re.findall(r"jobgen (cluster ls.*)", said):
        assert jobgen(*command.split()).code == 0


def test_all_profiles_are_listed_in_groups_on_demand(jobgen: Jobgen) -> None:
    said = jobgen("cluster", "ls", "--all").out
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    assert [name for name in SHIPPED if not re.search(rf"^  {name} ", said, re.M)] == []
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == ["This machine, with simulated nodes", "Cloud", "On-premises"]


@pytest.mark.parametrize(
    ("word", "inside", "outside"),
    [
        ("h100", {"dgx-h100", "aws-p5", "oci-h100"}, {"a100x16", "local", "dgx-h200"}),
        ("H100-SXM5-80GB", {"dgx-h100", "aws-p5"}, {"dgx-h200"}),
        ("google", {"gcp-a3-mega"}, {"aws-p5"}),
        ("efa", {"aws-p5"}, {"dgx-h100"}),
        ("azure h200", {"azure-nd-h200"}, {"azure-nd-h100", "dgx-h200"}),
    ],
)
def test_a_word_filters(jobgen: Jobgen, word: str, inside: set[str], outside: set[str]) -> None:
    names = {p["name"] for p in json.loads(jobgen("cluster", "ls", word, "--json").out)["data"]}
    assert inside <= names
    assert not outside & names


def test_a_word_without_a_match_gets_the_nearest(jobgen: Jobgen) -> None:
    said = jobgen("cluster", "ls", "a100x61")
    assert said.code == 7
    assert "no cluster profile matches 'a100x61'" in said.err
    assert "did you mean a100x16?" in said.err
    assert "= help: name a GPU, a provider" in jobgen("cluster", "ls", "qqqqqq").err


def test_a_profile_can_be_copied(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(jobgen("cluster", "show", "a100x16", "-q").out)
    assert jobgen("lint", "mine.yaml").code == 0
    assert "= help: to use the file mine.yaml: -c ./mine.yaml" in jobgen("doctor", "-c", "mine").err


def test_a_profile_of_a_second_clone_is_told_from_the_shipped_one(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    put(tmp_path, "a100x16")
    listed = jobgen("cluster", "ls").out
    assert "clusters/a100x16.yaml, replaces the shipped profile" in listed
    assert "instead of" not in listed
    assert "replaces the shipped profile" in jobgen("cluster", "show", "a100x16").out


def test_a_project_replaced_by_ones_own_is_named(jobgen: Jobgen, tmp_path: Path) -> None:
    put(tmp_path, "lab")
    put(home_of(tmp_path) / ".config/jobgen", "lab")
    said = " ".join(jobgen("cluster", "ls").out.split())
    assert "Yours lab 7 8 \u00d7 A100-SXM4 80 GB" in said
    assert "~/.config/jobgen/clusters/lab.yaml, replaces clusters/lab.yaml" in said


def test_a_broken_profile_does_not_hide_the_others(jobgen: Jobgen, tmp_path: Path) -> None:
    put(tmp_path, "lab", "name: lab\nnoodles: 3\n")
    said = jobgen("cluster", "ls")
    assert said.code == 0
    assert "has errors" in said.out
    assert "jobgen lint clusters/lab.yaml" in said.out
    assert jobgen("lint", "clusters/lab.yaml").code == 3


def test_many_profiles_of_ones_own_keep_the_screen_short(jobgen: Jobgen, tmp_path: Path) -> None:
    for number in range(20):
        put(tmp_path, f"lab{number:02}")
    said = jobgen("cluster", "ls").out
    assert re.search(r"^  local ", said, re.M)
    assert "13 more: jobgen cluster ls --all" in said
    assert all(f"lab{n:02}" in jobgen("cluster", "ls", "--all").out for n in range(20))


def test_show_is_a_screen_and_its_commands_work(jobgen: Jobgen) -> None:
    for name in SHIPPED:
        said = jobgen("cluster", "show", name).out
        assert len(said.splitlines()) <= SCREEN
        assert f"jobgen cluster show {name} -v" in said


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "job.yaml"),
        ("plan", "job.yaml", "-c", "h100"),
        ("submit", "job.yaml", "-c", "zzz"),
        ("render", "job.yaml", "-c", "aws"),
        ("cluster", "show", "nope"),
        ("cluster", "check", "nope"),
        ("cluster", "trust", "nope"),
        ("doctor", "-c", "dgx"),
        ("bench", "allreduce", "-c", "gcp"),
        ("plan", "job.yaml", "-c", "local", "--compare", "h100"),
        ("recover", "-c", "h100"),
    ],
    ids=" ".join,
)
def test_no_error_lists_all_profiles(
    jobgen: Jobgen, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\nnodes: 1\ntime: 1h\nrun: train.py\n")
    (tmp_path / "train.py").write_text("import torch\n")
    said = jobgen(*words)
    assert said.code != 0
    named = [name for name in SHIPPED if re.search(rf"(?<![\w-]){name}(?![\w-])", said.err)]
    assert len(named) <= 3
    assert "jobgen cluster ls" in " ".join(said.err.split())


def test_a_job_without_a_cluster_is_offered_this_machine_first(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\nnodes: 1\ntime: 1h\nrun: train.py\n")
    said = jobgen("plan", "job.yaml")
    assert "no cluster selected" in said.err
    assert "-c local: this machine" in said.err
