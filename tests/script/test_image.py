"""An image from a registry is converted once a job, and not by every rank."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from jobgen.model.origin import read_image
from tests.script.job import Job

APPTAINER = """#!/bin/bash
# apptainer exec [OPTION...] IMAGE WORD...; the first call converts the image, which takes a while
while [[ $1 != docker://* && $1 != *.sif ]]; do shift; done
if [[ $2 == true ]]; then
    echo "$SLURM_PROCID" >>"$FAKE_DIR/conversions"
    sleep 0.5
    [[ -z ${FAKE_NO_IMAGE:-} ]] || exit 255
    touch "$FAKE_DIR/converted"
    exit
fi
[[ $1 == *.sif || -e $FAKE_DIR/converted ]] || touch "$FAKE_DIR/converted.twice"
exec "${@:2}"
"""


def made(folder: Path, image: str, **keys: str) -> Job:
    container = f"{{image: '{image}', runtime: apptainer}}"
    ran = 'touch "$JOBGEN_RUN_DIR/ran.$RANK"\n'
    job = Job.make(folder, ran, container=container, procs_per_node="2", **keys)
    (job.folder / "fake" / "apptainer").write_text(APPTAINER)
    (job.folder / "fake" / "apptainer").chmod(0o755)
    return job


@pytest.mark.parametrize("image", ["ghcr.io/a/b:1", "docker://ghcr.io/a/b:1"])
def test_one_rank_converts_the_image_and_the_others_wait(tmp_path: Path, image: str) -> None:
    job = made(tmp_path / "run", image)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert len((job.folder / "conversions").read_text().split()) == 1
    assert not (job.folder / "converted.twice").exists()
    assert len(list(job.folder.glob("ran.*"))) == 4


PARTS = {
    "steps": "[{name: a, run: ./program}, {name: b, run: ./program, nodes: 1}]",
    "groups": "{a: {nodes: 1, run: ./program}, b: {nodes: 1, run: ./program}}",
}


@pytest.mark.parametrize("parts", PARTS)
def test_one_rank_converts_the_image_for_all_parts_of_a_job(tmp_path: Path, parts: str) -> None:
    job = made(tmp_path / "run", "ghcr.io/a/b:1", run="", **{parts: PARTS[parts]})
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert len((job.folder / "conversions").read_text().split()) == 1
    assert not (job.folder / "converted.twice").exists()


def test_each_image_is_converted_once(tmp_path: Path) -> None:
    own = PARTS["groups"].replace("./program}}", "./program, container: 'c/d:1'}}")
    job = made(tmp_path / "run", "ghcr.io/a/b:1", run="", groups=own)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert len((job.folder / "conversions").read_text().split()) == 2


DOCKER = """#!/bin/bash
# docker image inspect … IMAGE: only the image that ran on this node; docker run … IMAGE WORD...
if [[ $1 == image ]]; then
    [[ -e $FAKE_DIR/ran.$SLURMD_NODENAME.${!#} ]] || exit 1
    echo "id sha256:$SLURMD_NODENAME"
    exit
fi
while [[ $1 != [ab]:1 ]]; do shift; done
touch "$FAKE_DIR/ran.$SLURMD_NODENAME.$1"
exec "${@:2}"
"""


def test_docker_is_asked_by_each_group_which_image_it_runs(tmp_path: Path) -> None:
    records = 'compgen -G "$JOBGEN_STATE_DIR/image_digest.*.0"'
    # the stand-in of scontrol lets the second group start when the first has ended
    waits = f"until (($({records} | wc -l) >= ${{COUNT:-1}})); do sleep 0.1; done\n"
    second = "{nodes: 1, run: ./program, container: 'b:1', env: {COUNT: 2}}"
    groups = f"{{a: {{nodes: 1, run: ./program}}, b: {second}}}"
    container = "{image: 'a:1', runtime: docker}"
    job = Job.make(tmp_path / "run", waits, container=container, run="", groups=groups)
    (job.folder / "fake" / "docker").write_text(DOCKER)
    (job.folder / "fake" / "docker").chmod(0o755)
    done = job.run()
    assert done.returncode == 0, done.stderr
    images = [read_image(path.read_text()) for path in job.state("").glob("image_digest.*.0")]
    assert {(image.name, *image.ids) for image in images if image} == {
        ("a:1", "sha256:n1"),
        ("b:1", "sha256:n1"),
    }
    assert "image_digest.sh" not in job.script.read_text()


def test_a_file_needs_no_conversion(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "/shared/img.sif")
    assert job.run().returncode == 0
    assert not (job.folder / "conversions").exists()


def test_an_image_that_is_not_there_ends_the_job_with_the_reason(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "ghcr.io/a/b:1")
    job.env["FAKE_NO_IMAGE"] = "1"
    done = job.run()
    assert done.returncode == 96
    assert ": apptainer cannot convert docker://ghcr.io/a/b:1\n" in done.stderr
    assert len((job.folder / "conversions").read_text().split()) == 1
    assert not list(job.folder.glob("ran.*"))


def test_a_result_that_cannot_be_written_ends_the_job_instead_of_waiting(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "ghcr.io/a/b:1")
    digest = hashlib.sha256(b"docker://ghcr.io/a/b:1").hexdigest()[:8]
    marker = job.state(f"image.0.{digest}")
    marker.parent.mkdir(parents=True)
    marker.symlink_to("/dev/full")
    done = job.run()
    assert done.returncode == 96
    assert ": cannot write" in done.stderr
    assert not list(job.folder.glob("ran.*"))


def test_a_job_that_starts_again_does_not_trust_its_last_start(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "ghcr.io/a/b:1", checkpoint="{grace: 2s, requeue: true}")
    job.env["FAKE_NO_IMAGE"] = "1"
    assert job.run().returncode == 96
    job.state("exit.0").unlink()
    del job.env["FAKE_NO_IMAGE"]
    assert job.run(restart=1).returncode == 0
