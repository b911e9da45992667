"""The GPUs of a profile of this machine, against what its driver and torch show."""

from __future__ import annotations

import pytest

from jobgen.survey.health import Answer, judge_rows
from jobgen.survey.health.local_gpus import ROWS, LocalGpus

LISTED = Answer(
    0,
    "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)\n"
    "GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-2)\n  MIG 1g.5gb Device 0: (UUID: MIG-3)\n",
)
WELL = LocalGpus(2, "RTX-4090", "ws.yaml:4", LISTED, Answer(0, "12.8\n"))


def judge(case: LocalGpus) -> dict[str, tuple[str, str]]:
    findings = judge_rows("here", ROWS, case)
    return {f.id: (f.verdict.status, f"{f.verdict.found}; {f.verdict.fix}") for f in findings}


def test_gpus_that_are_there_pass() -> None:
    verdicts = judge(WELL)
    assert verdicts["local.gpus"] == ("ok", "2 x NVIDIA GeForce RTX 4090; ")
    assert verdicts["local.build"] == ("ok", "torch is built for CUDA 12.8; ")


NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(127), "the profile has 2 x RTX-4090, but nvidia-smi is not installed"),
        (Answer(9, f"{NO_DRIVER}\n"), f"the profile has 2 x RTX-4090, but nvidia-smi: {NO_DRIVER}"),
        (Answer(6, "No devices were found\n"), "but nvidia-smi: No devices were found"),
        (Answer(124), "but nvidia-smi did not answer in time"),
        (Answer(0, "GPU 0: NVIDIA A2 (UUID: GPU-1)\n"), "but nvidia-smi lists 1 x NVIDIA A2"),
        (Answer(0), "but nvidia-smi lists no GPU"),
    ],
)
def test_gpus_that_are_not_there_are_a_warning(answer: Answer, words: str) -> None:
    status, text = judge(WELL._replace(listed=answer))["local.gpus"]
    assert status == "warning"
    assert words in text
    assert "ws.yaml:4" in text


def test_a_cpu_build_of_torch_is_a_warning_and_no_torch_is_said_elsewhere() -> None:
    status, text = judge(WELL._replace(build=Answer(0, "\n")))["local.build"]
    assert (status, "torch is a CPU build" in text) == ("warning", True)
    assert "local.build" not in judge(WELL._replace(build=Answer(1)))
