"""What to change where nothing fits, or it is tight: each cheap change by itself, the simplest
changes that are enough together, and the fewest nodes that do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from jobgen import strategy
from jobgen.model.train import Offload
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.advise import (
    choose_first,
    estimate_option,
    estimate_step,
    is_over_host,
    judge_memory,
)
from jobgen.strategy.choice.changed_keys import (
    list_batch_changes,
    list_rank_changes,
    list_train_changes,
)
from jobgen.strategy.choice.ladder import Rung, change_nodes, is_refused, list_wider
from jobgen.strategy.choice.least_room import choose_room, lessen_batch
from jobgen.strategy.choice.offer import Growth, Lever, StrategyOption
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.estimate import Verdict
from jobgen.strategy.memory import estimate
from jobgen.strategy.memory.recipes import EIGHT_BIT
from jobgen.strategy.setup import Setup
from jobgen.strategy.supported import get_small_loss, has_optimizer

_NEEDS: dict[Growth, int] = {"": 0, "GPUs": 1, "nodes": 2}
"""What takes less of the cluster stands first."""
T = TypeVar("T")
_LOSS_NOTES = {
    "fused": "Liger or cut cross entropy in the program",
    "chunked": "ChunkedLossWrapper in the function of --config",
}
_ORDER = {"fits": 0, "tight": 1}
"""What helps with room to spare stands before what is tight."""


class Help(NamedTuple):
    """What helps where an option does not fit."""

    levers: tuple[Lever, ...]
    smallest_nodes: int | None = None
    """The fewest nodes on which anything fits; None where not even the most do."""
    smallest_by: str = ""
    """What fits on them: the title of the simplest, and the GPUs of each node if they are more."""


def find_help(start: StrategyOption, ask: Ask, *, auto: bool = False) -> Help:
    """What to change of this option: single changes, the simplest changes that are enough together,
    and the fewest nodes. With ``auto`` the planner makes the other changes itself."""
    room = choose_room(ask)
    single = find_levers(start, ask)
    together = () if room is None else tuple(_combine_all(start, ask, room.ask, auto=auto))
    # where one change is enough, several at once help only if they cost less
    least = min((_rank_cost(lever) for lever in single if lever.verdict == "fits"), default=None)
    if least is not None:
        together = tuple(
            lever for lever in together if len(lever.changes) == 1 or _rank_cost(lever) < least
        )
    known = {lever.changes for lever in together}
    others = (lever for lever in single if lever.changes not in known)
    levers = _arrange((*together, *others))
    return Help(levers) if room is None else Help(levers, room.nodes, room.title)


def find_room_to_spare(start: StrategyOption, ask: Ask, *, auto: bool = False) -> tuple[Lever, ...]:
    """What would make a tight option fit: single changes; where none costs nothing but time, also
    the simplest strategy that fits on the same ranks."""
    single = [lever for lever in find_levers(start, ask) if lever.verdict == "fits"]
    if any(_rank_cost(lever) == 0 for lever in single):
        return tuple(single)
    known = {lever.changes for lever in single}
    other = [lever for lever in _combine(start, ask, ask, auto=auto) if lever.verdict == "fits"]
    return _arrange((*single, *(lever for lever in other if lever.changes not in known)))


def _combine_all(start: StrategyOption, ask: Ask, there: Ask, *, auto: bool) -> Iterator[Lever]:
    """The simplest changes that are enough ``there``, and if they make a step more than twice as
    long, those that are enough with more GPUs of the cluster and do not."""
    slow = False
    for lever in _combine(start, ask, there, auto=auto):
        slow = lever.slower > 1
        yield lever
    larger = _list_larger(there) if slow else ()
    wider = (lever for one in larger for lever in _combine(start, ask, one, auto=auto))
    yield from islice((lever for lever in wider if lever.fits and lever.slower <= 1), 1)


def _list_larger(ask: Ask) -> Iterator[Ask]:
    """The question for more GPUs of its nodes, then for twice as many whole nodes, and so on, as
    far as the cluster has them."""
    yield from list_wider(ask)
    whole = [ask, *list_wider(ask)][-1]
    nodes = 2 * ask.world.nodes
    while nodes <= (ask.machine.nodes or 0):
        yield change_nodes(whole, nodes)
        nodes *= 2


def find_levers(start: StrategyOption, ask: Ask) -> tuple[Lever, ...]:
    """Single changes of this option that save memory, as they are arranged."""
    return _arrange(tuple(lever for lever in _all(start, ask) if lever.saves > 0))


def _arrange(levers: tuple[Lever, ...]) -> tuple[Lever, ...]:
    """What makes it fit first, the cheapest on top; then those that save most."""

    def key(lever: Lever) -> tuple[int, int, float]:
        order = _ORDER.get(lever.verdict, 2)
        if not lever.fits:
            return order, 0, -lever.saves
        return order, _rank_cost(lever), lever.slower

    return tuple(sorted(levers, key=key))


def _rank_cost(lever: Lever) -> int:
    """What takes less of the cluster first, last what makes a step more than twice as long."""
    return len(_NEEDS) if lever.slower > 1 else _NEEDS[lever.needs]


def _combine(start: StrategyOption, ask: Ask, there: Ask, *, auto: bool) -> Iterator[Lever]:
    """The simplest strategy that fits on the job's nodes, or where it must on what is ``there``, as
    changes."""
    best, lean = choose_first(there), lessen_batch(there)
    if lean is not None and (best is None or best[1].verdict != "fits"):
        roomy = choose_first(lean)
        if roomy is not None and roomy[1].verdict == "fits":
            best, there = roomy, lean
    if best is None:  # fewer nodes would do, but not as many as the job has
        return
    rung, option = best
    changes = tuple(list_batch_changes(ask.train, there.train))
    changes += () if auto else tuple(list_train_changes(ask.train, rung.train))
    notes = [f"auto chooses {option.title}"] if auto else []
    changes += list_rank_changes(ask, there)
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


def _all(start: StrategyOption, ask: Ask) -> Iterator[Lever]:
    own, train = start.setup, ask.train
    before = _time_sample(own, ask)
    if not is_over_host(start.memory, ask):  # these leave the host's memory as it is
        for change, asked in _setups(own, ask):
            yield _lever((change,), start, asked, ask, before)
        small = get_small_loss(own.framework)
        if own.loss == "plain" and own.measured is None and small:
            smaller = own._replace(loss=small)
            lever = _lever((f"train.loss: {small}",), start, smaller, ask, before)
            yield lever._replace(note=_LOSS_NOTES[small])
    trains = [
        ("train.offload: optimizer", train.replace(offload=Offload(what="optimizer"))),
        ("train.offload: both", train.replace(offload=Offload(what="both"))),
    ]
    for change, changed in trains:
        if next(strategy.list_faults(changed, ask.sizes, ask.world, launcher=ask.launcher), None):
            continue
        if is_refused(changed, ask):
            continue
        found = estimate_option(Rung(4, change, changed), ask)
        yield _lever((change,), start, found.setup, ask, before)
    for there, setup in _try_larger(ask):
        changes = list_rank_changes(ask, there)
        yield _lever(changes, start, setup, there, before)


def _try_larger(ask: Ask) -> Iterator[_Layout]:
    """The job as it is on more GPUs of its nodes, and on twice as many nodes if there are any."""
    wider = _choose_roomy(_try_layouts(list_wider(ask)))
    yield from [wider] if wider else []
    twice = change_nodes(ask, 2 * ask.world.nodes)
    possible = ask.machine.nodes is None or twice.world.nodes <= ask.machine.nodes
    yield from (layout for _, layout in _try_layouts([twice] if possible else []))


class _Layout(NamedTuple):
    """The job as it is, on other ranks."""

    ask: Ask
    setup: Setup


def _try_layouts(layouts: Iterable[Ask]) -> Iterator[tuple[Verdict, _Layout]]:
    """Those that the job's batch and parallel sizes go with."""
    for ask in layouts:
        faults = strategy.list_faults(ask.train, ask.sizes, ask.world, launcher=ask.launcher)
        if next(faults, None) is None:
            option = estimate_option(Rung(0, "", ask.train), ask, speed=False)
            yield option.verdict, _Layout(ask, option.setup)


