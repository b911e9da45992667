"""What measures and removes run directories, on real ones: nothing else is ever touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jobgen.shell import Command
from jobgen.submission import scripts, wire
from jobgen.transport import Payload
from jobgen.transport.this_machine import LocalTransport

TOKEN = "abcdefghijklmnopqrstuvwxyz"
IDLE = Command.of("true")
RUNS = ("sources", "logs", "scripts")


def make(root: Path, name: str = "run-abcdefgh") -> Path:
    """A run directory as it is after its job has ended."""
    folder = root / name
    for below in ("bundle", "src/data", "logs/0", "state/0/events", "submit"):
        (folder / below).mkdir(parents=True)
    (folder / "TOKEN").write_text(f"{TOKEN}\n")
    (folder / "run.json").write_text("{}")
    (folder / "bundle/job.sbatch").write_bytes(b"x" * 10)
    (folder / "src/train.py").write_bytes(b"x" * 100)
    (folder / "src/data/a.txt").write_bytes(b"x" * 1000)
    (folder / "src/link").symlink_to("train.py")
    settle(folder / "src/data/a.txt")
    (folder / "submit/attempt.1").symlink_to("host.1.2")
    settle(folder / "submit/attempt.1")
    (folder / "logs/0/r0.out").write_bytes(b"x" * 5)
    (folder / "src/data/out.csv").write_bytes(b"x" * 7)
    (folder / "src/checkpoints").mkdir()
    (folder / "src/checkpoints/last.pt").write_bytes(b"x" * 30)
    return folder


def settle(path: Path) -> None:
    """Go on only when the file system's clock has left the time of this file behind."""
    probe = path.with_name(".probe")
    while True:
        probe.touch()
        later = probe.stat().st_ctime_ns > path.lstat().st_ctime_ns
        probe.unlink()
        if later:
            return


def measure(*folders: Path) -> list[str]:
    text = "".join(f"{folder}\n" for folder in folders).encode()
    with LocalTransport() as transport:
        result = transport.call(scripts.measure(), Payload(len(text), [text]))
    rows = wire.index(wire.split_frames(result.out))["sizes"]
    return sorted(rows.split("\n")) if rows else []


def prune(
    folder: Path, *parts: str, token: str = TOKEN, question: Command = IDLE
) -> dict[str, str]:
    with LocalTransport() as transport:
        result = transport.call(scripts.prune([(str(folder), token)], question, parts))
    return wire.index(wire.split_frames(result.out))


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


OWN = {"TOKEN", "run.json"}
OUTPUTS = {"src/data/out.csv", "src/checkpoints/last.pt"}


def test_parts_are_measured_apart(tmp_path: Path) -> None:
    one, other = make(tmp_path), make(tmp_path / "a b", "x-abcdefgh")
    (other / "logs/0/r0.out").write_bytes(b"x" * 6)
    assert measure(one, other, tmp_path / "gone") == [
        f"1100 5 37 10 {one}",
        f"1100 6 37 10 {other}",
    ]


@pytest.mark.parametrize("count", [3000])
def test_thousands_of_runs_are_measured_at_once(tmp_path: Path, count: int) -> None:
    folders = [tmp_path / f"run-{number:08}" for number in range(count)]
    for folder in folders:
        (folder / "logs").mkdir(parents=True)
        (folder / "logs/a").write_bytes(b"xy")
    assert len(measure(*folders)) == count


def test_what_the_program_wrote_stays(tmp_path: Path) -> None:
    folder = make(tmp_path)
    reply = prune(folder, *RUNS)
    assert (reply["said"], reply["gone"]) == ("", "no")
    assert files(folder) == OWN | OUTPUTS
    assert measure(folder) == [f"0 0 37 0 {folder}"]


def test_a_second_time_it_stays_too(tmp_path: Path) -> None:
    folder = make(tmp_path)
    for _ in range(2):
        prune(folder, *RUNS)
    assert files(folder) == OWN | OUTPUTS


