"""Which image a container runs, recorded beside it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from jobgen.app.image_changes import compare_images
from jobgen.app.run_origin import KeptOrigin
from jobgen.model.origin import ImageDigest, read_image

SCRIPT = Path(__file__).parents[2] / "jobgen" / "payload" / "image_digest.sh"
PULLED = "ghcr.io/example/train@sha256:aaaa"


def ask(folder: Path, *words: str) -> str:
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(SCRIPT), *words], env=env, capture_output=True, check=False)
    return done.stdout.decode()


def say_as_docker(folder: Path, *lines: str) -> None:
    """A docker that knows an image once it was asked before, as after a pull."""
    printed = "".join(f"echo '{line}'\n" for line in lines)
    script = f"#!/bin/sh\n[ -e {folder}/asked ] || {{ touch {folder}/asked; exit 1; }}\n{printed}"
    (folder / "docker").write_text(script)
    (folder / "docker").chmod(0o755)


def test_a_file_is_known_by_its_size_time_and_digest(tmp_path: Path) -> None:
    image = tmp_path / "an image.sif"
    image.write_bytes(b"content")
    seen = read_image(ask(tmp_path, "apptainer", str(image)))
    time = int(image.stat().st_mtime)
    assert seen == ImageDigest(str(image), 7, time, hashlib.sha256(b"content").hexdigest())


def test_of_a_large_file_both_ends_are_read(tmp_path: Path) -> None:
    image = tmp_path / "large.sqsh"
    with image.open("wb") as stream:
        stream.truncate((1 << 30) + 1)
    before = read_image(ask(tmp_path, "pyxis", str(image)))
    assert before is not None
    assert (before.size, before.sha256) == ((1 << 30) + 1, "")
    with image.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")
    after = read_image(ask(tmp_path, "pyxis", str(image)))
    assert after is not None
    kept = KeptOrigin(None, None, images=(before,))
    assert compare_images(kept, {after.name: after}) == [
        f"the image {image} is another one of the same size"
    ]


def test_a_file_that_is_not_there_leaves_no_record(tmp_path: Path) -> None:
    record = tmp_path / "record"
    ask(tmp_path, "apptainer", "/nowhere.sif", str(record))
    assert not record.exists()
    assert read_image(ask(tmp_path, "apptainer", "/nowhere.sif")) is None


def test_an_image_that_docker_pulls_meanwhile_is_recorded_by_its_digest(tmp_path: Path) -> None:
    say_as_docker(tmp_path, f"digest {PULLED}", "id sha256:bbbb")
    record = tmp_path / "record"
    ask(tmp_path, "docker", "ghcr.io/example/train:1.2", str(record))
    seen = read_image(record.read_text())
    assert seen == ImageDigest("ghcr.io/example/train:1.2", ids=(PULLED, "sha256:bbbb"))
    assert seen.describe() == PULLED


@pytest.mark.parametrize(
    ("name", "ids", "now", "words"),
    [
        ("train:1", (PULLED, "i"), (PULLED, "i"), ""),
        ("train:1", (PULLED, "i"), ("other", "j"), f"was {PULLED}, and is other"),
        ("train:1", (PULLED, "i"), (), "which it is now is not known here"),
        (PULLED, (PULLED, "i"), (), ""),
    ],
)
def test_a_tag_may_name_another_image(
    name: str, ids: tuple[str, ...], now: tuple[str, ...], words: str
) -> None:
    kept = KeptOrigin(None, None, images=(ImageDigest(name, ids=ids),))
    there = {name: ImageDigest(name, ids=now)} if now else {}
    (text,) = compare_images(kept, there) or [""]
    assert words in text
    assert bool(words) is bool(text)
