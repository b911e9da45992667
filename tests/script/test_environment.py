"""Whose value a rank sees: the site's scripts, then jobgen and the job, then the job's setup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobgen.resolve.apptainer import CONVERT
from jobgen.resolve.docker import _AMD, _NVIDIA
from jobgen.shell.simple_commands import read_script
from tests.load.test_jobs import problem
from tests.resolve.made import GPUS
from tests.script.job import Job

TELL = 'env -0 >"$JOBGEN_RUN_DIR/env.${RANK:-$JOBGEN_NODE_RANK}"\n'

HAZARDS = {
    "PLAIN": "value",
    "EMPTY": "",
    "BLANKS": "  two  blanks ",
    "SINGLE": "it's",
    "DOUBLE": 'say "x"',
    "DOLLAR": "$$HOME $$(id) `id`",
    "BACKSLASH": "a\\b\\\\n",
    "NEWLINE": "one\ntwo\n",
    "GLOB": "* ? [a] !x ~ #y",
    "EQUALS": "=mlx5_0,mlx5_1",
    "LETTERS": "ä€\t|&;<>(){}",
}
"""Values as job.yaml has them: $$ is a dollar."""

ROOT = Path(__file__).parents[2]
CHAIN = ("job.sbatch", "node.sh", "container.sh", "deepspeed_env.sh", "rank.sh")
"""The scripts that a variable passes through on its way to the program."""
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?=.*)?", re.DOTALL)


def list_assigned(text: str) -> set[str]:
    """The names that the commands of a script set for themselves, in its functions or outside."""
    script = read_script(text)
    names = set(script.loop_variables)
    for command in script.commands:
        names |= {word.text.partition("=")[0].rstrip("+") for word in command.assignments}
        words = [word.text for word in command.words]
        if words[:1] and words[0] in {"read", "mapfile", "export", "declare"}:
            names |= {match[1] for word in words[1:] if (match := _ASSIGNED.fullmatch(word))}
    return names


def find_names_of_scripts() -> list[str]:
    """The variables of the scripts; what is exported to the program is written in capitals."""
    files = [p for p in ROOT.glob("tests/golden/*/bundle/*") if p.name in CHAIN]
    names = set[str]().union(*(list_assigned(path.read_text()) for path in files))
    names |= list_assigned(f"{CONVERT}\n{_NVIDIA}\n{_AMD}")
    return sorted(name for name in names if name.islower() or name == "HOSTS")


def test_a_variable_of_the_scripts_is_no_name_for_one_of_the_users() -> None:
    """One test for all: their names are not read in every worker of the tests."""
    names = find_names_of_scripts()
    assert "HOSTS" in names
    for name in names:
        for lines in (f"env: {{{name}: x}}", f"secrets: [{name}]"):
            refused = problem(lines)
            assert (refused.code, "jobgen's scripts" in refused.message) == ("J126", True), lines


LAUNCHER = """#!/bin/bash
# torchrun, accelerate or deepspeed with one rank a node
while [[ $1 != bash ]]; do shift; done
export RANK=$SLURM_NODEID WORLD_SIZE=$SLURM_NNODES LOCAL_RANK=0
exec "$@"
"""
LAUNCHERS = ("srun", "plain", "torchrun", "accelerate", "deepspeed")
RUNTIME = """#!/bin/bash
# apptainer or docker: the environment comes along
while [[ $1 != img.sif ]]; do shift; done
exec "${@:2}"
"""

SITE = """
for name in HAZARDS NCCL_DEBUG NCCL_NET OMP_NUM_THREADS MASTER_ADDR MASTER_PORT; do
    export "$name=of the site"
done
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NCCL_OF_THE_SITE=kept PATH=/site/bin:$PATH
""".replace("HAZARDS", " ".join(HAZARDS))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A script such as a vendor's: it sets all that the job sets, and more."""
    path = tmp_path / "site.sh"
    path.write_text(SITE)
    return path


def made(folder: Path, cluster: str, **keys: str) -> Job:
    """A job of one GPU on each of two nodes, with stand-ins for launchers and containers."""
    job = Job.make(folder, TELL, cluster=cluster, gpus_per_node="1", **keys)
    for name in (*LAUNCHERS[2:], "apptainer", "docker"):
        file = job.folder / "fake" / name
        file.write_text(RUNTIME if name in {"apptainer", "docker"} else LAUNCHER)
        file.chmod(0o755)
    return job


def sourced(script: Path) -> str:
    """A cluster whose setup sources this script."""
    return GPUS + f"defaults: {{setup: 'source {script}'}}\n"


def environments(job: Job) -> Iterator[dict[str, str]]:
    done = job.run()
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        items = (job.folder / f"env.{rank}").read_bytes().decode().split("\0")
        yield dict(item.split("=", 1) for item in items if item)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_job_wins_over_the_sites_setup_under_every_launcher(
    tmp_path: Path, site: Path, launcher: str
) -> None:
    env = {**HAZARDS, "PATH": "/job/bin:$PATH", "OMP_NUM_THREADS": "3"}
    nccl = "{debug: INFO, env: {NCCL_NET: 'Own net'}}"
    job = made(tmp_path / "run", sourced(site), launcher=launcher, env=json.dumps(env), nccl=nccl)
    job.env["CUDA_VISIBLE_DEVICES"] = "4"
    for seen in environments(job):
        assert {name: seen[name] for name in HAZARDS} == {
            name: value.replace("$$", "$") for name, value in HAZARDS.items()
        }
        assert (seen["NCCL_DEBUG"], seen["NCCL_NET"]) == ("INFO", "Own net")
        assert [name for name, value in seen.items() if value == "of the site"] == []
        assert seen["MASTER_ADDR"] == "n1"
        assert seen["CUDA_VISIBLE_DEVICES"] == "4"
        assert seen["NCCL_OF_THE_SITE"] == "kept"
        first, *rest = seen["PATH"].split(":")
        assert first == "/job/bin"
        assert "/site/bin" in rest


