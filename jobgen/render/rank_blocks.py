"""Which blocks of rank.sh a job needs."""

from __future__ import annotations

from jobgen.model.launchers import LAUNCHERS
from jobgen.model.plan import Plan


def list_blocks(plan: Plan, *, of_part: bool = False, ends_early: bool = False) -> frozenset[str]:
    """The blocks of rank.sh that this job needs, or its part: a step, or a group."""
    inside, blocks = plan.container is not None, LAUNCHERS[plan.launcher.value].blocks
    launch = next(step for step in plan.steps if step.name == "launch")
    guard = inside or ends_early or "guard" in blocks
    bind = "bind" in plan.other and plan.other["bind"].value == "auto"
    search = bind and "JOBGEN_GPU_CPUS" not in plan.env
    sharing = plan.shape.ranks_per_gpu > 1
    top = LAUNCHERS[plan.launcher.value].task != "agent"
    needs = {
        "steps": of_part,
        "alone": not of_part,
        "until": ends_early,
        "secrets": bool(plan.secrets),
        "pdsh": "deepspeed" in blocks and launch.scope == "once",
        "hub": "JOBGEN_HUB_MODEL" in plan.env,
        "container": inside,
        "packed": plan.shape.packing is not None,
        "top": top,
        "forwards": inside or top,
        "packed_forwards": (inside or top) and plan.shape.packing is not None,
        "guard": guard,
        "unguarded": not guard,
        "bind": bind,
        "separate": search and not sharing,
        "neighbors": search and sharing,
        "sharing": sharing,
        "sharing_nvidia": sharing and not plan.shape.amd,
        "sharing_amd": sharing and plan.shape.amd,
        "known": bind and not search,
        "search": search,
        "nvidia": search and not plan.shape.amd,
        "amd": search and plan.shape.amd,
    }
    return frozenset([*blocks, *(name for name, needed in needs.items() if needed)])
