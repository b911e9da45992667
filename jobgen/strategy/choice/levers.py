"""What to change where nothing fits: each cheap change by itself, the simplest changes that are
enough together, and the fewest nodes that do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen import strategy
from jobgen.model.train import Offload
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.advise import (
    choose_first,
    estimate_option,
    estimate_step,
    has_fit,
    is_over_host,
    judge_memory,
)
from jobgen.strategy.choice.ladder import Rung, change_nodes, is_refused
from jobgen.strategy.choice.offer import Lever, StrategyOption
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.memory import estimate
from jobgen.strategy.setup import Setup

if TYPE_CHECKING:
    from jobgen.model.train import Train

MOST = 4096
"""Nodes, where the search for the fewest that work ends."""
_ORDER = {"fits": 0, "tight": 1}
"""What helps with room to spare stands before what is tight."""


class Help(NamedTuple):
    """What helps where an option does not fit."""

    levers: tuple[Lever, ...]
    smallest_nodes: int | None = None
    """The fewest nodes on which anything fits; None where not even the most do."""
    smallest_by: str = ""
    """The title of the simplest that fits on them."""


def find_help(start: StrategyOption, ask: Ask, *, auto: bool = False) -> Help:
    """What to change of this option: single changes, the simplest changes that are enough together,
    and the fewest nodes. With ``auto`` the planner makes the other changes itself."""
    fewest = find_fewest_nodes(ask)
    nodes, title = fewest or (None, "")
    single = find_levers(start, ask)
    together = () if nodes is None else tuple(_combine(start, ask, nodes, auto=auto))
    if any(lever.verdict == "fits" for lever in single):  # then several at once help nobody
        together = tuple(lever for lever in together if len(lever.changes) == 1)
    known = {lever.changes for lever in together}
    others = (lever for lever in single if lever.changes not in known)
    return Help(_arrange((*together, *others)), nodes, title)


def find_levers(start: StrategyOption, ask: Ask) -> tuple[Lever, ...]:
    """Single changes of this option that save memory, as they are arranged."""
    return _arrange(tuple(lever for lever in _all(start, ask) if lever.saves > 0))


def _arrange(levers: tuple[Lever, ...]) -> tuple[Lever, ...]:
    """What makes it fit first, of these the cheapest; then those that save most."""

    def key(lever: Lever) -> tuple[int, float]:
        return _ORDER.get(lever.verdict, 2), lever.slower if lever.fits else -lever.saves

    return tuple(sorted(levers, key=key))


def _combine(start: StrategyOption, ask: Ask, fewest: int, *, auto: bool) -> Iterator[Lever]:
    """The simplest strategy that fits on the job's nodes, or on more where it must, as changes."""
    there = ask if fewest <= ask.world.nodes else change_nodes(ask, fewest)
    best = choose_first(there)
    if best is None:  # fewer nodes would do, but not as many as the job has
        return
    rung, option = best
    changes = () if auto else tuple(_compare_trains(ask.train, rung.train))
    notes = [f"auto chooses {option.title}"] if auto else []
    if there.world.nodes != ask.world.nodes:
        changes += (f"nodes: {there.world.nodes}",)
    limit = ask.machine.nodes
    possible = limit is None or there.world.nodes <= max(limit, ask.world.nodes)
    notes += [] if possible else ["more than the cluster has"]
    if changes:
        before = _time_sample(start.setup, ask)
        lever = _lever(changes, start, option.setup, there, before)
        yield lever._replace(note="; ".join(notes), possible=possible)


def _time_sample(setup: Setup, ask: Ask) -> float:
    """Seconds of a sample; always 1 where the time is not known."""
    step = estimate_step(setup, ask)
    return 1.0 if step is None else step.seconds / setup.batch.total


def _compare_trains(old: Train, new: Train) -> Iterator[str]:
    """Keys of ``train`` that the planner has changed, as the job writes them."""
    if old.strategy.type != new.strategy.type:
        yield f"train.strategy: {new.strategy.type}"
    for key in ("tp", "pp", "activation_checkpointing"):
        if getattr(old, key) != getattr(new, key):
            yield f"train.{key}: {getattr(new, key)}"
    if old.offload.what != new.offload.what:
        yield f"train.offload: {new.offload.what}"


def _all(start: StrategyOption, ask: Ask) -> Iterator[Lever]:
    own, train = start.setup, ask.train
    before = _time_sample(own, ask)
    if not is_over_host(start.memory, ask):  # these leave the host's memory as it is
        for change, asked in _setups(own, ask):
            yield _lever((change,), start, asked, ask, before)
        if own.loss == "plain" and own.measured is None:
            fused = own._replace(loss="fused")
            lever = _lever(("train.loss: fused",), start, fused, ask, before)
            yield lever._replace(note="Liger or cut cross entropy in the program")
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
        yield _lever((change,), start, found.setup, ask, before)
    twice = change_nodes(ask, 2 * ask.world.nodes)
    there = ask.machine.nodes is None or twice.world.nodes <= ask.machine.nodes
    faults = strategy.check_train(train, ask.sizes, twice.world, launcher=ask.launcher)
    if there and next(faults, None) is None:
        found = estimate_option(Rung(0, "", train), twice)
        yield _lever((f"nodes: {twice.world.nodes}",), start, found.setup, twice, before)


def _setups(own: Setup, ask: Ask) -> Iterator[tuple[str, Setup]]:
    """Changes that leave the ranks as they are."""
    for kind in ("selective", "full"):
        less = own.recompute == "none" or (own.recompute, kind) == ("selective", "full")
        if own.measured is not None and kind not in {t.recompute for t in own.measured.traces}:
            continue
        if less and not is_refused(ask.train.replace(activation_checkpointing=kind), ask):
            yield f"train.activation_checkpointing: {kind}", own._replace(recompute=kind)
    if own.batch.micro > 1:
        less_at_once = _shrink_batch(own, ask)
        yield f"train.micro_batch: {less_at_once.batch.micro}", less_at_once
    if own.recipe.moments >= 8 and own.adapters is None:
        lean = own.recipe._replace(moments=2.03, embedding_moments=8.0)
        yield "train.optimizer: adamw8bit", own._replace(recipe=lean)


def _shrink_batch(own: Setup, ask: Ask) -> Setup:
    """The same with the largest of halved micro-batches that fits, or is tight; else the half."""
    halves: dict[str, Setup] = {}
    batch, micro = own.batch, own.batch.micro
    while micro > 1 and "fits" not in halves:
        micro //= 2
        steps = batch.accumulation * (batch.micro // micro)
        asked = own._replace(batch=batch._replace(micro=micro, accumulation=steps))
        halves.setdefault(judge_memory(estimate(asked).scale(ask.factor), ask), asked)
    return halves.get("fits") or halves.get("tight") or next(iter(halves.values()))


def _lever(
    changes: tuple[str, ...], start: StrategyOption, asked: Setup, ask: Ask, before: float
) -> Lever:
    """Slower is by the seconds of a sample."""
    memory = estimate(asked).scale(ask.factor)
    after = _time_sample(asked, ask)
    return Lever(
        changes,
        start.memory.needed - memory.needed,
        after / before - 1,
        memory.needed,
        judge_memory(memory, ask),
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