@pytest.mark.parametrize("given", ["4,7", "GPU-1a2b", "", None])
def test_gpus_stay_those_that_slurm_gave(tmp_path: Path, site: Path, given: str | None) -> None:
    job = made(tmp_path / "run", sourced(site), launcher="srun")
    if given is not None:
        job.env["CUDA_VISIBLE_DEVICES"] = given
    assert [seen.get("CUDA_VISIBLE_DEVICES") for seen in environments(job)] == [given] * 2


@pytest.mark.parametrize("runtime", ["apptainer", "docker"])
def test_the_job_wins_over_the_sites_setup_outside_of_a_container(
    tmp_path: Path, site: Path, runtime: str
) -> None:
    container = f"{{image: img.sif, runtime: {runtime}}}"
    job = made(
        tmp_path / "run", sourced(site), launcher="srun", container=container, env="{PLAIN: job}"
    )
    job.env["CUDA_VISIBLE_DEVICES"] = "GPU-1a2b"
    for seen in environments(job):
        assert seen["PLAIN"] == "job"
        assert seen["NCCL_DEBUG"] == "WARN"


@pytest.mark.parametrize("container", ["", "{image: img.sif, runtime: apptainer}"])
@pytest.mark.parametrize(
    ("network", "script"),
    [
        ("tcpxo", "/var/lib/tcpxo/lib64/nccl-env-profile.sh"),
        ("gib", "/usr/local/gib/scripts/set_nccl_env.sh"),
    ],
)
def test_the_job_wins_over_a_vendors_script(
    tmp_path: Path, site: Path, network: str, script: str, container: str
) -> None:
    cluster = GPUS.replace("fabric: infiniband", f"fabric: {network}, socket_ifname: enp0s12")
    job = made(
        tmp_path / "run",
        cluster,
        launcher="torchrun",
        container=container,
        nccl="{debug: INFO}",
        env="{OMP_NUM_THREADS: 3, LD_LIBRARY_PATH: /job/lib}",
    )
    node = job.script.parent / "node.sh"
    text = node.read_text()
    assert script in text
    node.write_text(text.replace(script, str(site)))
    for seen in environments(job):
        assert (seen["NCCL_DEBUG"], seen["OMP_NUM_THREADS"]) == ("INFO", "3")
        assert seen["NCCL_NET"] == {"tcpxo": "FasTrak", "gib": "gIB"}[network]
        assert seen["NCCL_SOCKET_IFNAME"] == "enp0s12"
        assert seen["NCCL_OF_THE_SITE"] == "kept"
        assert "CUDA_VISIBLE_DEVICES" not in seen
        plug_in, job_lib = seen["LD_LIBRARY_PATH"].split(":")
        assert script.startswith(plug_in.removesuffix("/lib64"))
        assert job_lib == "/job/lib"


IMAGE = """#!/bin/bash
# what %environment of an image exports wins over what comes from outside
while [[ $1 != img.sif ]]; do shift; done
source "$FAKE_DIR/image.sh"
exec "${@:2}"
"""


def test_the_job_wins_over_what_an_image_of_apptainer_exports(tmp_path: Path, site: Path) -> None:
    env = {**HAZARDS, "OMP_NUM_THREADS": "3", "LD_LIBRARY_PATH": "/job/lib"}
    container = "{image: img.sif, runtime: apptainer}"
    job = made(
        tmp_path / "run", GPUS, launcher="torchrun", container=container, env=json.dumps(env)
    )
    (job.folder / "fake" / "apptainer").write_text(IMAGE)
    (job.folder / "image.sh").write_text(f"{SITE}export LD_LIBRARY_PATH=/.singularity.d/libs\n")
    job.env["CUDA_VISIBLE_DEVICES"] = "4"
    for seen in environments(job):
        assert {name: seen[name] for name in HAZARDS} == {
            name: value.replace("$$", "$") for name, value in HAZARDS.items()
        }
        assert (seen["NCCL_DEBUG"], seen["OMP_NUM_THREADS"]) == ("WARN", "3")
        assert seen["MASTER_ADDR"] == "n1"
        assert seen["CUDA_VISIBLE_DEVICES"] == "4"
        assert seen["NCCL_OF_THE_SITE"] == "kept"
        assert seen["PATH"].startswith("/site/bin:")
        assert seen["LD_LIBRARY_PATH"] == "/.singularity.d/libs"
        assert "JOBGEN_ENV" not in seen


def test_the_jobs_own_setup_has_the_last_word(tmp_path: Path, site: Path) -> None:
    setup = json.dumps(['export PLAIN="$PLAIN, $NCCL_OF_THE_SITE"', "export NCCL_DEBUG=TRACE"])
    job = made(tmp_path / "run", sourced(site), launcher="srun", env="{PLAIN: job}", setup=setup)
    for seen in environments(job):
        assert (seen["PLAIN"], seen["NCCL_DEBUG"]) == ("job, kept", "TRACE")


def test_a_script_that_locks_a_variable_of_the_job_ends_it(tmp_path: Path) -> None:
    site = tmp_path / "site.sh"
    site.write_text("readonly NCCL_DEBUG=VERSION\n")
    job = made(tmp_path / "run", sourced(site), launcher="srun")
    done = job.run()
    assert done.returncode != 0
    assert "NCCL_DEBUG: readonly variable" in done.stderr
    assert not (job.folder / "env.0").exists()
