"""A job's environment, judged from what its Python reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobgen.survey.health import Verdict, judge_rows
from jobgen.survey.health.environment import ROWS, JobEnvironment, parse_report
from jobgen.survey.python_imports import ImportedModule

H100 = {"version": "2.9.0", "cuda": "12.8", "hip": "", "nccl": "2.27.5", "gpus": ["H100"]}
REPORT: dict[str, Any] = {
    "python": "3.11.7",
    "executable": "/venv/bin/python",
    "host": "n1",
    "launcher": {"name": "torchrun", "path": "/venv/bin/torchrun"},
    "modules": {"torch": True, "wandb": True},
    "torch": H100,
}
MODULES = (
    ImportedModule("torch", "train.py:1", required=True),
    ImportedModule("wandb", "train.py:9", required=False),
)
CASE = JobEnvironment(REPORT, "", 0, MODULES, "job.yaml:7", "torchrun", 1, log="jobgen logs d-1")


def judge(case: JobEnvironment) -> dict[str, Verdict]:
    return {f.id.partition(".")[2]: f.verdict for f in judge_rows("", ROWS, case)}


def reporting(**changes: Any) -> JobEnvironment:
    return CASE._replace(report={**REPORT, **changes})


def test_a_complete_environment_passes() -> None:
    verdicts = judge(CASE)
    assert {verdict.status for verdict in verdicts.values()} == {"ok"}
    assert verdicts["torch"].found == "torch 2.9.0, CUDA 12.8, NCCL 2.27.5"
    assert verdicts["modules"].found == "all imported modules found (2)"


def test_a_model_that_is_in_the_cache_passes() -> None:
    verdict = judge(reporting(model={"name": "a/b", "cache": "/hub", "found": True}))["model"]
    assert (verdict.status, verdict.found) == ("ok", "a/b is there")


FAILED = CASE._replace(report=None)
ABSENT = {"name": "a/b", "cache": "/hub", "found": False}
FAULTS = [
    (FAILED._replace(code=3, ending="no such file"), "setup", "failed", "exit code 3: no such"),
    (FAILED._replace(code=3), "setup", "failed", "log: jobgen logs d-1"),
    (FAILED._replace(code=127, ending="python: not found"), "setup", "failed", "no python on PATH"),
    (FAILED._replace(code=127, ending="foo: not found"), "setup", "failed", "exit code 127"),
    (FAILED._replace(code=None, ending="the job is TIMEOUT"), "setup", "failed", "TIMEOUT"),
    (reporting(torch=None), "torch", "failed", "not installed"),
    (reporting(torch={"error": "OSError: libcudart"}), "torch", "failed", "libcudart"),
    (reporting(torch={**H100, "cuda": "", "gpus": []}), "gpus", "failed", "a CPU build"),
    (reporting(torch={**H100, "gpus": [], "note": "driver"}), "gpus", "failed", "no GPU: driver"),
    (reporting(launcher={"name": "torchrun", "path": ""}), "launcher", "failed", "not on PATH"),
    (reporting(modules={"torch": False}), "modules", "failed", "not found: torch (train.py:1)"),
    (reporting(modules={"wandb": False}), "modules", "warning", "wandb (train.py:9)"),
    (
        reporting(modules={"torch": False, "wandb": False}),
        "modules",
        "failed",
        "torch (train.py:1); also not found: wandb",
    ),
    (reporting(model=ABSENT), "model", "warning", "a/b is not in the Hugging Face cache /hub"),
    (reporting(model=ABSENT)._replace(needs_model=True), "model", "failed", "hf download a/b"),
    (CASE._replace(readable=False), "modules", "unknown", "not in the workdir"),
]


@pytest.mark.parametrize(("case", "check", "status", "words"), FAULTS)
def test_a_fault_is_named(case: JobEnvironment, check: str, status: str, words: str) -> None:
    verdict = judge(case)[check]
    assert verdict.status == status
    assert words in f"{verdict.found} {verdict.fix}"
    if status != "unknown":
        assert verdict.code == "J439"
        ways = ("job.yaml:7", "log:", "nvidia-smi", "hf download")
        assert any(way in verdict.fix for way in ways)


def test_every_check_has_a_fault() -> None:
    assert {row.id.partition(".")[2] for row in ROWS} - {f[1] for f in FAULTS} == {"python"}


@pytest.mark.parametrize("launcher", ["", "mpirun"])
def test_a_program_without_torch_needs_none(launcher: str) -> None:
    case = reporting(torch=None)._replace(modules=MODULES[1:], launcher=launcher, gpus=0)
    assert "torch" not in judge(case)


def test_a_package_is_named_as_pip_knows_it() -> None:
    modules = (ImportedModule("sklearn", "train.py:2", required=True),)
    case = reporting(modules={"sklearn": False})._replace(modules=modules)
    assert judge(case)["modules"].fix.startswith("pip install scikit-learn ")


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"python": 3}', "x" * 9, "[" * 9999])
def test_another_text_is_no_report(text: str) -> None:
    assert parse_report(text) is None


def test_a_report_is_read() -> None:
    assert parse_report(json.dumps(REPORT)) == REPORT
