"""A host that cannot start a process, or whose tools fail, never passes for one without output."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobgen.errors import JobgenError, Unreachable
from jobgen.model.record import Login
from jobgen.shell import Result
from jobgen.transport import Payload, Transport, connect
from jobgen.transport.files import read_at, read_tail
from jobgen.transport.pipes import PipeChannel
from jobgen.transport.protocol import BOOTSTRAP, Session

FILES = {f"0/0/n{rank // 2}.{rank}.out": b"rank %d\n" % rank * 400 for rank in range(4)}
LIMITS = range(1, 12)
"""So many processes an account may have; the last are enough for each of our scripts."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes an account of its own")


@pytest.fixture
def logs() -> Iterator[Path]:
    """A directory of logs that every account may read; pytest's own folders are private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for path, data in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        yield folder


def confined(processes: int) -> Session:
    """A session under an account that nobody else uses and that may have so many processes."""
    account = str(1_000_000 + os.getpid() * 100 + processes)
    become = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups"]
    words = [*become, "prlimit", f"--nproc={processes}", "/bin/sh", "-c", BOOTSTRAP]
    return Session(PipeChannel(words, own_session=True), "here")


def outcomes(ask: Callable[[Transport], object]) -> list[object]:
    """What ``ask`` gives under each limit; the error's kind where it fails."""
    found: list[object] = []
    for processes in LIMITS:
        with confined(processes) as transport:
            try:
                found.append(ask(transport))
            except JobgenError as error:
                found.append(type(error))
    return found


@as_root
def test_a_script_runs_whole_or_fails() -> None:
    found = outcomes(lambda transport: transport.call("echo one; echo two | cat", deadline=60))
    good = [each for each in found if isinstance(each, Result) and each.code == 0]
    assert [each.out for each in good] == [b"one\ntwo\n"] * len(good)
    assert found[0] is Unreachable
    assert found[-1] == Result(0, b"one\ntwo\n")


@as_root
def test_logs_come_whole_or_not_at_all_where_no_process_is_left(logs: Path) -> None:
    found = outcomes(lambda transport: read(transport, logs))
    assert [each for each in found if each not in (FILES, "unread", Unreachable)] == []
    assert found[0] is Unreachable
    assert found[-1] == FILES


def read(transport: Transport, logs: Path) -> dict[str, bytes] | str:
    """The files as one look shows them; ``unread`` where it says that something is missing."""
    known = {"0/0/n7.14.out": 1, "0/0/n7.15.out": 2}
    seen = read_tail(transport, str(logs), known)
    return "unread" if seen.unread else {chunk.path: chunk.data for chunk in seen.chunks}


FAILURES = {
    "fails": "exit 1",
    "killed": "kill -9 $$",
    "cut": '"$real" "$@" | head -c 20; exit 1',
    "cut in silence": '"$real" "$@" | head -c 20',
}


@pytest.fixture
def break_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Transport]:
    """Connects to this machine, where a tool fails if its words match a pattern of ``case``."""

    def connected(tool: str, failure: str, words: str = "*") -> Transport:
        folder = tmp_path / "bin"
        folder.mkdir()
        passed = f'case $* in {words}) ;; *) exec "$real" "$@" ;; esac'
        lines = ["#!/bin/sh", f"real={shutil.which(tool)}", passed, FAILURES[failure], ""]
        (folder / tool).write_text("\n".join(lines))
        (folder / tool).chmod(0o755)
        if tool == "dd":  # it reads the pieces where there is no perl
            (folder / "perl").symlink_to("/bin/false")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return connect(Login("local"))

    return connected


READS = {"dd": "if=*", "perl": "*sysread*"}
"""The words by which they read a file; dd reads requests too, and perl is tried before."""
SILENT = [(tool, failure) for tool in ("awk", "dd", "perl", "cat") for failure in FAILURES]
LOUD = [(tool, failure) for tool in ("find", "stat") for failure in ("fails", "killed", "cut")]
"""The two write a line a file: one that is missing is missed only by the exit code."""


@pytest.mark.parametrize(("tool", "failure"), [*SILENT, *LOUD])
def test_a_tool_that_fails_is_reported(
    break_tool: Callable[..., Transport], tool: str, failure: str, logs: Path
) -> None:
    with break_tool(tool, failure, READS.get(tool, "*")) as transport:
        assert read(transport, logs) == "unread"


@pytest.mark.parametrize("failure", ["fails", "killed", "cut"])
def test_a_script_gets_its_whole_input_or_fails(
    break_tool: Callable[..., Transport], failure: str
) -> None:
    data = b"a line of the payload\n" * 100
    with (
        break_tool("dd", failure, f"*count={len(data)}*") as transport,
        pytest.raises(Unreachable, match="lost"),
    ):
        transport.call("cat; echo end", Payload(len(data), [data]), deadline=60)


@pytest.mark.parametrize(("tool", "failure"), [("dd", "killed"), ("dd", "cut"), ("stat", "fails")])
def test_a_piece_that_is_cut_is_an_error(
    break_tool: Callable[..., Transport], tool: str, failure: str, logs: Path
) -> None:
    with (
        break_tool(tool, failure, READS.get(tool, "*")) as transport,
        pytest.raises(JobgenError, match="cannot read"),
    ):
        read_at(transport, str(logs / "0/0/n0.1.out"))


def test_a_directory_that_is_not_there_is_told_apart_from_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with connect(Login("local")) as transport:
        empty = read_tail(transport, str(tmp_path / "empty"), {})
        assert (empty.exists, empty.unread) == (True, {})
        absent = read_tail(transport, str(tmp_path / "absent"), {})
        assert not absent.exists
        assert "No such file or directory" in absent.unread[""]


@as_root
def test_one_file_that_cannot_be_opened_does_not_hide_the_others(logs: Path) -> None:
    (logs / "0/0/n0.1.out").chmod(0)
    with confined(20) as transport:
        seen = read_tail(transport, str(logs), {})
    assert {chunk.path for chunk in seen.chunks} == FILES.keys() - {"0/0/n0.1.out"}
    assert [*seen.unread] == ["0/0/n0.1.out"]
    assert "Permission denied" in seen.unread["0/0/n0.1.out"]
