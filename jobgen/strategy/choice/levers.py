"""What to change where nothing fits: each cheap change by itself, and the fewest nodes that do."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen import strategy
from jobgen.model.train import Offload
from jobgen.strategy.choice.advise import (
    choose_first,
    estimate_option,
    has_fit,
    is_over_host,
    judge_memory,
)
from jobgen.strategy.choice.ladder import Rung, change_nodes, is_refused
from jobgen.strategy.choice.offer import Lever, StrategyOption
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.memory import estimate
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed.step_time import compute_step

MOST = 4096
"""Nodes, where the search for the fewest that work ends."""


def find_levers(start: StrategyOption, ask: Ask) -> tuple[Lever, ...]:
    """Single changes of this option that save memory: those that make it fit first, of these the
    cheapest, then those that save most."""
    found = [lever for lever in _all(start, ask) if lever.saves > 0]
    return tuple(sorted(found, key=lambda one: (not one.fits, one.slower if one.fits else 0)))


def _all(start: StrategyOption, ask: Ask) -> Iterator[Lever]:
    own, train = start.setup, ask.train
    before = compute_step(own, ask.machine).seconds / own.batch.total
    if not is_over_host(start.memory, ask):  # these leave the host's memory as it is
        for change, asked in _setups(own, ask):
            yield _lever(change, start, asked, ask, before)
    trains = [
        ("train.offload: optimizer", train.replace(offload=Offload(what="optimizer"))),
        ("train.offload: both", train.replace(offload=Offload(what="both"))),
    ]
    for change, changed in trains:
        if next(strategy.check_train(changed, ask.sizes, ask.world, launcher=ask.launcher), None):
            continue
        if is_refused(changed, ask):
            continue
        found = estimate_option(Rung(4, change, changed), ask)
        yield _lever(change, start, found.setup, ask, before)
    twice = change_nodes(ask, 2 * ask.world.nodes)
    if (
        next(strategy.check_train(train, ask.sizes, twice.world, launcher=ask.launcher), None)
        is None
    ):
        found = estimate_option(Rung(0, "", train), twice)
        yield _lever(f"nodes: {twice.world.nodes}", start, found.setup, twice, before)


def _setups(own: Setup, ask: Ask) -> Iterator[tuple[str, Setup]]:
    """Changes that leave the ranks as they are."""
    if own.loss == "plain":
        yield (
            "train.loss: fused (Liger or cut cross entropy in the program)",
            own._replace(loss="fused"),
        )
    for kind in ("selective", "full"):
        less = own.recompute == "none" or (own.recompute, kind) == ("selective", "full")
        if less and not is_refused(ask.train.replace(activation_checkpointing=kind), ask):
            yield f"train.activation_checkpointing: {kind}", own._replace(recompute=kind)
    if own.batch.micro > 1:
        half = own.batch.micro // 2
        batch = own.batch._replace(micro=half, accumulation=own.batch.accumulation * 2)
        yield f"train.micro_batch: {half}", own._replace(batch=batch)
    if own.recipe.moments >= 8 and own.adapters is None:
        lean = own.recipe._replace(moments=2.03, embedding_moments=8.0)
        yield "train.optimizer: adamw8bit", own._replace(recipe=lean)


def _lever(change: str, start: StrategyOption, asked: Setup, ask: Ask, before: float) -> Lever:
    """Slower is by the seconds of a sample."""
    memory = estimate(asked).scale(ask.factor)
    after = compute_step(asked, ask.machine).seconds / asked.batch.total
    return Lever(
        change,
        start.memory.nvidia_smi - memory.nvidia_smi,
        after / before - 1,
        memory.nvidia_smi,
        judge_memory(memory, ask) in {"fits", "tight"},
    )


def find_fewest_nodes(ask: Ask, most: int = MOST) -> tuple[int, str] | None:
    """The fewest nodes on which anything fits, and the title of the simplest that does; None where
    not even the most do."""
    high = 1
    while high <= most and not has_fit(change_nodes(ask, high)):
        high *= 2
    for nodes in range(high // 2 + 1, min(high, most) + 1):
        found = choose_first(change_nodes(ask, nodes))
        if found is not None:
            return nodes, found[1].title
    return None
