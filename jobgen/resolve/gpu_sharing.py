"""Several ranks per GPU: how many a node runs, and what NCCL accepts of them.

``rank.sh`` shows each rank one GPU, so that no program has to choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Place
from jobgen.model.decision import SelfEvident, Setting
from jobgen.model.launchers import LAUNCHERS
from jobgen.model.plan import Part, Shape
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.resolve.shape import Sized

VARIABLE = "JOBGEN_RANKS_PER_GPU"
_KEY = "ranks_per_gpu"
_ALLOWED = "NCCL_MULTI_RANK_GPU_ENABLE"
"""Off by default, and unknown before NCCL 2.30, which fails in any case ("Duplicate GPU detected"):
NVIDIA/nccl, src/init.cc, where the communicator gathers the GPU of each rank."""


def count_ranks(look: Inputs, gpus: int, place: Place, sized: Sized) -> int:
    """Ranks on a node with these GPUs, whose number stands at ``place``."""
    each, procs = look.job.ranks_per_gpu, look.job.procs_per_node
    if each is None:
        sized.decide("ranks_per_node", gpus, "one rank per GPU", place)
        if procs is not None:
            sized.notes.append(_ignore_procs(look))
        return gpus
    ranks = gpus * each
    sized.decide(_KEY, each, SelfEvident.AS_ASKED, look.cite_job(_KEY))
    sized.decide("ranks_per_node", ranks, f"GPUs per node x {each}", look.cite_job(_KEY))
    if procs is not None and procs != ranks:
        message = f"procs_per_node: {procs}, but {_KEY}: {each} runs {ranks} ranks per node"
        hint = f"remove procs_per_node, or set it to {ranks}"
        sized.problems.append(look.diagnose_job("J260", message, "procs_per_node", hint=hint))
    return ranks


def _ignore_procs(look: Inputs) -> Diagnostic:
    asked, name = look.job.procs_per_node, look.cluster.name
    message = f"procs_per_node: {asked} is ignored: {name} has GPUs and runs one rank per GPU"
    hint = f"set gpus_per_node: 0 to run without GPUs, or {_KEY} to share them"
    place = look.spec.find_place("procs_per_node")
    return Diagnostic("J227", message, place, hint, severity="note")


def check_sharing(look: Inputs, shape: Shape, launcher: str, sized: Sized) -> None:
    """Report what the ranks of one GPU cannot do: form an NCCL communicator."""
    each = look.job.ranks_per_gpu or 1
    if each == 1 or not shape.gpus_per_node:
        return
    place = look.spec.find_place(_KEY)
    if LAUNCHERS[launcher].task == "command":
        message = f"{_KEY} has no effect with {launcher}: the command runs once per node"
        hint = "set launcher: srun to start the ranks"
        if not look.step:
            sized.notes.append(Diagnostic("J262", message, place, hint, severity="warning"))
        return
    if look.job.preflight == "full":
        message = f"preflight: full measures an all-reduce with one rank per GPU, not {each}"
        hint = "set preflight: auto"
        sized.problems.append(look.diagnose_job("J260", message, "preflight", hint=hint))
    if _allows_sharing(look):
        if look.job.train is not None:
            message = f"memory and speed are estimated per rank, for 1/{each} of a GPU"
            hint = f"for a GPU, multiply them by {each}"
            sized.notes.append(Diagnostic("J263", message, place, hint, severity="note"))
        return
    library = "RCCL" if shape.amd else "NCCL"
    message = f"{_KEY}: {each}, but {library} refuses two ranks of a communicator on one GPU"
    hint = "" if shape.amd else f"; NCCL 2.30 or later: nccl: {{env: {{{_ALLOWED}: 1}}}}"
    if look.job.train is None:
        hint = f"independent ranks, gloo and MPI work{hint}"
        sized.notes.append(Diagnostic("J261", message, place, hint, severity="note"))
        return
    hint = f"remove {_KEY}, or train if the program does not use {library}{hint}"
    sized.problems.append(look.diagnose_job("J261", message, _KEY, hint=hint))


def _allows_sharing(look: Inputs) -> bool:
    """Whether the ranks' environment lets NCCL use a GPU for several ranks."""
    env = {**look.cluster.defaults.env, **look.job.nccl.env, **look.job.env}
    return env.get(_ALLOWED) == "1"


def show_gpus(look: Inputs, shape: Shape) -> Part:
    """What tells rank.sh to show each rank one GPU; empty if each has a GPU of its own."""
    if shape.ranks_per_gpu == 1:
        return Part("sharing")
    why = "neighboring ranks share a GPU; each sees only that one"
    setting = Setting(str(shape.ranks_per_gpu), why, look.cite_job(_KEY))
    return Part("sharing", env={VARIABLE: setting})
