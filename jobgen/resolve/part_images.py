"""The images of steps and groups: their own, in the container that the job has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.resolve.container_image import find_container, is_file
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.registry_login import split_registry

if TYPE_CHECKING:
    from jobgen.model.container import Container
    from jobgen.resolve.inputs import Key

_HUB = "docker.io"
"""What people call the registry of names without one."""


def give_image(look: Inputs, image: str | None) -> Inputs:
    """The job of a step or a group with this image; None for that of the job's container.

    A file needs no login.
    """
    shared, _ = find_container(look)
    if image is None or shared is None:
        return look
    own = shared.replace(image=image, login=None if is_file(image) else shared.login)
    return look._replace(spec=look.spec._replace(value=look.job.replace(container=own)))


def check_images(look: Inputs, looks: Sequence[Inputs]) -> Iterator[Diagnostic]:
    """Images that the job's one runtime, or its one login, is not for.

    ``looks`` are the jobs of the steps or groups, in any order.
    """
    images: dict[str, tuple[Sequence[Key], str | None]] = {
        **{step.name: (("steps", i), step.container) for i, step in enumerate(look.job.steps)},
        **{group.name: (("groups", group.name), group.container) for group in look.job.groups},
    }
    kind = "group" if look.job.groups else "step"
    shared: tuple[str, Container] | None = None
    for each in looks:
        path, image = images[each.step]
        title, (container, _) = f"{kind} {each.step}", find_container(each)
        if container is None:
            if image is not None:
                message = f"{title} names an image, but the job has no container"
                hint = "set container: {image: IMAGE, runtime: …} at the top of the file, too"
                yield look.diagnose_job("J216", message, *path, "container", hint=hint)
            continue
        if image is not None:
            yield from _check_registry(look, title, image, (*path, "container"))
        if shared is not None and container.runtime != shared[1].runtime:
            message = f"{title} runs in {container.runtime}, as its profile says, but {shared[0]} "
            message += f"in {shared[1].runtime}: a job enters its containers by one runtime"
            hint = "set container: {image: IMAGE, runtime: …} at the top of the file"
            yield look.diagnose_job("J216", message, *path, "cluster", hint=hint)
        shared = shared or (title, container)


def _check_registry(
    look: Inputs, title: str, image: str, path: Sequence[Key]
) -> Iterator[Diagnostic]:
    """An image of another registry than that of the job's login, whose password it must not get."""
    shared, _ = find_container(look)
    if shared is None or shared.login is None or is_file(image):
        return
    theirs, ours = split_registry(image) or _HUB, split_registry(shared.image) or _HUB
    if theirs != ours:
        message = f"container.login is for {ours}, but the image of {title} is at {theirs}"
        hint = f"use an image of {ours} or a file, or import the image before the job"
        yield look.diagnose_job("J216", message, *path, hint=hint)
