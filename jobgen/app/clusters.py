"""The cluster profiles that can be named, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.app.world import World

if TYPE_CHECKING:
    from jobgen.catalog import ClusterFile
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded


def ls(world: World) -> tuple[ClusterFile, ...]:
    """Every profile that a name can reach, nearest first, with what it shadows."""
    return tuple(world.catalog().clusters())


def show(world: World, name: str) -> tuple[ClusterFile, Loaded[ClusterProfile]]:
    """One profile: its file, and what was read from it. Raises Missing or Invalid."""
    from jobgen.load import load_cluster

    file = world.catalog().cluster(name)
    return file, load_cluster(file.text, file.label, parent=file.parent)