def test_only_sources_or_only_logs_are_removed(tmp_path: Path) -> None:
    folder = make(tmp_path)
    before = files(folder)
    prune(folder, "logs")
    assert before - files(folder) == {"logs/0/r0.out"}
    prune(folder, "sources")
    gone = {"logs/0/r0.out", "src/train.py", "src/link", "src/data/a.txt"}
    assert before - files(folder) == gone


def test_with_its_outputs_the_directory_goes(tmp_path: Path) -> None:
    folder = make(tmp_path)
    reply = prune(folder, "sources", "logs", "outputs", "scripts")
    assert (reply["said"], reply["gone"]) == ("", "yes")
    assert not folder.exists()


def test_outputs_of_a_pruned_run_go_on_request(tmp_path: Path) -> None:
    folder = make(tmp_path)
    prune(folder, *RUNS)
    prune(folder, "sources", "logs", "outputs", "scripts")
    assert not folder.exists()


@pytest.mark.parametrize("where", ["src", "logs", "state", "bundle"])
def test_no_link_is_followed(tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep/precious").write_text("x")
    folder = make(tmp_path)
    (folder / where / "dir").symlink_to(outside)
    (folder / where / "file").symlink_to(outside / "deep/precious")
    prune(folder, "sources", "logs", "outputs", "scripts")
    assert (outside / "deep/precious").exists()
    again = make(tmp_path, "again-abcdefgh")
    shutil.rmtree(again / where)
    (again / where).symlink_to(outside)
    prune(again, "sources", "logs", "outputs", "scripts")
    assert (outside / "deep/precious").exists()


def test_a_run_directory_that_is_a_link_is_passed_over(tmp_path: Path) -> None:
    folder = make(tmp_path)
    link = tmp_path / "link-abcdefgh"
    link.symlink_to(folder)
    before = files(folder)
    assert "missing" in prune(link, "sources", "logs", "outputs", "scripts")
    assert files(folder) == before
    assert measure(link) == []


def test_the_directory_of_another_token_is_passed_over(tmp_path: Path) -> None:
    folder = make(tmp_path)
    before = files(folder)
    assert "missing" in prune(folder, *RUNS, token="b" * 26)
    assert files(folder) == before
    (folder / "TOKEN").unlink()
    assert "missing" in prune(folder, *RUNS)


@pytest.mark.parametrize(
    "state", ["PENDING", "RUNNING", "SUSPENDED", "REQUEUE_HOLD", "CONFIGURING", "NEW"]
)
def test_what_the_scheduler_lists_is_live(tmp_path: Path, state: str) -> None:
    folder = make(tmp_path)
    before = files(folder)
    mark = scripts.format_mark(TOKEN)
    for row in (f"{state}|/elsewhere|jobgen:{mark}:1", f"{state}|{folder}|"):
        assert "live" in prune(folder, *RUNS, question=Command.of("echo", row))
    assert files(folder) == before


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY"])
def test_what_it_lists_as_ended_is_not(tmp_path: Path, state: str) -> None:
    folder = make(tmp_path)
    row = f"{state}|{folder}|jobgen:{scripts.format_mark(TOKEN)}:1"
    assert "gone" in prune(folder, *RUNS, question=Command.of("echo", row))
    assert files(folder) == OWN | OUTPUTS


def test_without_an_answer_nothing_is_removed(tmp_path: Path) -> None:
    folder = make(tmp_path)
    before = files(folder)
    reply = prune(folder, *RUNS, question=Command.of("sh", "-c", "echo no controller >&2; exit 1"))
    assert reply == {"failed": "no controller"}
    assert files(folder) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_cannot_be_removed_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "logs/0").chmod(0o500)
    reply = prune(folder, "logs")
    (folder / "logs/0").chmod(0o700)
    assert "r0.out" in reply["said"]
