"""What to change where nothing fits, or it is tight: each cheap change by itself, the simplest
changes that are enough together, and the fewest nodes that do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, count, islice, takewhile
from typing import Any

from jobgen import strategy
from jobgen.model.train import Offload
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.advise import (
    choose_first,
    choose_option,
    estimate_step,
    is_over_host,
    judge_memory,
)
from jobgen.strategy.choice.changed_keys import list_changes, note_loss
from jobgen.strategy.choice.ladder import change_nodes, is_refused, list_wider
from jobgen.strategy.choice.least_room import choose_room, divide_batch, lessen_batch
from jobgen.strategy.choice.offer import Growth, Lever, StrategyOption
from jobgen.strategy.choice.setups import REDUCES_EACH, VARIED, Ask
from jobgen.strategy.estimate import Verdict
from jobgen.strategy.memory import estimate
from jobgen.strategy.setup import Setup
from jobgen.strategy.supported import get_small_loss, has_optimizer

_NEEDS: dict[Growth, int] = {"": 0, "GPUs": 1, "nodes": 2}
"""What takes less of the cluster stands first."""
_PAIRS = 2
"""Pairs of changes that are shown."""
_WORTH = 0.05
"""The part of a step that several changes must save where one is enough."""
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
    single = find_levers(start, ask, auto=auto)
    together = () if auto else _list_pairs(start, ask)
    together += () if room is None else tuple(_combine_all(start, ask, room.ask, auto=auto))
    # where one change is enough, several at once help only if they cost less
    least = min((_rank_cost(lever) for lever in single if lever.verdict == "fits"), default=None)
    if least is not None:
        together = tuple(
            lever
            for lever in together
            if len(lever.changes) == 1 or _rank_cost(lever, _WORTH) < least
        )
    levers = _arrange((*single, *together))
    return Help(levers) if room is None else Help(levers, room.nodes, room.title)


def find_room_to_spare(start: StrategyOption, ask: Ask, *, auto: bool = False) -> tuple[Lever, ...]:
    """What would make a tight option fit: single changes; where none costs nothing but time, also
    the simplest strategy that fits on the same ranks."""
    single = [lever for lever in find_levers(start, ask, auto=auto) if lever.verdict == "fits"]
    if any(_rank_cost(lever)[0] == 0 for lever in single):
        return tuple(single)
    other = () if auto else _list_pairs(start, ask)
    other += tuple(_combine(start, ask, ask, auto=auto))
    return _arrange((*single, *(lever for lever in other if lever.verdict == "fits")))


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


def find_levers(start: StrategyOption, ask: Ask, *, auto: bool = False) -> tuple[Lever, ...]:
    """Single changes of this option that save memory, as they are arranged."""
    found = _list_single(start, ask, auto=auto)
    return _arrange(tuple(lever for lever in found if lever.saves > 0))


def _arrange(levers: tuple[Lever, ...]) -> tuple[Lever, ...]:
    """What makes it fit first, the cheapest on top; then those that save most; each once."""

    def key(lever: Lever) -> tuple[int, tuple[int, float]]:
        order = _ORDER.get(lever.verdict, 2)
        return order, _rank_cost(lever) if lever.fits else (0, -lever.saves)

    once = {lever.changes: lever for lever in levers}
    return tuple(sorted(once.values(), key=key))


def _rank_cost(lever: Lever, more: float = 0.0) -> tuple[int, float]:
    """What takes less of the cluster first, last what makes a step more than twice as long; of
    those that take as much the quickest. ``more`` is added to the time."""
    return len(_NEEDS) if lever.slower > 1 else _NEEDS[lever.needs], lever.slower + more


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
    there = there if auto else there._replace(train=rung.train)
    limit = ask.machine.nodes
    possible = limit is None or there.world.nodes <= max(limit, ask.world.nodes)
    lever = _lever(start, ask, _Trial(there, option))
    if lever.changes:
        notes = [lever.note, "" if possible else "more than the cluster has"]
        note = "; ".join(part for part in notes if part)
        yield lever._replace(note=note, possible=possible)


def _time_sample(setup: Setup, ask: Ask) -> float:
    """Seconds of a sample; always 1 where the time is not known."""
    step = estimate_step(setup, ask)
    return 1.0 if step is None else step.seconds / setup.batch.total


class _Trial(NamedTuple):
    """A changed question, and its answer."""

    ask: Ask
    option: StrategyOption


def _try(asks: Iterable[Ask], *, auto: bool) -> Iterator[_Trial]:
    """The answers to those that the framework accepts; with ``auto`` the strategy is chosen
    again."""
    for ask in asks:
        if not auto and _is_faulty(ask):
            continue
        option = choose_option(ask, auto=auto)
        if option is not None:
            yield _Trial(ask, option)


def _is_faulty(ask: Ask) -> bool:
    faults = strategy.list_faults(ask.train, ask.sizes, ask.world, launcher=ask.launcher)
    return next(faults, None) is not None or is_refused(ask.train, ask)


def _list_single(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[Lever]:
    changes = [*_list_changes(start, ask, auto=auto)]
    trials = [*_try(_ask_each(ask, changes), auto=auto), *_try_larger(ask, auto=auto)]
    yield from (_lever(start, ask, trial) for trial in trials)
    yield from _reduce_each(start, ask)


def _list_pairs(start: StrategyOption, ask: Ask) -> tuple[Lever, ...]:
    """Two changes of ``train`` that fit together with the job's own strategy, the cheapest ones."""
    pairs = combinations(_list_changes(start, ask, auto=False), 2)
    apart = [{**one, **other} for one, other in pairs if not one.keys() & other.keys()]
    levers = (_lever(start, ask, trial) for trial in _try(_ask_each(ask, apart), auto=False))
    return _arrange(tuple(lever for lever in levers if lever.verdict == "fits"))[:_PAIRS]


