"""plain: the command once on every node, as it is. It starts more processes itself, or none."""

from __future__ import annotations

from jobgen.launch import RANK, Launch, Request, lines, ranks_env
from jobgen.model.plan import Step


def launch(request: Request) -> Launch:
    """One process a node, numbered as the nodes are."""
    ranks = ranks_env("1", world='"$SLURM_NTASKS"', rank='"$SLURM_PROCID"', index="0")
    why = "the command runs once on every node, as it is"
    text = "\n".join([ranks, lines(("exec", *RANK))])
    return Launch(Step("launch", "node", text, why=why, place=request.place))
