"""The tar stream: its length is known before, tar and sha256sum agree with it, it is never torn."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobgen.app.workdir_files import read_file
from jobgen.errors import JobgenError
from jobgen.model.bundle import BundleFile
from jobgen.upload import MANIFEST, TarStream, build_payload, scan, tar_stream
from jobgen.upload.manifest import KEPT, SMALL, KeptFiles

UNPACK = "tar -xmof -"

EXTRA = (
    BundleFile("TOKEN", b"abc\n", 0o600),
    BundleFile("bundle/job.sbatch", b"#!/bin/bash\n", 0o755),
    BundleFile("secrets.env", b"export A='b'\n", 0o600),
)


def sent(stream: TarStream) -> bytes:
    data = b"".join(stream.chunks)
    assert len(data) == stream.size
    return data


def members(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getmembers()


def unpacked(data: bytes, directory: Path) -> Path:
    directory.mkdir()
    done = subprocess.run(UNPACK.split(), cwd=directory, input=data, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    words = ["sha256sum", "-c", "--quiet", "--strict", MANIFEST]
    done = subprocess.run(words, cwd=directory, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
    return directory


def test_tar_and_sha256sum_agree_with_the_stream(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "pkg").mkdir(parents=True)
    (root / "empty dir").mkdir()
    (root / "train.py").write_text("print('hello')\n")
    (root / "run.sh").write_text("true\n")
    (root / "run.sh").chmod(0o755)
    (root / "pkg/link").symlink_to("../train.py")
    odd = ["it's", "a b", "-rf", "back\\slash", "\udcff", "n" * 200, "é" * 120]
    for name in odd:
        (root / "pkg" / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    (root / "pkg" / ("l" * 150)).symlink_to("n" * 200)
    out = unpacked(sent(build_payload(scan(root), EXTRA)), tmp_path / "out")
    assert (out / "src/train.py").read_text() == "print('hello')\n"
    assert (out / "src/run.sh").stat().st_mode & 0o777 == 0o755
    assert (out / "src/empty dir").is_dir()
    assert (out / "src/pkg/link").readlink() == Path("../train.py")
    for name in odd:
        got = (out / "src/pkg" / name).read_bytes()
        assert got == name.encode("utf-8", "surrogateescape")
    assert (out / "src/pkg" / ("l" * 150)).readlink() == Path("n" * 200)
    assert (out / "secrets.env").stat().st_mode & 0o777 == 0o600
    assert (out / "bundle/job.sbatch").read_bytes() == b"#!/bin/bash\n"


def test_the_sums_are_of_src_and_bundle_and_come_last(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with tarfile.open(fileobj=io.BytesIO(sent(build_payload(scan(tmp_path), EXTRA)))) as archive:
        assert archive.getnames()[-1] == MANIFEST
        member = archive.extractfile(MANIFEST)
        assert member
        text = member.read().decode()
    assert [line.split("  ")[1] for line in text.splitlines()] == ["bundle/job.sbatch", "src/a"]


def test_nothing_of_the_person_or_the_machine_is_in_the_stream(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for member in members(sent(build_payload(scan(tmp_path), EXTRA))):
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
        assert not member.name.startswith("/")


def test_the_same_files_make_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("x")
        os.utime(tmp_path / name / "a", (5, len(name) * 1000))
    one, two = (
        build_payload(scan(tmp_path / "one"), EXTRA),
        build_payload(scan(tmp_path / "two"), EXTRA),
    )
    assert sent(one) == sent(two) == sent(one)
    assert one.digest == two.digest == scan(tmp_path / "one").compute_digest()


def test_without_a_working_directory_the_bundle_goes_alone(tmp_path: Path) -> None:
    out = unpacked(sent(build_payload(None, EXTRA)), tmp_path / "out")
    assert sorted(p.name for p in out.iterdir()) == [MANIFEST, "TOKEN", "bundle", "secrets.env"]


@pytest.mark.parametrize(
    "change", ["grow", "shrink", "rewrite", "replace", "remove", "link", "pipe"]
)
@pytest.mark.parametrize("searched", [False, True])
def test_a_file_that_changed_since_the_scan_stops_the_stream(
    tmp_path: Path, change: str, searched: bool
) -> None:
    path = tmp_path / "a"
    path.write_text("hello")
    os.utime(path, (1, 1))
    (tmp_path / "z").write_text("last")
    manifest = scan(tmp_path)
    if searched:
        assert read_file(manifest, manifest.entries[0]) == b"hello"
    if change == "grow":
        path.write_text("hello and more")
    elif change == "shrink":
        path.write_text("he")
    elif change == "rewrite":
        path.write_text("HELLO")
    elif change == "replace":
        (tmp_path / "new").write_text("hello")
        os.utime(tmp_path / "new", (1, 1))
        (tmp_path / "new").rename(path)
    else:
        path.unlink()
    if change == "link":
        path.symlink_to("/etc/passwd")
    elif change == "pipe":
        os.mkfifo(path)
    stream = build_payload(manifest, EXTRA)
    pieces: list[bytes] = []
    with pytest.raises(JobgenError, match="a changed") as caught:
        pieces.extend(stream.chunks)
    received = b"".join(pieces)
    assert caught.value.problems[0].code == "J196"
    assert len(received) < stream.size
    assert MANIFEST.encode() not in received
    assert b"root:" not in received


@pytest.mark.parametrize("name", ["t.txt", "nohup.out", "train.log", "events.out.tfevents.1.n1.7"])
@pytest.mark.parametrize("late", [False, True])
def test_a_log_that_grows_is_sent_as_far_as_it_went(tmp_path: Path, name: str, late: bool) -> None:
    root = tmp_path / "work"
    root.mkdir()
    first = bytes(range(256)) * (16 << 10)
    (root / name).write_bytes(first)
    stream = build_payload(scan(root), EXTRA)
    chunks = iter(stream.chunks)
    pieces = [next(chunks)] if late else []
    with (root / name).open("ab") as file:
        file.write(b"more")
    data = b"".join([*pieces, *chunks])
    assert len(data) == stream.size
    assert (unpacked(data, tmp_path / "out") / "src" / name).read_bytes() == first
    assert stream.grown == {name}


def test_a_file_that_changes_while_it_is_read_stops_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(3 << 20))
    chunks = iter(build_payload(scan(tmp_path)).chunks)
    next(chunks)
    with path.open("r+b") as file:
        file.seek(2 << 20)
        file.write(b"new")
    with pytest.raises(JobgenError, match="a changed"):
        list(chunks)


def test_a_half_stream_is_no_whole_run_directory(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a").write_bytes(bytes(100_000))
    data = sent(build_payload(scan(root), EXTRA))
    for part in (1000, 3000, 50_000, len(data) - 3000):
        out = tmp_path / str(part)
        out.mkdir()
        done = subprocess.run(UNPACK.split(), cwd=out, input=data[:part], capture_output=True)
        assert done.returncode != 0
        assert not (out / MANIFEST).exists() or not (out / MANIFEST).stat().st_size


def test_the_length_is_known_for_any_names_and_sizes(tmp_path: Path) -> None:
    name = st.text(
        st.characters(blacklist_categories=("Cc", "Cs"), blacklist_characters="/"),
        min_size=1,
        max_size=60,
    ).filter(lambda n: n not in {".", ".."} and not n.startswith(".git"))
    paths = st.lists(st.lists(name, min_size=1, max_size=4).map("/".join), max_size=5)
    counter = iter(range(1_000_000))

    @settings(max_examples=50, suppress_health_check=list(HealthCheck))
    @given(paths=paths, content=st.binary(max_size=2000), extra=st.binary(max_size=600))
    def known(paths: list[str], content: bytes, extra: bytes) -> None:
        root = tmp_path / str(next(counter))
        root.mkdir()
        for path in paths:
            try:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(content)
            except OSError:  # a file where another path wants a directory
                continue
        data = sent(build_payload(scan(root), (BundleFile("bundle/x", extra),)))
        files = [p for p in root.rglob("*") if p.is_file()]
        assert sum(m.isfile() for m in members(data)) >= len(files) - 1

    known()


def test_what_was_searched_is_what_is_sent_even_if_a_change_leaves_no_trace(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("hello")
    manifest = scan(tmp_path)
    before = (tmp_path / "a").stat()
    assert read_file(manifest, manifest.entries[0]) == b"hello"
    (tmp_path / "a").write_text("HELLO")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert b"hello" in sent(build_payload(manifest))


def test_a_log_that_grew_since_the_search_is_sent_as_far_as_it_was_searched(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.log").write_text("first")
    manifest = scan(tmp_path)
    assert read_file(manifest, manifest.entries[0]) == b"first"
    (tmp_path / "a.log").write_text("first and more")
    stream = build_payload(manifest)
    assert b"more" not in sent(stream)
    assert stream.grown == {"a.log"}


def test_no_more_than_a_bounded_part_is_kept_in_memory(tmp_path: Path) -> None:
    kept = KeptFiles()
    for n in range(KEPT // SMALL + 9):
        kept.add(f"{n}", bytes(SMALL))
    held = [n for n in range(KEPT // SMALL + 9) if kept.get(f"{n}") is not None]
    assert len(held) == KEPT // SMALL


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    st.integers(0, 1 << 40),
    st.sampled_from([0o644, 0o755]),
)
@example("n" * 100, 8**11 - 1, 0o644)
@example("n" * 101, 8**11, 0o755)
def test_a_header_is_that_of_tarfile(name: str, size: int, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, mode, tar_stream._TIME
    made = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    assert tar_stream._header(name, b"0", size, mode) == made


def test_a_large_file_is_sent_as_it_stands(tmp_path: Path) -> None:
    content = os.urandom(1 << 20) * 9
    (tmp_path / "large").write_bytes(content)
    stream = build_payload(scan(tmp_path))
    with tarfile.open(fileobj=io.BytesIO(sent(stream))) as archive:
        got = archive.extractfile("src/large")
        assert got is not None
        assert got.read() == content
    assert stream.digest == scan(tmp_path).compute_digest()


def test_a_large_file_that_changes_on_the_way_is_said(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(9 << 20))
    pieces = iter(build_payload(scan(tmp_path)).chunks)
    next(pieces)
    file.write_bytes(bytes(5 << 20))
    with pytest.raises(JobgenError, match="changed during"):
        list(pieces)


def test_a_large_stream_may_be_left_in_the_middle(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(9 << 20))
    before = threading.active_count()
    pieces = iter(build_payload(scan(tmp_path)).chunks)
    next(pieces)
    del pieces
    assert threading.active_count() == before
