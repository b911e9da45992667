"""A run is submitted again as it was: code, job file, sets; what differs is named before."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app import jobs, provenance
from jobgen.app.prepare import prepare
from jobgen.app.reproducing import prepare_reproduction
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.errors import JobgenError, Missing
from jobgen.model.record import RunRecord
from tests.git import SETTINGS, git

PROGRAM = "bash show.sh"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, git gets the time that it needs."""
    monkeypatch.setattr(provenance, "_SECONDS", 300)


@pytest.fixture
def world(world: World) -> World:
    """Git of no settings; permissions are refused."""
    return replace(world, environ={**world.environ, **SETTINGS})


@pytest.fixture
def commit(world: World) -> str:
    """The home as a repository, with a program that prints what its folder holds."""
    source = world.cwd / "src"
    (source / "show.sh").write_text(
        "cat part.txt; ./run.sh; cat link 2>/dev/null; ls extra.txt 2>/dev/null; true\n"
    )
    (source / "part.txt").write_text("committed\n")
    (source / "run.sh").write_text("#!/bin/sh\necho executable\n")
    (source / "run.sh").chmod(0o755)
    (source / "old.txt").write_text("old\n")
    git(world.cwd, "init", "-q")
    git(world.cwd, "add", "src")
    git(world.cwd, "commit", "-qm", "one")
    return git(world.cwd, "rev-parse", "HEAD").strip()


def start(world: World, path: Path, *sets: str) -> RunRecord:
    ready = prepare(world, path, "here", sets)
    record = submit(world, ready, about={"file": str(path)})
    return jobs.wait(world, [record.alias])[0]


def read_output(record: RunRecord) -> str:
    return "".join(p.read_text() for p in Path(record.directory).glob("logs/0/0/rank0.out"))


def reproduce(world: World, record: RunRecord) -> tuple[RunRecord, tuple[str, ...]]:
    with prepare_reproduction(world, record.alias, None) as found:
        again = submit(world, found.ready, about={"file": str(found.job_file)})
        return jobs.wait(world, [again.alias])[0], found.differences


def test_the_run_directory_is_the_truth_for_code(
    world: World, commit: str, job: Callable[..., Path]
) -> None:
    path = job(PROGRAM)
    source = path.parent
    (source / "part.txt").write_text("changed\n")
    (source / "extra.txt").write_text("untracked\n")
    (source / "link").symlink_to("part.txt")
    first = start(world, path, "time=7m")
    assert read_output(first) == "changed\nexecutable\nchanged\nextra.txt\n"
    for name in ("part.txt", "run.sh", "job.yaml"):
        (source / name).write_text("something else\n")
    shutil.rmtree(world.cwd / ".git")
    with prepare_reproduction(world, first.alias, None) as found:
        assert (found.differences, found.code.source) == ((), "the run directory on here")
        assert found.own == (
            f"{source} is not used: job.yaml and 2 other files differ from the run"
        )
        assert found.ready.bundle.digest == first.digest
    second, _ = reproduce(world, first)
    assert read_output(second) == read_output(first)
    assert (second.digest, second.sets) == (first.digest, ("time=7m",))
    assert second.shape["git"] == first.shape["git"] == f"{commit}+"
    third, differences = reproduce(world, second)
    assert (read_output(third), differences) == (read_output(first), ())


def test_without_the_run_directory_the_commit_and_its_patch_are_used(
    world: World, commit: str, job: Callable[..., Path]
) -> None:
    path = job(PROGRAM)
    git(world.cwd, "add", "src/job.yaml")
    git(world.cwd, "commit", "-qm", "job")
    (path.parent / "part.txt").write_text("changed\n")
    (path.parent / "old.txt").unlink()
    first = start(world, path)
    git(world.cwd, "commit", "-qam", "later")
    (path.parent / "part.txt").write_text("later\n")
    Path(first.directory, "src/part.txt").write_text("written by the program\n")
    with prepare_reproduction(world, first.alias, None) as found:
        assert found.code.source.startswith("commit ")
        assert [*found.differences] == ["part.txt changed on here since the upload"]
        assert not (found.code.workdir / "old.txt").exists()
        assert (found.code.workdir / "run.sh").stat().st_mode & 0o100
    again, _ = reproduce(world, first)
    assert read_output(again).startswith("changed\nexecutable\n")
    assert (path.parent / "part.txt").read_text() == "later\n"


def test_code_that_only_the_run_directory_had_is_named(
    world: World, commit: str, job: Callable[..., Path]
) -> None:
    path = job(PROGRAM)
    (path.parent / "extra.txt").write_text("untracked\n")
    first = start(world, path)
    shutil.rmtree(Path(first.directory, "src"))
    with prepare_reproduction(world, first.alias, None) as found:
        gone, lost = found.differences
    assert gone.startswith("the run directory on here is not whole: ")
    assert lost == "missing code: src/extra.txt and 1 other file was not in git"