def _ask_each(ask: Ask, changes: Iterable[dict[str, Any]]) -> Iterator[Ask]:
    return (ask._replace(train=ask.train.replace(**change)) for change in changes)


def _list_changes(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[dict[str, Any]]:
    """Values of ``train`` that may save memory on the job's ranks, but for those that the planner
    varies itself with ``auto``."""
    own = start.setup
    open_keys = set(VARIED) - ask.fixed if auto else set()
    if not is_over_host(start.memory, ask):  # these leave the host's memory as it is
        if "activation_checkpointing" not in open_keys:
            yield from ({"activation_checkpointing": kind} for kind in _list_kinds(own))
        yield from _halve_batch(own, ask, auto=auto)
        small = get_small_loss(own.framework)
        if own.loss == "plain" and own.measured is None and small:
            yield {"loss": small}
        lean = has_optimizer(own.framework, "adamw8bit")
        if own.recipe.moments >= 8 and own.adapters is None and lean:
            yield {"optimizer": "adamw8bit"}
    if "offload" not in open_keys:
        yield from ({"offload": Offload(what=what)} for what in ("optimizer", "both"))


def _list_kinds(own: Setup) -> Iterator[str]:
    """Kinds of checkpointing that keep less, of the user's own model those measured."""
    less = {"none": ("selective", "full"), "selective": ("full",)}
    for kind in less.get(own.recompute, ()):
        if own.measured is None or kind in {trace.recompute for trace in own.measured.traces}:
            yield kind


def _halve_batch(own: Setup, ask: Ask, *, auto: bool) -> Iterator[dict[str, Any]]:
    """Half of the micro-batch, a quarter of it, and so on, with as many samples in a step: the
    largest that fits."""
    if ask.config_batch is not None:  # the user's file sets it
        return
    micros = takewhile(bool, (own.batch.micro >> halvings for halvings in count(1)))
    asks = (divide_batch(ask, own.batch, micro) for micro in micros)
    roomy = _choose_roomy(_try(asks, auto=auto))
    if roomy is not None:
        train = roomy.ask.train
        steps = train.gradient_accumulation
        yield {"micro_batch": train.micro_batch, "gradient_accumulation": steps}


def _try_larger(ask: Ask, *, auto: bool) -> Iterator[_Trial]:
    """The job as it is on more GPUs of its nodes, and on twice as many nodes if there are any."""
    wider = _choose_roomy(_try(list_wider(ask), auto=auto))
    yield from [wider] if wider else []
    twice = change_nodes(ask, 2 * ask.world.nodes)
    possible = ask.machine.nodes is None or twice.world.nodes <= ask.machine.nodes
    yield from _try([twice] if possible else [], auto=auto)


def _choose_roomy(trials: Iterable[_Trial]) -> _Trial | None:
    """The first that fits; where none does, the first that is tight, else the first."""
    first: dict[Verdict, _Trial] = {}
    for trial in trials:
        verdict = trial.option.verdict
        first.setdefault(verdict, trial)
        if verdict == "fits":
            break
    return next((first[verdict] for verdict in ("fits", "tight", *first) if verdict in first), None)


def _reduce_each(start: StrategyOption, ask: Ask) -> Iterator[Lever]:
    """Gradients that FSDP reduces with every micro-batch, which only the program can set."""
    setup = start.setup
    place = REDUCES_EACH.get(setup.framework)
    if place and setup.unsynced and not is_over_host(start.memory, ask):
        reduced = setup._replace(unsynced=False)
        memory = estimate(reduced).scale(ask.factor)
        verdict = judge_memory(memory, ask)
        option = start._replace(setup=reduced, memory=memory, verdict=verdict)
        lever = _lever(start, ask, _Trial(ask, option))
        change = "gradients reduced in every micro-batch"
        yield lever._replace(changes=(change,), note=place, possible=False)


def _lever(start: StrategyOption, ask: Ask, trial: _Trial) -> Lever:
    """Slower is by the seconds of a sample. The note says what the program needs, and what is
    chosen again."""
    there, option = trial
    changes = list_changes(ask, there)
    notes = [note for change in changes if (note := note_loss(change, option.setup.framework))]
    own = there.train.strategy.type == option.setup.strategy
    notes += [] if own or option.title == start.title else [f"auto chooses {option.title}"]
    after = _time_sample(option.setup, there)
    return Lever(
        changes,
        start.memory.needed - option.memory.needed,
        after / _time_sample(start.setup, ask) - 1,
        option.memory.needed,
        option.verdict,
        note="; ".join(notes),
        needs=_compare_worlds(start.setup, option.setup),
    )


def _compare_worlds(old: Setup, new: Setup) -> Growth:
    """What the ranks of ``new`` take more."""
    if new.mesh.world <= old.mesh.world:
        return ""
    nodes = (setup.mesh.world // setup.world_per_node for setup in (old, new))
    return "GPUs" if next(nodes) == next(nodes) else "nodes"
