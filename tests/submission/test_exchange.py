"""What a run's record and directory hold before anything is sent."""

from __future__ import annotations

import json

import pytest

from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.record import Login, Site
from jobgen.submission.exchange import (
    describe_connection,
    list_run_files,
    make_record,
)
from tests.resolve.made import job, plan

SITE = Site("big", "slurm", Login("paramiko", "login.big"), "/scratch/jobgen")
TRAIN = "{model: gpt2, strategy: ddp, micro_batch: 8}"
BUNDLE = Bundle((BundleFile("job.sbatch", b"#!/bin/bash\n", 0o755),))


def test_a_record_keeps_the_estimate_of_its_plan() -> None:
    made = plan(job(train=TRAIN))
    assert made.estimate is not None
    assert make_record(made, "d", SITE).shape["expected"] == {
        "peak_allocated_bytes": round(made.estimate.allocated),
        "peak_reserved_bytes": round(made.estimate.reserved),
        "peak_nvidia_smi_bytes": round(made.estimate.total),
        "step_s": made.estimate.seconds,
        "tokens_per_step": made.estimate.tokens,
        "gpu": "A100-SXM4-80GB",
    }
    assert "expected" not in make_record(plan(), "d", SITE).shape


def test_the_run_directory_names_its_run() -> None:
    record = make_record(plan(), BUNDLE.digest, SITE, token="t" * 26, now=5.0, git="abc")
    files = {file.path: file for file in list_run_files(record, BUNDLE)}
    assert files["TOKEN"].content == b"t" * 26 + b"\n"
    about = json.loads(files["run.json"].content)
    assert (about["created"], about["digest"]) == (5.0, BUNDLE.digest)
    assert about["shape"]["git"] == "abc"
    assert files["bundle/job.sbatch"].mode == 0o755


@pytest.mark.parametrize(
    ("login", "text"),
    [
        (Login("local"), "this machine"),
        (Login("paramiko", "big"), "ssh big"),
        (Login("openssh", "big", "ann", 2222), "ssh -p 2222 ann@big"),
    ],
)
def test_a_connection_is_shown_as_an_ssh_command(login: Login, text: str) -> None:
    assert describe_connection(login) == text