def test_a_commit_that_is_gone_is_an_error(
    world: World, commit: str, job: Callable[..., Path]
) -> None:
    first = start(world, job(PROGRAM))
    shutil.rmtree(Path(first.directory, "src"))
    shutil.rmtree(world.cwd / ".git")
    (world.cwd / "src/part.txt").write_text("another history\n")
    git(world.cwd, "init", "-q")
    git(world.cwd, "add", "src")
    git(world.cwd, "commit", "-qm", "other")
    with (
        pytest.raises(Missing, match=f"commit {commit[:12]} is not in"),
        prepare_reproduction(world, first.alias, None),
    ):
        pass


def test_no_program_of_the_repository_runs(
    world: World, commit: str, job: Callable[..., Path]
) -> None:
    first = start(world, job(PROGRAM))
    shutil.rmtree(Path(first.directory, "src"))
    ran = world.cwd / "ran"
    hook = world.cwd / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(world.cwd, "config", "filter.x.smudge", f"touch {ran}; cat")
    git(world.cwd, "config", "core.fsmonitor", f"touch {ran}")
    (world.cwd / ".git/info").mkdir(exist_ok=True)
    (world.cwd / ".git/info/attributes").write_text("* filter=x\n")
    with prepare_reproduction(world, first.alias, None) as found:
        assert (found.code.workdir / "part.txt").read_text() == "committed\n"
    assert not ran.exists()


def test_other_versions_profiles_and_packages_are_named(
    world: World, job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(world, job("python3 -c 'print(1)'"))
    monkeypatch.setattr("jobgen.app.reproducing.__version__", "9.9")
    profile = world.config / "clusters" / "here.yaml"
    profile.write_text(profile.read_text() + "defaults: {env: {LATER: '1'}}\n")
    (recorded,) = Path(first.directory).glob("state/0/environment.0")
    environment = json.loads(recorded.read_text())
    environment["packages"]["pytest"] = "0.1"
    recorded.write_text(json.dumps(environment))
    with prepare_reproduction(world, first.alias, None) as found:
        version, changed, scripts, *packages = found.differences
    assert version == "jobgen was 0.1.0, and is 9.9"
    assert changed.startswith("the profile here changed: ")
    assert scripts == "rendered files differ: job.sbatch, plan.json"
    if Path(environment["executable"]).resolve() == Path(shutil.which("python3") or "").resolve():
        assert all(text.startswith("packages changed: pytest 0.1 is ") for text in packages)


def test_an_image_file_that_was_replaced_is_named(
    world: World, job: Callable[..., Path], commit: str, tmp_path: Path
) -> None:
    first = start(world, job(PROGRAM))
    (recorded,) = Path(first.directory).glob("state/0/environment.0")
    image = tmp_path / "an image.sif"
    image.write_bytes(bytes(7))
    status = image.stat()
    environment = json.loads(recorded.read_text())
    environment["image"] = {"path": str(image), "size": 7, "time": status.st_mtime}
    recorded.write_text(json.dumps(environment))

    def name_differences() -> str:
        with prepare_reproduction(world, first.alias, None) as ready:
            return "; ".join(text for text in ready.differences if "image" in text)

    assert name_differences() == ""
    os.utime(image, (status.st_atime, status.st_mtime + 60))
    same = f"the image {image} was changed or replaced since; its size is the same"
    assert name_differences() == same
    image.write_bytes(bytes(8))
    assert name_differences() == f"the image {image} had 7 bytes, and has 8"
    image.unlink()
    assert name_differences() == f"the image {image} had 7 bytes, and is gone"


def test_a_changed_provenance_is_refused(world: World, job: Callable[..., Path]) -> None:
    first = start(world, job("true"))
    kept = Path(first.directory, "provenance/submission.json")
    kept.write_text(kept.read_text().replace("true", "touch /tmp/evil"))
    with (
        pytest.raises(JobgenError, match="was changed on here"),
        prepare_reproduction(world, first.alias, None),
    ):
        pass


def test_a_run_without_provenance_points_to_rerun(world: World, job: Callable[..., Path]) -> None:
    first = start(world, job("true"))
    shutil.rmtree(Path(first.directory, "provenance"))
    with (
        pytest.raises(Missing) as raised,
        prepare_reproduction(world, first.alias, None),
    ):
        pass
    assert raised.value.problems[0].hint.endswith(f"jobgen rerun {first.alias}")


@pytest.mark.parametrize("folder", ["code", "../shared/code"])
def test_the_job_file_finds_its_workdir(
    world: World, job: Callable[..., Path], folder: str
) -> None:
    path = job("cat part.txt", f"workdir: {folder}")
    (path.parent / folder).mkdir(parents=True)
    (path.parent / folder / "part.txt").write_text("found\n")
    first = start(replace(world, consent=lambda _: True), path)
    again, differences = reproduce(world, first)
    assert (read_output(again), differences) == ("found\n", ())


def test_a_secret_of_the_jobs_folder_is_read_there(world: World, job: Callable[..., Path]) -> None:
    path = job("echo $MINE", "workdir: {path: code}", "secrets: {MINE: {file: ./mine.txt}}")
    (path.parent / "code").mkdir()
    (path.parent / "mine.txt").write_text("canary\n")
    first = start(world, path)
    again, _ = reproduce(world, first)
    assert read_output(again) == read_output(first) == "canary\n"
