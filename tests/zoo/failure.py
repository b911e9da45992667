"""One failure: the truth about it, and how it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FAILED = "FAILED"
Kind = Literal["jobgen", "sbatch"]


@dataclass(frozen=True)
class Failure:
    """A row of the table. Commands are bash."""

    name: str
    cause: str
    what: str
    """One sentence: what was done, or what happened."""
    run: str = ""
    """The program and its arguments."""
    rank: int | None = None
    node: str | None = None
    retry: str = "no"
    """By where the cause sits. ``other_nodes``: in one node that is not as the others are and that
    Slurm would use again; without it the unchanged command runs. ``yes``: in nothing that stays, as
    a signal from outside, a cancelled job or a node that Slurm has taken out since. ``no``: in the
    command, its time limit, or all nodes alike, as a path that is too small on each of them."""
    all_ranks: bool = False
    """Whether all ranks failed alike."""
    also: tuple[str, ...] = ()
    why_also: str = ""

    by: Kind = "jobgen"
    """Who wrote the batch script: jobgen, or a person."""
    launcher: str = "torchrun"
    on: tuple[str, ...] = ("n1", "n2")
    ranks: int = 2
    """Ranks on each node."""
    env: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    """Before the launcher: on each node under jobgen, in the batch script of a person."""
    before: str = ""
    """In the program's folder, before it is submitted."""
    prepare: Mapping[str, str] = field(default_factory=dict)
    """Host → what is done there as root before the job."""
    repair: Mapping[str, str] = field(default_factory=dict)
    """Host → what is done there as root after the job."""
    act: tuple[str, ...] = ()
    """What is done while it runs: a name of ``ACTS`` and its words."""
    when: str = "step 5 "
    """The text in its logs that this waits for."""
    launch: str = ""
    """The person's own lines instead of the launcher's usual ones."""
    log: Literal["one", "label", "split", "ranks", "tree"] = "one"
    """A person's logs: one file, lines with ``srun --label``, .out and .err, one for each rank,
    torchrun's tree."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """More keys of job.yaml."""
    options: tuple[str, ...] = ()
    """More options of a person's sbatch."""
    refused: bool = False
    """Whether sbatch refuses the job."""
    alone: bool = False
    """Whether nothing else may run beside it."""
    cluster: Literal["usual", "memory"] = "usual"
    """``memory``: Slurm enforces the memory limit of jobs."""
    state: str = FAILED
    """The state that Slurm ends the job in."""

    @property
    def costs_node(self) -> bool:
        """Whether the cluster has one node less afterwards."""
        return self.act[:1] == ("power off",)

    @property
    def truth(self) -> dict[str, Any]:
        """What ``truth.json`` says, but for the files."""
        more = {"all_ranks": True} if self.all_ranks else {}
        other = {"also": list(self.also), "why_also": self.why_also} if self.also else {}
        return {
            "cause": self.cause,
            "rank": self.rank,
            "node": self.node,
            "retry": self.retry,
            **more,
            **other,
            "launcher": self.launcher,
            "what": self.what,
            "source": "live",
        }
