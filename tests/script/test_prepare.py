"""``prepare.sh`` stages data on a node: whole, in one piece, and not twice."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, job, plan


class Node:
    """A node of which this machine plays the part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = folder / "node"
        self.source = folder / "shared"
        self.source.mkdir()

    def prepare(self, *names: str, **environ: str) -> subprocess.CompletedProcess[str]:
        stage = ", ".join(f"{self.source / name}: {self.target}" for name in names)
        found = plan(job() + f"stage: {{{stage}}}\n", CPUS)
        script = self.folder / "prepare.sh"
        script.write_bytes(render(found, templates())["prepare.sh"].content)
        known = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "n1", "JOBGEN_RESTART": "0"}
        known |= {"JOBGEN_STATE_DIR": str(self.folder / "state")}
        words = ["bash", str(script)]
        return subprocess.run(words, env={**known, **environ}, capture_output=True, text=True)

    def read(self) -> dict[str, str]:
        """What was brought; not the marks."""
        paths = [path for path in self.target.rglob("*") if path.is_file()]
        named = {str(path.relative_to(self.target)): path for path in paths}
        return {name: path.read_text() for name, path in named.items() if name[0] != "."}

    def pack(self, name: str, **files: str) -> None:
        """An archive of these files."""
        with tarfile.open(self.source / name, f"w:{name.rpartition('.')[2]}") as archive:
            for inner, text in files.items():
                (self.folder / inner).write_text(text)
                archive.add(self.folder / inner, inner)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_archives_folders_and_files_come_into_one_directory(node: Node) -> None:
    node.pack("x.tar.gz", a="from an archive")
    (node.source / "plain/deep").mkdir(parents=True)
    (node.source / "plain/deep/b").write_text("from a folder")
    (node.source / "c.bin").write_text("a file")
    done = node.prepare("x.tar.gz", "plain", "c.bin")
    assert done.returncode == 0, done.stderr
    wanted = {"a": "from an archive", "deep/b": "from a folder", "c.bin": "a file"}
    assert node.read() == wanted


def test_zip_archives_are_unpacked_by_unzip(node: Node) -> None:
    with zipfile.ZipFile(node.source / "x.zip", "w") as archive:
        archive.writestr("inner/a", "zipped")
    done = node.prepare("x.zip")
    if done.returncode == 0:
        assert node.read() == {"inner/a": "zipped"}
    else:  # a node without unzip
        assert "unzip: command not found" in done.stderr
        assert node.read() == {}


def test_what_is_whole_is_not_brought_again_until_its_source_changes(node: Node) -> None:
    node.pack("x.tar.gz", a="first")
    assert node.prepare("x.tar.gz").returncode == 0
    (node.target / "a").write_text("changed by a program")
    assert node.prepare("x.tar.gz").stderr.endswith("on n1 already\n")
    assert node.read() == {"a": "changed by a program"}
    node.pack("x.tar.gz", a="second, and longer")
    assert node.prepare("x.tar.gz").returncode == 0
    assert node.read() == {"a": "second, and longer"}


def test_a_start_that_was_killed_leaves_nothing_that_counts(node: Node) -> None:
    node.pack("x.tar.gz", a="whole")
    assert node.prepare("x.tar.gz").returncode == 0
    (mark,) = node.target.glob(".staged-*")
    # as a kill leaves it: a part of an archive, and no mark
    part = node.target / mark.name.replace("staged", "part")
    part.mkdir()
    (part / "half").write_text("half")
    mark.unlink()
    (node.target / "a").write_text("ha")
    assert node.prepare("x.tar.gz").returncode == 0
    assert node.read() == {"a": "whole"}
    assert mark.exists()


def test_a_damaged_archive_ends_the_job_and_leaves_no_mark(node: Node) -> None:
    (node.source / "x.tar.gz").write_bytes(b"no archive")
    done = node.prepare("x.tar.gz")
    assert done.returncode == 96
    assert f"jobgen: n1: stage failed: {node.source}/x.tar.gz: tar: " in done.stderr
    assert "Exiting with failure status" not in done.stderr  # tar's last line names no cause
    assert not [*node.target.glob(".staged-*"), *node.target.glob(".part-*")]
    event = (node.folder / "state/events/0.n1.node0").read_text()
    assert " kind=exit node=n1 rank=- code=96 signal=0 why=stage%20failed:%20" in event


def test_a_variable_that_the_node_lacks_is_named(node: Node) -> None:
    node.pack("x.tar.gz", a="a")
    node.target = Path("$SLURM_TMPDIR/data")
    done = node.prepare("x.tar.gz")
    assert done.returncode == 96
    assert (
        "stage failed: $SLURM_TMPDIR is not set here; name a directory of the node" in done.stderr
    )
    node.target = node.folder / "fast/data"
    assert node.prepare("x.tar.gz", SLURM_TMPDIR=str(node.folder / "fast")).returncode == 0
