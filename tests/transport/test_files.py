"""Reading files on the other side, by every transport, and with poorer tools than GNU's."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobgen.errors import JobgenError
from jobgen.model.record import Login
from jobgen.transport import Transport, connect
from jobgen.transport.files import PAGE, Tail, list_recent, read_at, read_tail
from tests.transport.conftest import everywhere

NAMES = ["a.out", "0/1/node-1.3.err", "sp ace ", " lead", "it's", '"q"', "$HOME", "back\\slash"]
NAMES += ["-n", "*", "tab\there", "umläut", "\udcff\udcfe", "a  b", "! 3", "- -"]


def fill(directory: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def got(seen: Tail) -> dict[str, bytes]:
    return {chunk.path: chunk.data for chunk in seen.chunks}


def offsets(seen: Tail) -> dict[str, int]:
    return {chunk.path: chunk.end for chunk in seen.chunks}


@everywhere
def test_all_files_come_in_one_call_and_only_once(transport: Transport, tmp_path: Path) -> None:
    files = {name: f"{n}: {name!a}\n".encode() * (n + 1) for n, name in enumerate(NAMES)}
    logs = tmp_path / "logs"
    fill(logs, files | {"empty": b""})
    first = read_tail(transport, str(logs), {})
    assert got(first) == files
    assert (first.files, first.skipped, first.more) == (len(files) + 1, 0, False)
    known = offsets(first)
    assert read_tail(transport, str(logs), known).chunks == ()
    with (logs / "it's").open("ab") as file:
        file.write(b"\0more\xff")
    fill(logs, {"new": b"no newline"})
    assert got(read_tail(transport, str(logs), known)) == {
        "it's": b"\0more\xff",
        "new": b"no newline",
    }


@everywhere
def test_a_directory_with_any_name_and_one_that_is_not_there(
    transport: Transport, tmp_path: Path
) -> None:
    odd = tmp_path / 'run a\'b "$x" \\'
    fill(odd, {"a": b"1"})
    assert got(read_tail(transport, str(odd), {})) == {"a": b"1"}
    absent = read_tail(transport, str(tmp_path / "absent"), {"a": 1})
    assert (absent.exists, absent.chunks) == (False, ())


@pytest.fixture
def local() -> Iterator[Transport]:
    with connect(Login("local")) as made:
        yield made


@pytest.fixture(params=["gnu", "mawk", "busybox"])
def tools(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Transport]:
    """A transport to this machine, where the tools are GNU's or somebody else's."""
    place = tmp_path_factory.mktemp("tools")
    if request.param != "gnu":
        program = shutil.which(request.param)
        if not program:
            pytest.skip(f"no {request.param} here: apt-get install {request.param}")
        every = ("find", "stat", "awk", "head", "tail", "sh", "cat", "dd")
        for name in every if request.param == "busybox" else ("awk",):
            (place / name).symlink_to(program)
        (place / "perl").symlink_to("/bin/false")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        with connect(Login("local")) as made:
            yield made


def test_a_limit_is_shared_fairly_and_everything_comes_in_the_end(
    tools: Transport, tmp_path: Path
) -> None:
    files = {"big": bytes(range(256)) * 4000, "big2": b"z" * 900_000, "small": b"hello\n"}
    fill(tmp_path, files)
    known: dict[str, int] = {}
    whole = dict.fromkeys(files, b"")
    for round_ in range(40):
        seen = read_tail(tools, str(tmp_path), known, limit=100_000)
        assert sum(len(c.data) for c in seen.chunks) <= 100_000
        if not round_:
            assert got(seen)["small"] == b"hello\n"
            assert len(got(seen)["big"]) == len(got(seen)["big2"]) > 49_000
        for chunk in seen.chunks:
            assert chunk.offset == known.get(chunk.path, 0)
            whole[chunk.path] += chunk.data
        known |= offsets(seen)
        if not seen.more:
            break
    assert whole == files


def test_of_many_files_a_look_brings_a_part_that_is_worth_it(
    tools: Transport, tmp_path: Path
) -> None:
    files = {f"{n}.out": b"x" * (3000 + n) for n in range(50)}
    fill(tmp_path, files | {"long": b"y" * 9000})
    seen = read_tail(tools, str(tmp_path), {}, limit=10_000)
    assert got(seen).keys() == {*files, "long"}
    assert {name: data for name, data in got(seen).items() if name != "long"} == files
    assert sum(len(chunk.data) for chunk in seen.chunks) <= 51 * PAGE


def test_a_file_that_shrank_is_told_apart_from_one_that_grew(
    tools: Transport, tmp_path: Path
) -> None:
    fill(tmp_path, {"a": b"12345", "b": b"12345"})
    seen = read_tail(tools, str(tmp_path), {"a": 9, "b": 3})
    assert seen.shrunk == {"a": 5}
    assert got(seen) == {"b": b"45"}


def test_a_backlog_skips_the_beginning_of_new_files_only(tools: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"0123456789", "b": b"0123456789", "c": b"01"})
    seen = read_tail(tools, str(tmp_path), {"b": 1}, backlog=3)
    assert got(seen) == {"a": b"789", "b": b"123456789", "c": b"01"}
    assert {c.path: c.offset for c in seen.chunks}["a"] == 7


def test_names_with_newlines_are_counted_and_not_read(tools: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"ok": b"1", "x\n5 ./ok": b"22222", "d\nir/file": b"3"})
    seen = read_tail(tools, str(tmp_path), {})
    assert got(seen) == {"ok": b"1"}
    assert seen.skipped == 2


def test_links_and_other_things_are_no_files(tools: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"logs/real": b"1", "outside": b"secret"})
    (tmp_path / "logs/link").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "logs/fifo")
    assert got(read_tail(tools, str(tmp_path / "logs"), {})) == {"real": b"1"}


def test_a_sparse_file_of_ten_gigabytes_is_read_from_its_end(
    tools: Transport, tmp_path: Path
) -> None:
    size = 10 << 30
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(b"the end")
    if Path(shutil.which("dd") or "/").resolve().name == "busybox":
        pytest.skip("its tail reads ten gigabytes to find the end: right, and slow")
    assert got(read_tail(tools, str(tmp_path), {"huge": size})) == {"huge": b"the end"}
    piece = read_at(tools, str(tmp_path / "huge"), size + 4, 100)
    assert piece
    assert (piece.data, piece.size) == (b"end", size + 7)


def test_a_thousand_files_that_did_not_grow_cost_few_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    for tool in ("find", "stat", "awk", "tail", "head", "dd", "cat", "sh"):
        body = f'#!/bin/sh\necho {tool} >>"{log}"\nexec {shutil.which(tool)} "$@"\n'
        (folder / tool).write_text(body)
        (folder / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    logs = tmp_path / "logs"
    fill(logs, {f"{n % 10}/f{n}": b"x" * n for n in range(1000)})
    with connect(Login("local")) as counted:
        seen = read_tail(counted, str(logs), {f"{n % 10}/f{n}": n for n in range(1000)})
    assert (seen.chunks, seen.files) == ((), 1000)
    started = log.read_text().split()
    assert "find" in started
    assert len(started) < 20


def test_a_piece_of_a_file(tools: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"it's": b"0123456789"})
    path = str(tmp_path / "it's")
    piece = read_at(tools, path, 2, 3)
    assert piece
    assert (piece.offset, piece.data, piece.size, piece.end) == (2, b"234", 10, 5)
    beyond = read_at(tools, path, 20)
    assert beyond
    assert (beyond.data, beyond.size) == (b"", 10)
    assert read_at(tools, str(tmp_path / "absent")) is None
    assert read_at(tools, str(tmp_path)) is None


def test_the_end_of_a_file(tools: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"0123456789"})
    for wanted, offset, data in ((-3, 7, b"789"), (-99, 0, b"0123456789")):
        piece = read_at(tools, str(tmp_path / "a"), wanted, 99)
        assert piece
        assert (piece.offset, piece.data, piece.size) == (offset, data, 10)


def test_the_files_that_were_written_to_lately(local: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"old": b"x", "new file": b"x"})
    os.utime(tmp_path / "old", (1.0, 1.0))
    before = time.time()
    clock, paths = list_recent(local, str(tmp_path), 600)
    assert paths == {"new file"}
    assert before - 1 <= clock - time.localtime(before).tm_gmtoff <= time.time()
    with pytest.raises(JobgenError, match="absent"):
        list_recent(local, str(tmp_path / "absent"), 600)


def test_content_that_looks_like_our_own_marks_is_content(local: Transport, tmp_path: Path) -> None:
    data = b"\n<abc<\n\nabc:0\n\n0 5 ./a\nend 1 0 0\n" * 50
    fill(tmp_path, {"a": data})
    assert got(read_tail(local, str(tmp_path), {})) == {"a": data}


def test_whatever_is_appended_when_is_read_once(local: Transport, tmp_path: Path) -> None:
    steps = st.lists(
        st.tuples(st.sampled_from(NAMES), st.binary(max_size=300), st.integers(1, 200)), max_size=12
    )

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(steps=steps)
    def read_once(steps: list[tuple[str, bytes, int]]) -> None:
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        known: dict[str, int] = {}
        whole: dict[str, bytes] = {}

        def take(limit: int) -> bool:
            seen = read_tail(local, str(tmp_path), known, limit=limit)
            for chunk in seen.chunks:
                whole[chunk.path] = whole.get(chunk.path, b"") + chunk.data
                known[chunk.path] = chunk.end
            return seen.more

        written: dict[str, bytes] = {}
        for name, data, limit in steps:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
            written[name] = written.get(name, b"") + data
            take(limit)
        while take(1 << 20):
            pass
        assert whole == {name: data for name, data in written.items() if data}

    read_once()


def test_a_file_that_grew_is_read_from_a_little_before(tools: Transport, tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"0123456789", "b": b"01", "new": b"xyz", "same": b"12345"})
    seen = read_tail(tools, str(tmp_path), {"a": 8, "b": 1, "same": 5}, overlap=4)
    assert got(seen) == {"a": b"456789", "b": b"01", "new": b"xyz"}
    assert {c.path: c.offset for c in seen.chunks} == {"a": 4, "b": 0, "new": 0}
