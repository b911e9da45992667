"""The variables that a file sets, and what the judge finds in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobgen.load.job_rules import read_launcher
from jobgen.load.tree import Path, Tree, format_scalar
from jobgen.model.loaded import Assignment
from jobgen.shell import list_names
from jobgen.shell.exports import list_exports

if TYPE_CHECKING:
    from jobgen.fabric.variables import Context
    from jobgen.model.cluster import ClusterProfile

_FAMILIES = (
    "NCCL_", "TORCH", "PYTORCH_", "GLOO_", "FI_", "UCX_", "OFI_NCCL_", "CUDA_", "OMP_", "MKL_",
    "KMP_", "OMPI_MCA_", "RCCL_", "HSA_", "HIP_", "ROCR_", "PET_", "SHARP_", "NVSHMEM_",
)  # fmt: skip
_NAMES = frozenset(
    {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
        "MASTER_PORT", "MASTER_IP", "NODE_RANK", "RDMAV_FORK_SAFE", "TP_SOCKET_IFNAME",
        "NET_OPTIONAL_RECV_COMPLETION", "USE_LIBUV", "OPENBLAS_NUM_THREADS", "DEEPSPEED_TIMEOUT",
        "NUMEXPR_NUM_THREADS", "MELLANOX_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
        "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    }
)  # fmt: skip

_TABLES: tuple[Path, ...] = (
    ("network", "env"),
    ("defaults", "env"),
    ("nccl", "env"),
    ("env",),
)
_TEXTS: tuple[Path, ...] = (("defaults", "setup"), ("setup",), ("run",))
_REFUSED = frozenset(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}
    | {"MASTER_ADDR", "MASTER_PORT"}
)
"""Refused under env already, with a better word."""
_BY_TORCHRUN = frozenset({"", "torchrun", "torchtune", "axolotl"})
"""With these, NODE_RANK is meant for torchrun, which does not read it; other programs may."""
MOST = 200
"""So many variables of one file are judged; a hostile one holds thousands."""


def judge_job(tree: Tree, cluster: ClusterProfile | None) -> None:
    """Judge the variables of a job, on this cluster where it is known."""
    found = list_assignments(tree)
    if read_launcher(tree) not in _BY_TORCHRUN:
        found = [(path, one) for path, one in found if one.name != "NODE_RANK"]
    tree.variables = [one for _, one in found]
    if found:
        _speak(tree, found, _of_job(tree, cluster))


def judge_profile(tree: Tree, formed: ClusterProfile | None) -> None:
    """Judge the variables of a profile, whose own facts are the context."""
    found = list_assignments(tree)
    tree.variables = [one for _, one in found]
    if found:
        from jobgen.fabric.variables import Context, profile_context

        context = profile_context.build_context(formed) if formed else Context()
        _speak(tree, found, context._replace(kind="cluster"))


def _of_job(tree: Tree, cluster: ClusterProfile | None) -> Context:
    from jobgen.fabric.variables import Context, profile_context

    nodes = tree.get_text("nodes")
    count = int(nodes) if nodes.isdecimal() and len(nodes) < 7 else None
    return (
        Context(nodes=count)
        if cluster is None
        else profile_context.build_context(cluster, nodes=count)
    )


def list_assignments(tree: Tree) -> list[tuple[Path, Assignment]]:
    """Every variable that the file sets and that the judge knows, with its path, in order."""
    found = [*_tables(tree), *_texts(tree)]
    return found[:MOST]


def is_judged(name: str) -> bool:
    """Whether the judge knows such names. What reads the tables is imported only then."""
    name = name.upper()
    return name.startswith(_FAMILIES) or name in _NAMES


def _speak(tree: Tree, found: list[tuple[Path, Assignment]], context: Context) -> None:
    """Note what the judge says of each."""
    from jobgen.fabric.variables import judge

    others = {one.name: one.value for _, one in found}
    context = context._replace(others={**context.others, **others})
    for path, one in found:
        for said in judge(one.name, one.value, context._replace(setup=one.setup)):
            named = said.about_name and not one.setup  # an export is pointed at as a whole
            place = tree.find_place(path, of_key=True) if named else one.place
            tree.note(said.code, said.message, path, said.hint, said.severity, place=place)


def _tables(tree: Tree) -> Iterator[tuple[Path, Assignment]]:
    for path in (*_TABLES, *((*step, "env") for step in tree.list_steps())):
        for name, given in tree.get_table(*path).items():
            if not is_judged(name) or name in _REFUSED:
                continue
            here = (*path, name)
            value = _plain(given)
            if value is not None:
                known = None if list_names(value) else value
                yield here, Assignment(name, known, tree.find_place(here))


def _plain(given: Any) -> str | None:
    """The text of ``NAME: value`` or of ``NAME: {value, why}``."""
    value = given.get("value") if isinstance(given, dict) else given
    return None if isinstance(value, (dict, list)) else format_scalar(value)


def _texts(tree: Tree) -> Iterator[tuple[Path, Assignment]]:
    for top in (*_TEXTS, *((*step, "run") for step in tree.list_steps())):
        shell = tree.read_shell(*top)
        for export in list_exports(shell.started):
            if is_judged(export.name):
                path, place = shell.locate(export.start, export.end)
                yield path, Assignment(export.name, export.value, place, setup=True)
