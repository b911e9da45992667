"""The images of a run as the login host has them now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobgen.app.image_changes import find_images
from jobgen.app.run_origin import KeptOrigin
from jobgen.model.origin import ImageDigest
from tests.app.conftest import Link, Recorded

DOCKER = """\
#!/bin/sh
case $* in *train:1) echo 'digest train@sha256:aaaa'; echo 'id sha256:bbbb' ;; *) exit 1 ;; esac
"""


def test_one_call_finds_all_images_of_a_run(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = tmp_path / "it's an image.sif"
    file.write_bytes(b"content")
    gone = ImageDigest("/nowhere.sif", 7, 1)
    pulled, removed = (ImageDigest(name, ids=("x",)) for name in ("train:1", "train:2"))
    known = (gone, ImageDigest(str(file), 8, 1), removed, pulled)
    with Recorded(link) as transport:
        images = find_images(transport, KeptOrigin(None, None, images=known))
        assert find_images(transport, KeptOrigin(None, None)) == {}
    assert images.keys() == {str(file), "train:1"}
    assert images[str(file)].size == 7
    assert images["train:1"].ids == ("train@sha256:aaaa", "sha256:bbbb")
    assert len(link.sent) == 1
