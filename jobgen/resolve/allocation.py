"""What a job asks of its nodes: whole or a share, all memory, and GPUs as the site names them."""

from __future__ import annotations

from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.plan import Shape
from jobgen.resolve.inputs import Inputs
from jobgen.shell import Raw, Word

RULE = cite_rule("whole-node")
_ALONE = ("", "topo")
"""Values of ``--exclusive`` that keep every other job away; ``user`` and ``mcs`` do not."""
_UNBINDS = (21, 8)
"""The release of Slurm since which ``--gpu-bind`` can be none; an older srun ends at it. Read:
20.11 and 21.08, src/common/tres_bind.c."""


def merge_options(look: Inputs) -> dict[str, Setting]:
    """The cluster's defaults and the job's options; the job's win, and say over what."""
    merged: dict[str, Setting] = {}
    for name, value in look.cluster.defaults.slurm.items():
        if value is None:
            continue
        place = look.cite_cluster("defaults", "slurm", name)
        merged[name] = Setting(value or "", SelfEvident.CLUSTER_DEFAULT, place)
    for name, value in look.job.slurm.items():
        if value is None:  # ``exclusive: false`` takes the site's default away
            merged.pop(name, None)
            continue
        why: str = SelfEvident.AS_ASKED
        if name in merged:
            why = f"overrides {merged[name].value or 'the flag'} ({merged[name].place})"
        merged[name] = Setting(value or "", why, look.cite_job("slurm", name))
    array = find_array(look)
    packed = look.job.sweep is not None and look.job.sweep.pack is not None
    return merged if array is None or packed else {**merged, "array": array}


def find_array(look: Inputs) -> Setting | None:
    """The indexes of the job array, as ``sbatch --array`` takes them; None of a single job."""
    if look.job.sweep is not None:
        indexes = look.job.sweep.format_indexes()
        return Setting(indexes, SelfEvident.AS_ASKED, look.cite_job("sweep"))
    if look.job.array is not None:
        return Setting(look.job.array, SelfEvident.AS_ASKED, look.cite_job("array"))
    return None


def takes_all(look: Inputs, gpus: int) -> bool:
    """Whether a job with this many GPUs on each node leaves nothing there for another."""
    there = look.cluster.nodes.gpus_per_node
    return gpus == there if there else look.job.cpus_per_task is None


def ask_exclusive(look: Inputs, gpus: int) -> Setting | None:
    """``--exclusive``: the job's or the site's own, else for a job that takes all of its nodes."""
    theirs = merge_options(look)
    chosen = {**look.cluster.defaults.slurm, **look.job.slurm}
    if look.local or "exclusive" in theirs:
        return theirs.get("exclusive")
    refused = "exclusive" in look.cluster.refuses or "oversubscribe" in theirs
    if refused or "exclusive" in chosen or not takes_all(look, gpus):
        return None
    why = f"the job uses all {gpus} GPUs of each node" if gpus > 1 else "the job uses whole nodes"
    return Setting("", why, RULE)


def is_alone(look: Inputs, gpus: int) -> bool:
    """Whether no other job runs on the job's nodes, so that all CPUs and the memory are its own."""
    exclusive = ask_exclusive(look, gpus)
    return not look.local and exclusive is not None and exclusive.value in _ALONE


def ask_memory(look: Inputs, shape: Shape) -> Setting | None:
    """``--mem``: the job's, else all of a whole node, of which ``--exclusive`` takes none."""
    if look.job.mem is not None:
        return Setting(look.job.mem.format_slurm(), SelfEvident.MEMORY, look.cite_job("mem"))
    theirs = merge_options(look)
    if "mem" in look.cluster.refuses or {"mem-per-cpu", "mem-per-gpu"} & theirs.keys():
        return None
    refused = "exclusive" in look.cluster.refuses and "exclusive" not in theirs
    if shape.whole_nodes or (refused and takes_all(look, shape.gpus_per_node)):
        return Setting("0", "all memory of each node", RULE)
    return None


def ask_gpus(look: Inputs, shape: Shape) -> dict[str, Setting]:
    """GPUs in the site's style; a gres of the user's own (licences, disks) is joined to it."""
    gres = merge_options(look).get("gres")
    count, style = shape.gpus_per_node, look.cluster.gpu_request
    place = look.cite_job("gpus_per_node")
    if look.job.gpus_per_node is None:
        place = look.cite_cluster("nodes", "gpus_per_node")
    asked: dict[str, Setting] = {"gres": gres} if gres else {}
    if not count or style == "none":
        return asked
    if style == "gpus-per-node":
        return asked | {"gpus-per-node": Setting(str(count), SelfEvident.GPUS, place)}
    kind = f"gpu:{look.cluster.gpu_type}" if look.cluster.gpu_type else "gpu"
    kind = kind if style == "gres-typed" else "gpu"
    ours = f"{kind}:{count}"
    if gres:
        both = f"GPUs per node, plus the job's own gres ({gres.place})"
        return {"gres": Setting(f"{ours},{gres.value}", both, place)}
    return {"gres": Setting(ours, "GPUs per node, in this cluster's request style", place)}


def name_gpus(look: Inputs, shape: Shape) -> tuple[Word, ...]:
    """The GPUs of a step, for its srun: the words of the job's own request.

    A step of a job that named no GPUs gets none, also where the node came with some. Of two styles
    beside each other Slurm 26.05 makes an error.
    """
    if not shape.gpus_per_node:
        return ()
    words: list[Word] = [f"--{name}={one.value}" for name, one in ask_gpus(look, shape).items()]
    if look.cluster.gpu_request == "none":
        words.append(Raw(f"${{SLURM_GPUS_ON_NODE:+--gpus-per-node={shape.gpus_per_node}}}"))
    return tuple(words)


def unbind_gpus(look: Inputs, shape: Shape) -> tuple[Word, ...]:
    """``--gpu-bind=none`` against a default of the site's, for a step with one task a node."""
    known = shape.gpus_per_node > 0 and not look.has_older_slurm(_UNBINDS)
    return ("--gpu-bind=none",) if known else ()
