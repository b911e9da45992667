"""What of a run's container image is another one now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen import payload
from jobgen.model.origin import ImageDigest, read_image
from jobgen.shell import build_script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobgen.app.run_origin import KeptOrigin
    from jobgen.transport import Transport

_DEADLINE = 120.0
"""Seconds in which a file of 1 GiB is read on a slow disk."""


def find_images(transport: Transport, kept: KeptOrigin) -> dict[str, ImageDigest]:
    """Name → image, of those of a run that the login host has now. Raises Unreachable."""
    there: dict[str, ImageDigest] = {}
    for known in recall_images(kept):
        runtime = "docker" if known.ids else "file"
        script = build_script(payload.text("image_digest.sh"), runtime, known.name)
        printed = transport.call(script, deadline=_DEADLINE).out.decode("utf-8", "replace")
        image = read_image(printed)
        if image is not None:
            there[known.name] = image
    return there


def recall_images(kept: KeptOrigin) -> tuple[ImageDigest, ...]:
    """The images of a run as they were; of an earlier jobgen's run, what its program saw of a
    file."""
    environment = kept.environment
    if kept.images or not environment or not environment.image:
        return kept.images
    return (ImageDigest(environment.image, environment.image_size, environment.image_time),)


def compare_images(kept: KeptOrigin, there: Mapping[str, ImageDigest]) -> list[str]:
    """How the images differ from those of the run; empty if they are the same."""
    return [
        difference
        for before in recall_images(kept)
        for difference in _compare_image(before, there.get(before.name))
    ]


def _compare_image(before: ImageDigest, now: ImageDigest | None) -> list[str]:
    if before.ids:
        return _compare_ids(before, now)
    if now is None:
        return [f"the image {before.name} had {before.size} bytes, and is gone"]
    if before.size != now.size:
        return [f"the image {before.name} had {before.size} bytes, and has {now.size}"]
    return _compare_sums(before, now)


def _compare_sums(before: ImageDigest, now: ImageDigest) -> list[str]:
    """Of two files of one size: their digests, or their times where an earlier jobgen kept none."""
    pairs = ((before.sha256, now.sha256), (before.ends, now.ends))
    sums = [(old, new) for old, new in pairs if old and new]
    if any(old != new for old, new in sums):
        return [f"the image {before.name} is another one of the same size"]
    if not sums and before.time and before.time != now.time:
        return [f"the image {before.name} was changed or replaced since; its size is the same"]
    return []


def _compare_ids(before: ImageDigest, now: ImageDigest | None) -> list[str]:
    """Of an image of docker: a name with a digest is always the same image."""
    if "@sha256:" in before.name or (now and {*now.ids} & {*before.ids}):
        return []
    if now is not None:
        return [f"the image {before.name} was {before.ids[0]}, and is {now.ids[0]}"]
    return [f"the image {before.name} was {before.ids[0]}; which it is now is not known here"]
