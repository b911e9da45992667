"""Which CPUs each rank of a node with several GPUs runs on: those near its GPU.

``rank.sh`` binds its rank. It finds the CPUs on the node if the profile does not list them.
"""

from __future__ import annotations

import re

from jobgen.errors import Place
from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.plan import Part, Shape
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.shell.programs import read_started

VARIABLE = "JOBGEN_GPU_CPUS"
_PROGRAMS = frozenset({"numactl", "taskset", "hwloc-bind"})
_OPTIONS = (
    r"--(cpu[-_]bind|numa[-_]binding|bind_cores_to_rank|bind_core_list|enable_cpu_affinity)(=|$)"
)
"""What binds ranks by itself: of srun, torchrun, DeepSpeed and accelerate."""
_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def bind_ranks(look: Inputs, shape: Shape, sized: Sized) -> Part:
    """The CPUs that the profile lists; empty if there are none or ranks are not bound."""
    several = shape.gpus_per_node > 1 and shape.ranks_per_node >= shape.gpus_per_node
    if not several or look.local:
        return Part("bind")
    off = _find_reason_off(look)
    if off is not None:
        sized.decide("bind", *off)
        return Part("bind")
    named = _read_profile(look, shape)
    why = "run each rank on the CPUs closest to its GPU"
    sized.decide("bind", "auto", why, named.place if named else cite_rule("bind"))
    return Part("bind", env={VARIABLE: named} if named else {})


def _find_reason_off(look: Inputs) -> tuple[str, str, Place] | None:
    """Value, reason and place where the user turned it off or binds the ranks in another way."""
    if look.job.bind == "off":
        return "off", SelfEvident.AS_ASKED, look.cite_job("bind")
    options = [match for word in look.job.launcher.args if (match := re.match(_OPTIONS, word))]
    if options:
        why = f"{options[0][0].rstrip('=')} already binds the ranks"
        return "off", why, look.cite_job("launcher", "args")
    names = (program.name for program in read_started(look.job.run))
    binder = next((name for name in names if name in _PROGRAMS), None)
    return ("off", f"{binder} already binds the ranks", look.cite_job("run")) if binder else None


def _read_profile(look: Inputs, shape: Shape) -> Setting | None:
    """The CPUs of each GPU by the profile, for a job whose ranks use the GPUs in their order."""
    known = look.cluster.nodes.gpu_cpus
    others = {**look.cluster.defaults.env, **look.job.env}.keys() & set(_DEVICES)
    if len(known) != shape.gpus_per_node or others:
        return None
    why = "CPUs close to each GPU, in rank order"
    near = [cpus for cpus in known for _ in range(shape.ranks_per_gpu)]
    return Setting(" ".join(near), why, look.cite_cluster("nodes", "gpu_cpus"))
