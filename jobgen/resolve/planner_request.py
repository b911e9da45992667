"""What the planner is asked about a job, what ``strategy: auto`` stands for, and whether it fits.

Everything here needs the sizes of the model and a GPU of the catalogue; without them nothing is
said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobgen.errors import Invalid
from jobgen.model.plan import Estimate, PlanCheck, Shape
from jobgen.model.trained import ModelShape
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy import RankLayout
    from jobgen.strategy.choice.offer import StrategyOption
    from jobgen.strategy.choice.setups import Ask

UNFIT = "J251"
"""The code of a plan that does not fit into the GPUs' memory."""
_GIB = 1 << 30


class PlannerRequest(NamedTuple):
    """What the planner is asked about a job that has ``train``."""

    ask: Ask | None
    """None if the model, its sizes or the GPU are not known. With ``auto`` it names plain DDP."""
    missing: str = ""
    """What the planner would have to know."""
    auto: bool = False
    """Whether the planner chooses the strategy."""


class ResolvedTrain(NamedTuple):
    """What ``train`` comes to; if ``auto`` chose it, why, and the estimate that decided it."""

    train: Train
    why: str = ""
    estimate: Estimate | None = None


def describe_world(look: Inputs, size: Shape) -> RankLayout:
    """The ranks, and the network between their nodes."""
    from jobgen.strategy import RankLayout

    fabric = look.cluster.network.fabric
    return RankLayout(size.nodes, size.ranks_per_node, fabric, gpus=size.gpus_per_node > 0)


def build_request(look: Inputs, size: Shape, launcher: str, train: Train) -> PlannerRequest:
    """The request; or what the planner would have to know, in words."""
    from jobgen.strategy.model_sizes import read_architecture, read_sizes

    auto = train.strategy.type == "auto"
    train = train.replace(strategy="ddp") if auto else train
    arch, doubt = read_architecture(train, look.facts.texts)
    if arch is None or not arch.vocab:
        return PlannerRequest(None, doubt, auto)
    if not size.gpus_per_node:
        return PlannerRequest(None, "the job has no GPUs", auto)
    from jobgen.strategy.speed.machine_model import read_machine

    found = read_machine(look.cluster)
    if found is None:
        missing = f"cluster {look.cluster.name} sets no nodes.gpu"
        return PlannerRequest(None, missing, auto)
    from jobgen.strategy.choice.setups import VARIED, Ask
    from jobgen.strategy.shapes import build_model

    known, _ = read_sizes(train, look.facts.texts)
    ranks = describe_world(look, size)
    written = frozenset(key for key in train.keys if look.has_written("train", key))
    fixed = written.intersection(VARIED)
    ask = Ask(train, build_model(arch), known, ranks, found, launcher, fixed, written)
    return PlannerRequest(ask, auto=auto)


def choose_strategy(
    look: Inputs, size: Shape, train: Train, request: PlannerRequest
) -> ResolvedTrain:
    """The job's ``train`` with the strategy that ``auto`` stands for.

    Raises Invalid where ``auto`` cannot be decided.
    """
    if not request.auto:
        return ResolvedTrain(train)
    if not size.gpus_per_node:
        simple = train.replace(strategy="ddp")
        return ResolvedTrain(simple, "auto: the simplest strategy, because the job uses no GPUs")
    if request.ask is None:
        message = f"train: strategy: auto needs the model and the GPU: {request.missing}"
        sizes = "set train.model to a Hub id, a config.json or sizes"
        if isinstance(train.model, ModelShape) and train.model.vocab is None:
            sizes = "add vocab: 128256 (that of your tokenizer) to train.model"
        hint = f"{sizes}; or name a strategy"
        raise Invalid(look.diagnose_job("J250", message, "train", "strategy", hint=hint))
    from jobgen.strategy.choice import advise

    best = advise.choose_first(request.ask) or advise.find_least(request.ask)
    if best is None:
        message = "train: no strategy supports this combination of ranks, batch and framework"
        hint = "name a strategy to see why it fails"
        raise Invalid(look.diagnose_job("J250", message, "train", "strategy", hint=hint))
    rung, found = best
    estimate = _summarize(found, request.ask)
    need = f"{estimate.total / _GIB:.1f} of {estimate.limit / _GIB:.1f} GiB"
    said = {"fits": "simplest strategy that fits", "tight": "simplest strategy that fits, barely"}
    why = f"auto: {said.get(found.verdict, 'nothing fits; this one needs least')}, {need} per GPU"
    return ResolvedTrain(rung.train, why, estimate)


def estimate_memory(chosen: ResolvedTrain, request: PlannerRequest) -> Estimate | None:
    """The memory that the strategy needs; None where it cannot be known."""
    if chosen.estimate is not None or request.ask is None:
        return chosen.estimate
    from jobgen.strategy.choice.advise import estimate_option
    from jobgen.strategy.choice.ladder import Rung

    rung = Rung(0, chosen.train.strategy.type, chosen.train)
    return _summarize(estimate_option(rung, request.ask, speed=False), request.ask)


def _summarize(found: StrategyOption, ask: Ask) -> Estimate:
    memory = found.memory
    return Estimate(
        memory.get_peak("allocated"),
        memory.get_peak("reserved"),
        memory.nvidia_smi,
        ask.machine.memory,
        found.verdict,
        found.note,
    )


def check_memory(look: Inputs, estimate: Estimate) -> PlanCheck:
    """Whether what was decided fits."""
    need, limit = estimate.total / _GIB, estimate.limit / _GIB
    shown = f"{need:.0f}" if need >= 100 else f"{need:.1f}"
    message = f"needs about {shown} GiB of the GPU's {limit:.1f} GiB"
    if estimate.verdict == "fits":
        return PlanCheck("ok", f"fits: {message}")
    place = look.spec.find_place("train", _decisive(look))
    if estimate.verdict == "tight":
        hint = "see what uses the memory: jobgen plan"
        return PlanCheck("warn", f"tight: {message}", UNFIT, hint, place)
    if estimate.total <= estimate.limit:
        message = f"{estimate.note}; {message}"
    hint = "see the cheapest changes under 'What would help': jobgen plan"
    return PlanCheck("fail", f"does not fit: {message}", UNFIT, hint, place)


def _decisive(look: Inputs) -> str:
    """The key of ``train`` that most decides how much memory is needed."""
    return "strategy" if look.has_written("train", "strategy") else "model"
