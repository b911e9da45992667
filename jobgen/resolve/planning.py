"""What the planner is asked about a job, what ``strategy: auto`` stands for, and whether it fits.

Everything here needs the sizes of the model and a GPU of the catalogue; without them nothing is
said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobgen.errors import Invalid
from jobgen.model.plan import Check, Shape
from jobgen.resolve.look import Look

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy import World
    from jobgen.strategy.choice.setups import Ask
    from jobgen.strategy.values import Sizes

AUTO = "auto"
UNFIT = "J251"
"""The code of a plan that does not fit into the GPUs' memory."""
_GIB = 1 << 30


class Chosen(NamedTuple):
    """What ``train`` comes to, and why where ``auto`` was asked for."""

    train: Train
    why: str = ""


def world(look: Look, size: Shape) -> World:
    """The ranks, and the network between their nodes."""
    from jobgen.strategy import World

    fabric = look.cluster.network.fabric
    return World(size.nodes, size.ranks_per_node, fabric, gpus=size.gpus_per_node > 0)


def asked(look: Look, size: Shape, launcher: str, train: Train) -> tuple[Ask | None, str]:
    """What the planner is asked; or None and, in words, what it would have to know."""
    from jobgen.strategy.sizes import architecture, sizes

    arch, doubt = architecture(train, look.facts.texts)
    if arch is None or not arch.vocab:
        return None, doubt
    if not size.gpus_per_node:
        return None, "the job has no GPUs"
    from jobgen.strategy.speed.machine import machine

    found = machine(look.cluster)
    if found is None:
        return None, f"cluster {look.cluster.name} does not name its GPU (nodes.gpu)"
    from jobgen.strategy.choice.setups import VARIED, Ask
    from jobgen.strategy.shapes import model

    known, _ = sizes(train, look.facts.texts)
    ranks = world(look, size)
    written = frozenset(key for key in train.keys if look.has_written("train", key))
    fixed = written.intersection(VARIED)
    return Ask(train, model(arch), known, ranks, found, launcher, fixed, written), ""


def decided(look: Look, size: Shape, launcher: str) -> Chosen | None:
    """The job's ``train`` with the strategy that ``auto`` stands for; None where it has none.

    Raises Invalid where ``auto`` cannot be decided.
    """
    train = look.job.train
    if train is None or train.strategy.type != AUTO:
        return Chosen(train) if train else None
    simple = train.replace(strategy="ddp")
    if not size.gpus_per_node:
        return Chosen(simple, "auto: without GPUs the simplest, as their memory is not at stake")
    ask, missing = asked(look, size, launcher, simple)
    if ask is None:
        message = f"train: strategy auto needs to know the model and the GPU: {missing}"
        hint = "write train.model as a Hub id, a config.json or sizes; or name a strategy"
        raise Invalid(look.wrong_job("J250", message, "train", "strategy", hint=hint))
    from jobgen.strategy.choice import advise

    best = advise.first(ask) or advise.least(ask)
    if best is None:
        message = "train: no strategy goes with these ranks, this batch and this framework"
        hint = "name a strategy: its own fault is said then"
        raise Invalid(look.wrong_job("J250", message, "train", "strategy", hint=hint))
    rung, found = best
    need = f"{found.memory.nvidia_smi / _GIB:.1f} of {ask.machine.memory / _GIB:.1f} GiB"
    said = {"fits": "the simplest that fits", "tight": "the simplest that goes in, tightly"}
    why = f"auto: {said.get(found.verdict, 'nothing fits, this needs least')}, {need} of a GPU"
    return Chosen(rung.train, why)


def check(look: Look, size: Shape, launcher: str, sizes: Sizes, train: Train) -> Check | None:
    """Whether what was decided fits; None where it cannot be known."""
    ask, _ = asked(look, size, launcher, train)
    if ask is None:
        return None
    from jobgen.strategy.choice.advise import option
    from jobgen.strategy.choice.ladder import Rung

    found = option(Rung(0, train.strategy.type, train), ask._replace(sizes=sizes), speed=False)
    need, limit = found.memory.nvidia_smi / _GIB, ask.machine.memory / _GIB
    shown = f"{need:.0f}" if need >= 100 else f"{need:.1f}"
    message = f"needs about {shown} GiB, the GPU has {limit:.1f} GiB"
    if found.verdict == "fits":
        return Check("ok", f"fits: {message}")
    place = look.spec.at("train", _decisive(look))
    if found.verdict == "tight":
        hint = "jobgen plan shows what needs it"
        return Check("warn", f"tight: {message}", UNFIT, hint, place)
    if found.memory.nvidia_smi <= ask.machine.memory:
        message = f"{message}; but {found.note}"
    hint = "'What would help' in jobgen plan names the cheapest changes"
    return Check("fail", f"does not fit: {message}", UNFIT, hint, place)


def _decisive(look: Look) -> str:
    """The key of ``train`` that most decides how much memory is needed."""
    return "strategy" if look.has_written("train", "strategy") else "model"
