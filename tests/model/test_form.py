"""Forms: frozen, and every fault at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobgen.model.cluster import ClusterProfile
from jobgen.model.form import Refusal
from jobgen.model.job import Checkpoint, JobSpec, Launcher, SecretRef
from jobgen.model.preparation import check_stage
from jobgen.model.units import Memory, Walltime


def job(**more: object) -> JobSpec:
    return JobSpec(**{"name": "demo", "run": "train.py", "nodes": 2, "time": "4h"} | more)


def test_defaults_are_those_of_the_reference() -> None:
    spec = job()
    assert spec.time == Walltime(14400)
    assert spec.gpus_per_node is None
    assert (spec.launcher.type, spec.launcher.rdzv, spec.launcher.ssh) == (None, "c10d", "none")
    assert (spec.workdir.path, spec.workdir.max_size) == (".", 500 * 1024**2)
    assert spec.checkpoint is None
    assert spec.nccl.debug == "WARN"


def test_what_can_be_written_in_two_ways_has_one_form() -> None:
    assert job(launcher="srun").launcher == Launcher(type="srun")
    assert job(launcher="none").launcher.type == "plain"
    assert job(container="a.sqsh").container == job(container={"image": "a.sqsh"}).container
    assert job(workdir="src").workdir.path == "src"
    assert job(setup="a\nb\n").setup == job(setup=["a", "b"]).setup == ("a", "b")
    assert job(mem="0").mem == Memory(None)
    assert job(outputs="a/**").outputs == ("a/**",)
    assert job(container={"image": "a", "mounts": ["/d"]}).container.mounts == ("/d:/d",)


@pytest.mark.parametrize(
    ("written", "mount"),
    [
        (".:/workspace", "$JOBGEN_WORK_DIR:/workspace"),
        (".", "$JOBGEN_WORK_DIR:$JOBGEN_WORK_DIR"),
        ("./conf:/conf:ro", "$JOBGEN_WORK_DIR/conf:/conf:ro"),
        ("$SCRATCH", "$SCRATCH:$SCRATCH"),
        ("$SCRATCH/a:$SCRATCH/b", "$SCRATCH/a:$SCRATCH/b"),
        ("~/data:/data", "$HOME/data:/data"),
    ],
)
def test_a_mount_may_begin_with_the_workdir_a_variable_or_the_home(
    written: str, mount: str
) -> None:
    assert job(container={"image": "a", "mounts": [written]}).container.mounts == (mount,)


@pytest.mark.parametrize(
    "written", ["data:/data", "../x:/x", "./../x:/x", "/d:data", ".x:/x", "~a:/a"]
)
def test_a_mount_has_no_other_relative_paths(written: str) -> None:
    with pytest.raises(Refusal):
        job(container={"image": "a", "mounts": [written]})
    spec = job(secrets=["A"]).secrets + job(secrets={"B": {"file": "b.txt"}, "C": None}).secrets
    assert spec == (
        SecretRef("A", "env", "A"),
        SecretRef("B", "file", "b.txt"),
        SecretRef("C", "env", "C"),
    )


def test_a_lone_ignore_file_is_not_a_pattern() -> None:
    assert job(workdir={"ignore": ".jobgenignore"}).workdir.ignore_file == ".jobgenignore"
    assert job(workdir={"ignore": "*.pt"}).workdir.ignore == ("*.pt",)
    assert job(workdir={"ignore": [".gitignore"]}).workdir.ignore == (".gitignore",)


def test_a_span_of_nodes_is_the_most_and_the_least() -> None:
    assert (job(nodes="2:4").nodes, job(nodes="2:4").min_nodes) == (4, 2)
    assert (job(nodes="4:4").nodes, job(nodes="4:4").min_nodes) == (4, None)


def test_site_options_stand_apart_from_sbatchs_own() -> None:
    spec = job(slurm={"qos": "high", "extra": ["--site=1"]})
    assert (dict(spec.slurm), spec.slurm_extra) == ({"qos": "high"}, ("--site=1",))


def test_every_fault_is_told_with_its_path() -> None:
    with pytest.raises(Refusal) as caught:
        job(name="a b", nodes=0, launcher={"type": "x", "y": 1}, env={"A B": 1, "C": [1]}, run=None)
    paths = {f.path for f in caught.value.faults}
    keys = {("name",), ("nodes",), ("run",)}
    assert paths - keys == {("launcher", "type"), ("launcher", "y"), ("env", "A B"), ("env", "C")}
    assert keys < paths


def test_a_key_may_have_any_name_and_is_only_unknown() -> None:
    for name in ("self", "cls", "data", "keys", "spread", "__class__", "__dict__"):
        with pytest.raises(Refusal) as caught:
            JobSpec.read({"name": "d", "run": "x", "nodes": 1, "time": "1h", name: 1})
        assert [f.code for f in caught.value.faults] == ["J102"]


def test_a_form_is_frozen_and_copies_with_changes() -> None:
    spec = job()
    with pytest.raises(AttributeError):
        spec.nodes = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del spec.nodes
    assert spec.replace(nodes=3).nodes == 3
    assert spec.replace() == spec
    with pytest.raises(Refusal):
        spec.replace(nodes=0)
    several = JobSpec.read({"name": "demo", "nodes": 1, "time": "1h", "steps": [{"run": "a.py"}]})
    assert several.replace() == several


def test_a_signal_is_named_without_its_prefix() -> None:
    assert Checkpoint(signal="SIGUSR2").signal == "USR2"
    with pytest.raises(Refusal):
        Checkpoint(signal="KILL")


def test_a_profile_says_facts() -> None:
    profile = ClusterProfile(
        name="c1",
        scheduler="slurm",
        paths={"root": "/scratch/$USER"},
        nodes={"count": 2, "gpus_per_node": 8, "gpu": "H100-SXM", "mem": "2TiB"},
        ssh="login",
        network="ib",
    )
    assert profile.nodes.gpu == "H100-SXM5-80GB"
    assert profile.ssh is not None
    assert (profile.ssh.host, profile.ssh.user, profile.ssh.port) == ("login", "", None)
    assert profile.network.fabric == "infiniband"
    assert profile.slurm_version is None


def test_loading_imports_nothing_heavy() -> None:
    code = "import sys, jobgen.load; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "jinja2", "paramiko", "rich", "difflib", "jobgen.data"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    "folder",
    ["/", "//", "/tmp", "/tmp/", "/./tmp", "/var/tmp", "/dev/shm", "/home/me", "$HOME", "$HOME/"],
)
def test_data_is_not_staged_among_the_files_of_other_programs(folder: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_stage({"/data/x.tar.gz": folder})
    assert "also holds files of other programs" in caught.value.faults[0].message


@pytest.mark.parametrize("folder", ["/tmp/$SLURM_JOB_ID", "$SLURM_TMPDIR", "/scratch/me/data"])
def test_data_is_staged_into_a_directory_of_the_jobs_own(folder: str) -> None:
    assert check_stage({"/data/x.tar.gz": folder})[0].folder == folder
