"""Files of a run come here whole, over links that break, and nothing else is written."""

from __future__ import annotations

import io
import os
import re
import resource
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobgen.app.pulling import Pulled, PullRequest, pull
from jobgen.app.unpacking import lock_folder, unpack
from jobgen.app.world import World
from jobgen.errors import JobgenError, Missing, Unreachable
from jobgen.model.record import Login, RunRecord, Site
from jobgen.shell import Result
from jobgen.transport import Payload
from jobgen.transport.fetch import RemoteFile, is_inside, list_files
from jobgen.upload.ignore import PULLED
from tests.app.conftest import Link, Recorded

SITE = Site("here", "local", Login("local"), "/runs")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The working directory of a run."""
    folder = tmp_path / "run" / "src"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def record(world: World, source: Path) -> RunRecord:
    record = RunRecord("t" * 26, "llama", "llama", SITE, "0", 1.0, str(source.parent))
    return world.ledger.begin(record._replace(shape={"outputs": ["out/**", "*.json"]}))


def write_files(source: Path, count: int, size: int = 3000) -> dict[str, bytes]:
    """Files of different contents; two of a hundred in a folder of their own."""
    written = {}
    for number in range(count):
        path = source / "out" / str(number % 50) / f"part {number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        written[f"out/{number % 50}/part {number}.bin"] = os.urandom(size)
        path.write_bytes(written[f"out/{number % 50}/part {number}.bin"])
    return written


def read_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != PULLED
    }


def bring(world: World, record: RunRecord, folder: Path, *patterns: str, **how: bool) -> Pulled:
    return pull(world, PullRequest(record.alias, patterns, folder, **how))


def test_the_outputs_of_a_job_come_with_their_times(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    written = write_files(source, 3)
    (source / "train.py").write_text("pass\n")
    (source / "metrics.json").write_text("{}\n")
    os.utime(source / "metrics.json", (1_700_000_000, 1_700_000_000))
    (source / "out" / "link").symlink_to("/etc/passwd")
    found = bring(world, record, tmp_path / "here")
    assert len(found.needed) == 4
    assert read_files(tmp_path / "here") == {**written, "metrics.json": b"{}\n"}
    assert (tmp_path / "here" / "metrics.json").stat().st_mtime == 1_700_000_000
    assert bring(world, record, tmp_path / "here").needed == ()


def test_a_dry_run_writes_nothing(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    write_files(source, 3)
    assert len(bring(world, record, tmp_path / "here", dry_run=True).needed) == 3
    assert not (tmp_path / "here").exists()


def test_a_file_with_other_contents_is_found_by_its_checksum(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    written = write_files(source, 2)
    bring(world, record, tmp_path / "here")
    name = next(iter(written))
    here = tmp_path / "here" / name
    times = here.stat().st_mtime_ns
    here.write_bytes(bytes(3000))
    os.utime(here, ns=(times, times))
    assert bring(world, record, tmp_path / "here").needed == ()
    found = bring(world, record, tmp_path / "here", checksum=True)
    assert [file.path for file in found.needed] == [name]
    assert read_files(tmp_path / "here") == written


class Cut(Recorded):
    """A connection that is cut when so many bytes of files have come."""

    def __init__(self, link: Link, most: int) -> None:
        super().__init__(link)
        self.left = most

    def call(
        self, script: str, payload: Payload | None = None, *, deadline: float = 30, sink: Any = None
    ) -> Result:
        def count(data: bytes) -> None:
            if len(data) > self.left:
                sink(data[: self.left])
                self.left = 0
                raise Unreachable("the link is cut")
            self.left -= len(data)
            sink(data)

        return super().call(script, payload, deadline=deadline, sink=sink and count)


def dial_cut(link: Link, *bytes_: int) -> Callable[..., Any]:
    """Connections of which the first ones are cut, each after so many bytes."""
    left = [*bytes_]
    return lambda *_: Cut(link, left.pop(0)) if left else Recorded(link)


@pytest.mark.parametrize("size", [3000, 400_000])
def test_after_a_cut_it_goes_on_where_it_was(
    world: World, record: RunRecord, source: Path, tmp_path: Path, link: Link, size: int
) -> None:
    count = 3_000_000 // size
    written = write_files(source, count, size)
    # the first connection lists the files
    world = replace(world, dial=dial_cut(link, 1 << 30, 1_000_000, 700_000))
    found = bring(world, record, tmp_path / "here")
    assert len(found.needed) == count
    assert read_files(tmp_path / "here") == written
    assert sum("tar --create" in script for script in link.sent) == 3


def test_a_link_that_brings_nothing_ends_it(
    world: World, record: RunRecord, source: Path, tmp_path: Path, link: Link
) -> None:
    write_files(source, 3)
    world = replace(world, dial=dial_cut(link, 1 << 30, 0, 0, 0))
    with pytest.raises(Unreachable):
        bring(world, record, tmp_path / "here")
    assert read_files(tmp_path / "here") == {}


def test_a_run_without_outputs_asks_for_a_pattern(
    world: World, record: RunRecord, source: Path
) -> None:
    bare = world.ledger.begin(record._replace(token="u" * 26, shape={}))
    with pytest.raises(Missing) as caught:
        pull(world, PullRequest(bare.alias))
    assert f"jobgen pull {bare.alias} 'checkpoints/**'" in caught.value.problems[0].hint


def send(*members: tuple[str, bytes, dict[str, Any]]) -> Callable[[Callable[[bytes], None]], None]:
    """A tar stream as a hostile host may send it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content, more in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in more.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return lambda sink: sink(stream.getvalue())


