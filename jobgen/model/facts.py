"""What is known of the outside, gathered by app and handed in: resolve asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded


class ModelMeasurement(NamedTuple):
    """What ``plan --measure`` has kept of a model that a function builds."""

    report: object = None
    """The report as it was read; None if there is none that still holds."""
    outdated: str = ""
    """Why an earlier one does not hold any more; empty where nothing was ever measured."""


class Facts(NamedTuple):
    """Facts beside the two files. All optional: where there is none, the bytes do not change."""

    workdir_files: frozenset[str] | None = None
    """Relative paths that would be uploaded; None where nobody looked."""
    stop_file_named: bool | None = None
    """Whether any of these files names $JOBGEN_STOP_FILE; None if not all were read."""
    secrets: Mapping[str, str] = MappingProxyType({})
    """Name of each secret that was found → where (``environment``, ``file …``); never a value."""
    after: Mapping[str, str] | None = None
    """Name in ``after:`` → the scheduler's id of the newest run of that name; None without a
    cluster."""
    chains: frozenset[str] = frozenset()
    """Those of these names whose run is a chain of jobs."""
    steps: frozenset[str] = frozenset()
    """Those of these names whose run is inside an allocation."""
    missing_launchers: frozenset[str] = frozenset()
    """Launchers that are not on the PATH of jobs on this machine, where the job runs here."""
    profiles: Mapping[str, Loaded[ClusterProfile]] = MappingProxyType({})
    """``cluster:`` of each group with nodes of another profile → that profile."""
    texts: Mapping[str, bytes] = MappingProxyType({})
    """Files of the working directory that the plan copies: ``launcher.config`` → its bytes."""
    sources: Mapping[str, str] | None = None
    """Files of the workdir that ``run:`` names, and those that they import → their text; None
    if they are not needed, or too long."""
    measured: Mapping[str, ModelMeasurement] = MappingProxyType({})
    """``train.model`` → what is known of it, for models that a function builds."""
