"""srun: one task a rank, and no launcher between. Ranks follow the order of the nodes."""

from __future__ import annotations

from jobgen.launch import RANK, Launch, LaunchRequest, expand_args, export_ranks, join_lines
from jobgen.model.plan import Step


def launch(request: LaunchRequest) -> Launch:
    """``node.sh`` is the rank: it takes its number from Slurm."""
    ranks = export_ranks(
        str(request.shape.ranks_per_node),
        world='"$SLURM_NTASKS"',
        rank='"$SLURM_PROCID"',
        index='"$SLURM_LOCALID"',
    )
    why = "srun starts every rank"
    text = "\n".join([ranks, join_lines(("exec", *RANK))])
    step = Step("launch", "rank", text, why=why, place=request.place)
    return Launch(step, srun=expand_args(request.launcher.args))
