"""The container around the program: the job's, else the cluster's."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen.model.plan import ContainerPlan, Mount, Part, Setting
from jobgen.resolve.environment import ALWAYS
from jobgen.resolve.look import Look

_RDMA = ("infiniband", "roce", "efa")


def container(look: Look, names: Iterable[str]) -> ContainerPlan | None:
    """What every node enters before the setup; ``names`` are the variables to take along."""
    asked = look.job.container
    place = look.by_job("container")
    if asked is None:
        asked, place = look.cluster.defaults.container, look.by_cluster("defaults", "container")
    if asked is None:
        return None
    return ContainerPlan(
        runtime=asked.runtime,
        image=asked.image,
        mounts=tuple(_mount(text) for text in asked.mounts),
        args=_rdma_args(look, asked.runtime) + asked.args,
        workdir=asked.workdir or "",
        forward=(*ALWAYS, *names),
        place=place,
    )


def part(look: Look, *, gpus: bool, nodes: int) -> Part:
    """What the network's cards need to be seen inside."""
    asked = look.job.container or look.cluster.defaults.container
    if asked is None or asked.runtime != "pyxis" or not gpus or nodes < 2:
        return Part("container")
    if look.cluster.network.fabric not in {"infiniband", "roce"}:
        return Part("container")
    why = "enroot hides the InfiniBand cards unless its Mellanox hook is told to show them"
    place = look.by_cluster("network", "fabric")
    return Part("container", env={"MELLANOX_VISIBLE_DEVICES": Setting("all", why, place)})


def _rdma_args(look: Look, runtime: str) -> tuple[str, ...]:
    """Docker shows no device that nobody names, and lets nobody pin memory."""
    if runtime != "docker" or look.cluster.network.fabric not in _RDMA or look.job.nodes < 2:
        return ()
    return ("--device=/dev/infiniband", "--cap-add=IPC_LOCK")


def _mount(text: str) -> Mount:
    source, target, *flags = text.split(":")
    return Mount(source, target, readonly="ro" in flags)
