"""Variables on the command line: explained, and judged in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Jobgen

JOB = "name: x\nrun: train.py\nnodes: 2\ntime: 1h\nenv: {NCCL_IB_DISABLE: 1}\n"
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nexport NCCL_TIMEOUT=1 NCCL_SOCKET_IFNAME=lo\n"


def test_a_variable_is_explained(jobgen: Jobgen) -> None:
    said = jobgen("explain", "NCCL_IB_HCA")
    assert said.code == 0
    assert "mlx5_10" in said.out
    (row,) = json.loads(jobgen("explain", "NCCL_IB_HCA", "--json").out)["data"]
    assert row["kind"] == "variable"
    assert row["name"] == "NCCL_IB_HCA"
    assert row["source"]


def test_hearsay_is_explained(jobgen: Jobgen) -> None:
    said = jobgen("explain", "NCCL_TIMEOUT")
    assert said.code == 0
    assert "Nothing reads NCCL_TIMEOUT" in said.out
    assert "init_process_group(timeout=...)" in said.out


def test_a_name_that_pytorch_had_is_not_called_unread(jobgen: Jobgen) -> None:
    """PyTorch still follows its old names, with a warning."""
    said = jobgen("explain", "NCCL_BLOCKING_WAIT")
    assert "renamed in 2.2" in said.out
    assert "TORCH_NCCL_BLOCKING_WAIT" in said.out
    assert "Nothing reads" not in said.out
    assert "absent" not in said.out


def test_an_unknown_variable_has_the_nearest_one(jobgen: Jobgen) -> None:
    said = jobgen("explain", "NCCL_IB_HKA")
    assert said.code == 7
    assert "did you mean NCCL_IB_HCA?" in said.err


def test_a_plain_script_is_linted(jobgen: Jobgen, tmp_path: Path) -> None:
    path = tmp_path / "old.sbatch"
    path.write_text(SCRIPT)
    said = jobgen("lint", str(path), "--json")
    assert said.code == 3
    answer = json.loads(said.out)["data"]
    assert [f["kind"] for f in answer["files"]] == ["script"]
    assert [(d["code"], d["line"], d["col"]) for d in answer["diagnostics"]] == [
        ("J304", 3, 8),
        ("J316", 3, 23),
    ]


@pytest.mark.parametrize("how", ["named", "beside"])
def test_the_cluster_is_known_by_name_or_beside_the_job(
    jobgen: Jobgen, tmp_path: Path, how: str
) -> None:
    job, cluster = tmp_path / "job.yaml", tmp_path / "cluster.yaml"
    job.write_text(JOB)
    (tmp_path / "train.py").touch()
    cluster.write_text((Path(__file__).parents[2] / "clusters" / "a100x16.yaml").read_text())
    more = ["-c", "a100x16"] if how == "named" else [str(cluster)]
    alone = jobgen("lint", str(job), "--json")
    there = jobgen("lint", str(job), *more, "--json")
    assert {d["code"] for d in json.loads(alone.out)["data"]["diagnostics"]} == {"J315"}
    # the check of -c knows what jobgen sets beside it
    codes = {"J259", "J316", "J317"} if how == "named" else {"J316"}
    assert {d["code"] for d in json.loads(there.out)["data"]["diagnostics"]} == codes


def test_a_job_is_judged_on_the_cluster_that_it_names(jobgen: Jobgen, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    (tmp_path / "train.py").touch()
    for cluster, codes in (
        ("dgx-h100   # as a note", {"J259", "J316", "J317"}),
        ("nowhere", {"J315", "J182"}),
    ):
        job.write_text(JOB + f"cluster: {cluster}\n")
        said = jobgen("lint", str(job), "--json")
        assert {d["code"] for d in json.loads(said.out)["data"]["diagnostics"]} == codes
