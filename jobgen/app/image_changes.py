"""What of a run's container image is another one now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobgen import payload
from jobgen.model.origin import ImageDigest, read_image
from jobgen.shell import Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobgen.app.run_origin import KeptOrigin
    from jobgen.transport import Transport

_DEADLINE = 120.0
"""Seconds in which an image file of 1 GiB is read on a slow disk."""


def find_images(transport: Transport, kept: KeptOrigin) -> dict[str, ImageDigest]:
    """Name → image, of those of a run that the login host has now. Raises Unreachable."""
    known = recall_images(kept)
    if not known:
        return {}
    printed = transport.call(_write_script(known), deadline=_DEADLINE * len(known)).text
    images = [read_image(block) for block in re.split("^(?=image )", printed, flags=re.MULTILINE)]
    return {image.name: image for image in images if image is not None}


def _write_script(images: Sequence[ImageDigest]) -> str:
    """``image_digest.sh`` of each image, one after the other: each answer begins with ``image``."""
    asked = [Command.of("digest", "docker" if i.ids else "file", i.name) for i in images]
    return "\n".join(["digest() {", payload.text("image_digest.sh"), "}", *map(str, asked)])


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
