"""The files that the how-tos show are valid, render for their profile, and do what is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobgen.app.linting import lint
from jobgen.app.prepare import prepare
from jobgen.app.world import World
from jobgen.catalog import Catalog
from jobgen.render.template_values import list_values
from tests.docs.pages import NAMES, ROOT, taken, text
from tests.ports import reserved_port

FOLDER = ROOT / "examples" / "howto"
JOBS = sorted(path.name for path in FOLDER.glob("*.yaml"))
PROFILES = sorted(path.name for path in (FOLDER / "clusters").glob("*.yaml"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A person who stands in the repository, with an empty home."""
    return World(environ={}, cwd=ROOT, home=tmp_path)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_renders_for_the_profile_that_it_names(
    world: World, name: str, tmp_path: Path
) -> None:
    ready = prepare(world, FOLDER / name, None)
    for file in ready.bundle.files:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(file.content)
        if file.path.endswith((".sh", ".sbatch")):
            subprocess.run(["bash", "-n", file.path], cwd=tmp_path, check=True)
    assert ready.profile.value.name == ready.job.value.cluster


@pytest.mark.parametrize("name", PROFILES)
def test_a_job_renders_for_every_profile_of_the_how_tos(world: World, name: str) -> None:
    sets = ("nodes=1",) if name == "workstation.yaml" else ()
    ready = prepare(world, FOLDER / "torchrun.yaml", str(FOLDER / "clusters" / name), sets)
    assert ready.plan.cluster == name.removesuffix(".yaml")


def test_a_server_without_slurm_is_asked_for_no_gpus(world: World) -> None:
    ready = prepare(world, FOLDER / "workstation.yaml", None)
    assert ready.plan.shape.gpus_per_node == 4
    assert not {"gres", "gpus-per-node"} & {*ready.plan.directives}


LINTED = {
    "notify.yaml": {"J221"},
    "plan.yaml": {"J256"},  # only planned: its program does not read the strategy
    "secrets.yaml": {"J221"},  # secrets that nobody has set here
    "track.yaml": {"J221"},
    "train-3d.yaml": {"J220"},  # runs in a clone of Megatron-LM
}


def test_lint_finds_nothing_else_in_them(world: World) -> None:
    paths = [*(FOLDER / name for name in JOBS), *(FOLDER / "clusters" / n for n in PROFILES)]
    found = {
        Path(file.label).name: {p.code for p in file.problems if p.severity != "note"}
        for file in lint(world, paths)
    }
    assert {name: codes for name, codes in found.items() if codes} == LINTED


def test_every_file_is_shown_somewhere() -> None:
    shown = {Path(file).name for name in NAMES for file, _ in taken(name)}
    assert {*JOBS, *PROFILES, "train.py", "from-sbatch.sh"} <= shown | {"mine.yaml"}


def test_the_template_puts_rank_0_under_the_profiler(world: World, tmp_path: Path) -> None:
    ready = prepare(world, FOLDER / "override" / "job.yaml", None)
    assert [note.code for note in ready.plan.notes] == ["J240"]
    program = tmp_path / "program.sh"
    program.write_bytes(ready.bundle["program.sh"].content)
    for name, does in (("nsys", 'echo "nsys $1 $2"; exec "${@:3}"'), ("python", 'echo "runs $*"')):
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    for rank, said in (("0", "nsys profile --output=/l/rank0\nruns"), ("1", "runs")):
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RANK": rank, "JOBGEN_LOG_DIR": "/l"}
        words = ["bash", str(program)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        assert done.stdout == f"{said} -u train.py\n"


def test_the_page_on_templates_names_all_that_there_is(world: World) -> None:
    ready = prepare(world, FOLDER / "torchrun.yaml", None)
    rows = re.findall(r"^\| `(\w+[\w.]*\.j2)` .*\| (.*) \|$", text("docs/howto/templates.md"), re.M)
    templates = Catalog(()).read_templates("slurm")
    assert {name for name, _ in rows} == set(templates)
    seen = {name for _, names in rows for name in re.findall(r"`(\w+)`", names)}
    inner = {"lines", "once"}
    assert seen == {*list_values(ready.plan, standalone=False), *inner}
    for name, names in rows:
        # written out or looped over, and no attribute; inner names come from those that include it
        used = {w for w in seen if re.search(rf"{{[{{%][^}}]*(?<![.\w]){w}\b", templates[name])}
        assert used - inner == set(re.findall(r"`(\w+)`", names)) - inner, name


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as number:
        yield number


@pytest.mark.train
@pytest.mark.slow
def test_the_program_saves_when_asked_to_stop_and_goes_on(tmp_path: Path, port: int) -> None:
    stop, stopped, folder = tmp_path / "stop", tmp_path / "stopped", tmp_path / "checkpoints"
    env = {
        "PATH": os.environ["PATH"],
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "STEPS": "3",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "JOBGEN_CHECKPOINT_DIR": str(folder),
        "JOBGEN_STOP_FILE": str(stop),
        "JOBGEN_STOPPED_FILE": str(stopped),
    }

    def run() -> str:
        words = [sys.executable, str(FOLDER / "train.py")]
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    stop.touch()
    assert run() == "saved at step 0\n"
    assert stopped.exists()
    stop.unlink()
    assert run() == "saved at step 3\n"
