"""Every srun of every rendered file: what no step of a job may leave to Slurm's defaults."""

from __future__ import annotations

import re

import pytest

from jobgen.model.launchers import LAUNCHERS
from tests.golden.cases import CASES, planned, rendered

every_case = pytest.mark.parametrize("case", CASES)

SRUN = re.compile(r"\bsrun (?=--)(?:\\\n|[^\n&)]|\n {4,}(?=[-$\"]))*")
"""A command over several lines, or a list of words over several lines."""


def sruns(case: str) -> dict[str, list[str]]:
    """The commands of each file of a case."""
    texts = {file.path: file.content.decode() for file in rendered(case).files}
    return {
        path: SRUN.findall(text)
        for path, text in texts.items()
        if path.endswith((".sh", ".sbatch"))
    }


def commands(case: str) -> list[str]:
    return [command for found in sruns(case).values() for command in found]


@every_case
def test_no_srun_ends_tasks_because_another_one_has_finished(case: str) -> None:
    """``--wait=60`` kills a rank 0 that writes the last checkpoint; a site's WaitTime does too."""
    for command in commands(case):
        assert re.findall(r"--wait=(\S+)", command) == ["0"], command


@every_case
def test_a_failed_task_ends_the_training_of_a_fixed_size_and_nothing_else(case: str) -> None:
    for file, found in sruns(case).items():
        for command in found:
            program = "node.sh" in command or "container.sh" in command
            fixed = program and planned(case).shape.min_nodes is None
            wanted = ["1" if fixed else "0"]
            assert re.findall(r"--kill-on-bad-exit=(\S+)", command) == wanted, file


def test_the_cases_start_programs_preflights_and_monitors_by_srun() -> None:
    files = {file for case in CASES for file, found in sruns(case).items() if found}
    launchers = {planned(case).launcher.value for case in CASES if sruns(case)["job.sbatch"]}
    assert files == {"job.sbatch", "element.sh", "preflight.sh", "components.sh"}
    assert launchers == {name for name, row in LAUNCHERS.items() if not row.starts_all_nodes}
    assert any("monitor.sh" in command for case in CASES for command in commands(case))
