"""The screen of ``plan``: short for every job, the rest by name."""

from __future__ import annotations

import json
import re
import shutil
import shlex
from pathlib import Path

import pytest

from jobgen.cli import main
from jobgen.cli.layout import measure
from jobgen.cli.params import SECTIONS
from jobgen.cli.screens import plan_sections
from jobgen.cli.screens.plan_summary import HEIGHT
from jobgen.errors import Exit
from tests.cli.conftest import ROOT, Jobgen
from tests.golden.cases import CASES, CATALOG, HERE
from tests.products import one_of_each

EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
PROFILES = [file.name for file in CATALOG.list_clusters()]
KEPT = [case for case in CASES if not case.endswith("-2n")]
"""Golden cases that are more than the same job on one more profile."""
LLAMA = """\
name: llama
nodes: 1
time: 4h
run: train.py
train: {model: meta-llama/Llama-3.1-70B, strategy: fsdp2}
"""


def check_screen(text: str) -> None:
    """A default screen: 25 lines, 80 columns, one blank line at a time, the next command last."""
    lines = text.splitlines()
    assert len(lines) <= HEIGHT, text
    assert not [line for line in lines[:-1] if measure(line) > 80 and "jobgen " not in line], text
    assert "\n\n\n" not in text
    assert re.fullmatch(r"Next: jobgen (submit|plan|explain) .+", lines[-1]), text
    assert re.match(r"\S+ on \S+: ", lines[0])
    assert sum(line.startswith("Details ") for line in lines) == 1


@pytest.fixture
def here(jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch) -> Jobgen:
    """The program, called in the repository."""
    monkeypatch.chdir(ROOT)
    return jobgen


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_example_has_a_short_screen(here: Jobgen, path: Path) -> None:
    named = re.search("^cluster:", path.read_text(), re.MULTILINE)
    answer = here("plan", str(path.relative_to(ROOT)), *([] if named else ["-c", "a100x16"]))
    assert answer.out, answer.err
    check_screen(answer.out)


@pytest.mark.parametrize("case", one_of_each(CASES, KEPT))
def test_every_golden_case_has_a_short_screen(jobgen: Jobgen, case: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    for file in (HERE / case).iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path / "conf" / file.name)
            shutil.copy(file, tmp_path)
    for name in set(re.findall(r"[\w/]+\.py\b", (tmp_path / "job.yaml").read_text())):
        (tmp_path / name).touch()
    more = ["-c", "./cluster.yaml"] if (tmp_path / "cluster.yaml").exists() else []
    answer = jobgen("plan", "job.yaml", *more)
    assert answer.out, answer.err
    check_screen(answer.out)


@pytest.mark.parametrize("cluster", PROFILES)
def test_every_profile_has_a_short_screen_for_a_job_that_may_not_fit(
    jobgen: Jobgen, cluster: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text(LLAMA)
    answer = jobgen("plan", "job.yaml", "-c", cluster)
    assert answer.out, answer.err
    check_screen(answer.out)
    assert ("Memory per GPU" in answer.out) != ("not estimated" in answer.out)