WANTED = {"out/a": RemoteFile("out/a", 2, 1_700_000_000.0)}


@pytest.mark.parametrize(
    "member",
    [
        ("../a", b"xx", {}),
        ("/tmp/a", b"xx", {}),
        ("out/b", b"xx", {}),
        ("out/a", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("out/a", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}),
        ("out", b"", {"type": tarfile.DIRTYPE}),
        ("out/a", b"xxx", {}),
        ("out/a", b"x", {}),
    ],
)
def test_what_was_not_asked_for_is_not_written(tmp_path: Path, member: Any) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with pytest.raises(JobgenError):
        unpack(send(member), folder, WANTED, lambda *_: None)
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()] == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    folder, other = tmp_path / "here", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "out").symlink_to(other)
    with pytest.raises(JobgenError, match="no folder"):
        unpack(send(("out/a", b"xx", {})), folder, WANTED, lambda *_: None)
    assert [*other.iterdir()] == []


@pytest.mark.parametrize(
    "path", ["../a", "/a", "a//b", "a/./b", "a/../b", "", ".", "a\nb", "a\x1bb"]
)
def test_names_that_lead_out_of_a_folder_are_not_listed(path: str) -> None:
    assert not is_inside(path)
    assert is_inside("out/.a b-1/ünïcode.bin")


def test_a_folder_that_cannot_be_made_is_an_error(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    write_files(source, 1)
    (tmp_path / "here").write_text("a file")
    with pytest.raises(JobgenError, match="here"):
        bring(world, record, tmp_path / "here")


def test_a_disk_that_takes_no_more_is_an_error(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    """By the largest size of a file: as on a full disk, writing fails and not opening."""
    (source / "metrics.json").write_bytes(bytes(200_000))
    file = next(f for f in bring(world, record, tmp_path / "here", dry_run=True).needed)
    (tmp_path / "here").mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(JobgenError, match=re.escape(file.path)):
            bring(world, record, tmp_path / "here")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_second_pull_into_the_same_folder_is_refused(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    write_files(source, 1)
    here = tmp_path / "here"
    here.mkdir()
    with lock_folder(here), pytest.raises(JobgenError, match="another pull"):
        bring(world, record, here)
    assert len(bring(world, record, here).needed) == 1


def test_only_a_folder_of_its_own_is_left_out_of_uploads(
    world: World, record: RunRecord, source: Path, tmp_path: Path
) -> None:
    write_files(source, 1)
    (tmp_path / "mine").mkdir()
    bring(world, record, tmp_path / "mine")
    bring(world, record, tmp_path / "new")
    marked = [folder for folder in ("mine", "new") if (tmp_path / folder / PULLED).exists()]
    assert marked == ["new"]


@pytest.mark.parametrize(
    "rows", [b"x 1.0 a\0end\0", b"1 nan a\0end\0", b"1 1.0\0end\0", b"1 1.0 a\0", b"", b"\0"]
)
def test_a_list_that_a_host_garbled_is_an_error(rows: bytes) -> None:
    class Garbled(Recorded):
        def call(self, *_: Any, **__: Any) -> Result:
            return Result(0, rows)

    with Garbled(Link()) as transport, pytest.raises(JobgenError):
        list_files(transport, "/runs")
