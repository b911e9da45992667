"""composer: one launcher on each node, which starts the node's ranks.

It sets torch's variables and has no rendezvous of its own: the ranks meet at ``MASTER_ADDR``, which
rank 0 serves. Read: MosaicML Composer 0.32, composer/cli/launcher.py.
"""

from __future__ import annotations

from jobgen.launch import (
    RANK,
    Launch,
    LaunchRequest,
    expand_args,
    join_lines,
    name_program,
    require_program,
)
from jobgen.model.plan import Step
from jobgen.shell import Raw


def launch(request: LaunchRequest) -> Launch:
    """One ``composer`` on each node; ranks follow the order of the nodes."""
    shape = request.shape
    command = join_lines(
        (
            "exec",
            *name_program(request, "composer"),
            f"--nproc={shape.ranks_per_node}",
            f"--world_size={shape.world}",
        ),
        (
            Raw('--node_rank="$SLURM_NODEID"'),
            Raw(f'--base_rank="$((SLURM_NODEID * {shape.ranks_per_node}))"'),
        ),
        (Raw('--master_addr="$MASTER_ADDR"'), Raw('--master_port="$MASTER_PORT"')),
        expand_args(request.launcher.args),
        ("--command_mode", *RANK),
    )
    why = "one composer per node starts the node's ranks"
    text = f"{require_program('composer', request)}\n{command}"
    return Launch(Step("launch", "node", text, why=why, place=request.place))