def _choose_roomy(tried: Iterable[tuple[Verdict, T]]) -> T | None:
    """The first that fits; where none does, the first that is tight, else the first."""
    first: dict[Verdict, T] = {}
    for verdict, each in tried:
        first.setdefault(verdict, each)
        if verdict == "fits":
            break
    return next((first[verdict] for verdict in ("fits", "tight", *first) if verdict in first), None)


def _setups(own: Setup, ask: Ask) -> Iterator[tuple[str, Setup]]:
    """Changes that leave the ranks as they are."""
    for kind in ("selective", "full"):
        less = own.recompute == "none" or (own.recompute, kind) == ("selective", "full")
        if own.measured is not None and kind not in {t.recompute for t in own.measured.traces}:
            continue
        if less and not is_refused(ask.train.replace(activation_checkpointing=kind), ask):
            yield f"train.activation_checkpointing: {kind}", own._replace(recompute=kind)
    less_at_once = _choose_roomy(_halve_batch(own, ask))
    if less_at_once is not None and ask.config_batch is None:  # else the user's file sets it
        yield f"train.micro_batch: {less_at_once.batch.micro}", less_at_once
    lean = has_optimizer(own.framework, "adamw8bit")
    if own.recipe.moments >= 8 and own.adapters is None and lean:
        recipe = own.recipe._replace(moments=EIGHT_BIT, embedding_moments=8.0)
        yield "train.optimizer: adamw8bit", own._replace(recipe=recipe)


def _halve_batch(own: Setup, ask: Ask) -> Iterator[tuple[Verdict, Setup]]:
    """The same with half of the micro-batch, a quarter of it, and so on."""
    batch, micro = own.batch, own.batch.micro
    while micro > 1:
        micro //= 2
        steps = batch.accumulation * (batch.micro // micro)
        asked = own._replace(batch=batch._replace(micro=micro, accumulation=steps))
        yield judge_memory(estimate(asked).scale(ask.factor), ask), asked


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
        needs=_compare_worlds(start.setup, asked),
    )


def _compare_worlds(old: Setup, new: Setup) -> Growth:
    """What the ranks of ``new`` take more."""
    if new.mesh.world <= old.mesh.world:
        return ""
    nodes = (setup.mesh.world // setup.world_per_node for setup in (old, new))
    return "GPUs" if next(nodes) == next(nodes) else "nodes"
