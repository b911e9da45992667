"""What the planner answers: strategies side by side, the one that was chosen, and what would help.

Bytes, seconds, tokens for each second; a part is 1.0 for all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware, GpuMemory, StepTime, Verdict, WorkUnit
from jobgen.strategy.setup import Setup, get_work_unit


class StrategyOption(NamedTuple):
    """One way to train, with what it is expected to take: a row of the table."""

    name: str
    """Short and different in every row: ``fsdp``, ``fsdp+full``, ``zero3+cpu``."""
    title: str
    """In the words of the field: ``FSDP FULL_SHARD, full recompute``."""
    setup: Setup
    memory: GpuMemory
    step: StepTime | None
    """None where the speed is not known."""
    verdict: Verdict
    note: str = ""
    """Why it was chosen, why not, or why the verdict is unknown."""
    chosen: bool = False
    optimizer: str = "adamw"
    """Its name in the job."""


Growth = Literal["", "GPUs", "nodes"]
"""What a change takes of the cluster that the job has not: more GPUs of its nodes, or more nodes,
which may have more GPUs each, too."""


class Lever(NamedTuple):
    """One cheap change where nothing fits or it is tight, or several that help only together."""

    changes: tuple[str, ...]
    """As they are written in the job: ``train.activation_checkpointing: full``."""
    saves: float
    """Bytes of a GPU."""
    slower: float
    """The part that a token takes longer: 0.33 for a third; below 0 where it takes less."""
    memory: float
    """Bytes of a GPU after it."""
    verdict: Verdict
    note: str = ""
    """What else it needs, or what the planner chooses then."""
    possible: bool = True
    """Whether the cluster has the nodes, and the job file can set it."""
    needs: Growth = ""
    rate: float = 0.0
    """Tokens or samples per second of all ranks after it; 0 where it is not known."""

    @property
    def fits(self) -> bool:
        """Whether it is enough."""
        return self.verdict in {"fits", "tight"}

    @property
    def change(self) -> str:
        """The changes in a line, with the note."""
        note = f" ({self.note})" if self.note else ""
        return f"{', '.join(self.changes)}{note}"


class Faster(NamedTuple):
    """The fastest option that fits, where it is clearly faster than the one that is shown."""

    option: StrategyOption
    changes: tuple[str, ...]
    """As they are written in the job: ``train.strategy: zero1``."""
    gain: float
    """More tokens per second: 0.33 for a third."""


class Scale(NamedTuple):
    """A job on so many nodes: one point of the curve."""

    nodes: int
    option: StrategyOption
    rate: float
    """Tokens or samples for each second, of all ranks together; 0 where it is not known."""
    efficiency: float
    """Of the rate that the smallest number of nodes that fits would give, multiplied."""


class Offer(NamedTuple):
    """A job's work on one cluster: a column of the comparison."""

    cluster: str
    option: StrategyOption
    gpu_hours: float
    """For the work that is compared."""
    amount: float | None = None
    """Money for these GPU-hours; None where the profile has no price."""
    currency: str = ""
    owned: float | None = None
    """What the hardware cost to buy, where it is owned; ``amount`` is then what running costs."""


class AssumedRate(NamedTuple):
    """How fast the job is where what is assumed of its program is otherwise."""

    rate: float
    """Tokens, or samples, per second of all GPUs."""
    title: str
    """The strategy that ``auto`` then chooses; empty if it is the same."""


class Advice(NamedTuple):
    """Everything that the planner says of one job on one cluster."""

    machine: ClusterHardware
    limit: float
    """Bytes of a GPU that may be used."""
    options: tuple[StrategyOption, ...]
    """The simplest first."""
    chosen: StrategyOption | None
    """None where nothing fits, and nothing was asked for by name."""
    levers: tuple[Lever, ...] = ()
    """What fits first, then what is tight; of each the cheapest first."""
    smallest_by: str = ""
    """The title of what fits on them."""
    smallest_nodes: int | None = None
    """The fewest nodes on which some strategy fits; None where it was not looked for, or none."""
    scale: tuple[Scale, ...] = ()
    doubts: tuple[str, ...] = ()
    """What could make the whole answer wrong, and what was assumed."""
    why: tuple[str, ...] = ()
    """How the choice was made, a sentence for each rung of the ladder."""
    factor: float = 1.0
    """What estimates of memory are multiplied by, as measured runs calibrate them."""
    assumed_network: str = ""
    """The bandwidth that times of a step assume; empty where it is known, or nothing is sent."""
    scale_network: str = ""
    """What ``scale`` assumes."""
    others: tuple[StrategyOption, ...] = ()
    """Options that were compared as well, and are not in the short table."""
    untried: tuple[str, ...] = ()
    """Keys of ``train`` that were not varied, because simpler changes are enough."""
    faster: Faster | None = None
    """None where nothing that fits is clearly faster."""
    assumed_rates: Mapping[str, AssumedRate] = {}
    """Alternatives of what is assumed that make the job clearly faster."""

    @property
    def unit(self) -> WorkUnit:
        """What a step's work is counted in."""
        option = self.first_option
        return get_work_unit(option.setup) if option else "tokens"

    @property
    def first_option(self) -> StrategyOption | None:
        """What is drawn first: the chosen one, else the one that needs least memory."""
        if self.chosen is not None:
            return self.chosen
        return min(self.options, key=lambda option: option.memory.needed, default=None)
