"""plain: the command once on every node, as it is. It starts the node's ranks itself, or has none.

Programs that start ranks of their own (composer, torchrun) read torch's variables as the world that
they shall join, so none is set for them. A job of one rank for which nobody named a launcher is
``plain`` too: its program is that rank, and finds a world of one.
"""

from __future__ import annotations

from jobgen.launch import RANK, Launch, LaunchRequest, export_ranks, join_lines
from jobgen.model.plan import Step

_NODE = 'export JOBGEN_NODE_RANK="$SLURM_NODEID" JOBGEN_NUM_NODES="$SLURM_NNODES"'


def launch(request: LaunchRequest) -> Launch:
    """One process a node, numbered as the nodes are."""
    alone = export_ranks("1", world="1", rank="0", index="0")
    text = "\n".join([_NODE if request.launcher.type else alone, join_lines(("exec", *RANK))])
    why = "the command runs once per node, unchanged"
    return Launch(Step("launch", "node", text, why=why, place=request.place))
