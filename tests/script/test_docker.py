"""Which GPUs docker is told to hand over: its daemon would give all of the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.resolve.made import GPUS
from tests.script.job import Job

TELL = 'env -0 >"$JOBGEN_RUN_DIR/env.$RANK"\n'
DOCKER = """#!/bin/bash
printf '%s\\0' "$@" >"$FAKE_DIR/argv.$SLURM_PROCID"
while [[ $1 != img ]]; do shift; done
exec "${@:2}"
"""
SMI = """#!/bin/bash
# indices count from 0 within what the job may open
printf '%s\\n' "$*" >>"$FAKE_DIR/smi"
[[ -z ${FAKE_SMI_FAILS:-} ]] || exit 9
[[ $1 == --query-gpu=uuid && $2 == --format=csv,noheader && $3 == -i ]] || exit 2
for gpu in ${4//,/ }; do echo "GPU-0000-$gpu"; done
"""
AMD = GPUS.replace("A100-SXM4-80GB", "MI300X-192GB")
KFD = "/sys/class/kfd/kfd/topology/nodes"


def made(folder: Path, *, gpus: int = 2, cluster: str = GPUS, launcher: str = "srun") -> Job:
    container = "{image: img, runtime: docker}"
    keys = {"launcher": launcher, "container": container, "gpus_per_node": str(gpus)}
    job = Job.make(folder, TELL, cluster=cluster, **keys)
    for name, text in (("docker", DOCKER), ("nvidia-smi", SMI)):
        (job.folder / "fake" / name).write_text(text)
        (job.folder / "fake" / name).chmod(0o755)
    return job


def argv(job: Job, rank: int = 0) -> list[str]:
    return (job.folder / f"argv.{rank}").read_text().split("\0")[:-1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("4,7", '"device=GPU-0000-4,GPU-0000-7"'),
        ("0", '"device=GPU-0000-0"'),
        ("GPU-1a2b,GPU-3c4d", '"device=GPU-1a2b,GPU-3c4d"'),
        ("MIG-1a2b", '"device=MIG-1a2b"'),
    ],
)
def test_on_part_of_a_node_docker_hands_over_the_gpus_that_slurm_gave(
    tmp_path: Path, given: str, named: str
) -> None:
    job = made(tmp_path / "run")
    job.env["CUDA_VISIBLE_DEVICES"] = given
    done = job.run()
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        words = argv(job, rank)
        # the quotes are docker's own: without them a comma ends the option's field
        assert [w for w in words if w.startswith("--gpus")] == [f"--gpus={named}"]
        # inside, the GPUs are numbered from 0: the node's numbers would name none of them
        assert "--env=CUDA_VISIBLE_DEVICES" not in words


def test_a_job_of_whole_nodes_takes_all_gpus(tmp_path: Path) -> None:
    job = made(tmp_path / "run", gpus=8, launcher="plain")
    done = job.run()
    assert done.returncode == 0, done.stderr
    words = argv(job)
    assert "--gpus=all" in words
    assert "--env=CUDA_VISIBLE_DEVICES" in words
    assert not (job.folder / "smi").exists()


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({}, "CUDA_VISIBLE_DEVICES is empty"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES is empty"),
        ({"CUDA_VISIBLE_DEVICES": "1,2", "FAKE_SMI_FAILS": "1"}, "nvidia-smi does not list"),
    ],
)
def test_where_the_gpus_are_not_known_the_job_ends_and_takes_none(
    tmp_path: Path, env: dict[str, str], why: str
) -> None:
    job = made(tmp_path / "run")
    job.env.update(env)
    done = job.run()
    assert done.returncode == 96
    assert why in done.stderr
    assert not list(job.folder.glob("argv.?*"))


def kfd(folder: Path, job: Job) -> None:
    """Two CPUs and twelve GPUs as the driver of AMD shows them; the job may not read two."""
    for node in range(14):
        (folder / str(node)).mkdir(parents=True)
        minor = 0 if node < 2 else 128 + 8 * (node - 2)
        text = f"cpu_cores_count {0 if minor else 48}\ndrm_render_minor {minor}\nname_size 0\n"
        (folder / str(node) / "properties").write_text(text)
    for forbidden in (2, 3):
        (folder / str(forbidden) / "properties").unlink()
        (folder / str(forbidden) / "properties").mkdir()
    script = job.script.parent / "container.sh"
    assert KFD in script.read_text()
    script.write_text(script.read_text().replace(KFD, str(folder)))


def test_on_part_of_a_node_docker_gets_the_render_nodes_of_amds_gpus(tmp_path: Path) -> None:
    job = made(tmp_path / "run", cluster=AMD)
    kfd(tmp_path / "kfd", job)
    job.env["ROCR_VISIBLE_DEVICES"] = "0,9"
    done = job.run()
    assert done.returncode == 0, done.stderr
    words = argv(job)
    devices = {w for w in words if w.startswith("--device=/dev/") and "infiniband" not in w}
    assert devices == {
        "--device=/dev/kfd",
        "--device=/dev/dri/renderD144",
        "--device=/dev/dri/renderD216",
    }
    assert not {"--env=ROCR_VISIBLE_DEVICES", "--env=CUDA_VISIBLE_DEVICES"} & {*words}


@pytest.mark.parametrize("given", ["", "GPU-12ab", "3,40"])
def test_amds_gpus_that_are_not_known_end_the_job(tmp_path: Path, given: str) -> None:
    job = made(tmp_path / "run", cluster=AMD)
    kfd(tmp_path / "kfd", job)
    job.env["ROCR_VISIBLE_DEVICES"] = given
    done = job.run()
    assert done.returncode == 96
    assert "ROCR_VISIBLE_DEVICES" in done.stderr
    assert not list(job.folder.glob("argv.?*"))
