"""What to change where nothing fits, or it is tight: each cheap change by itself, the simplest
changes that are enough together, and the fewest nodes that do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, takewhile

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.advise import (
    choose_first,
    choose_option,
    estimate_step,
    is_over_host,
    judge_memory,
)
from jobgen.strategy.choice.changed_keys import list_changes, note_program
from jobgen.strategy.choice.faster import Candidate, find_fastest, list_choice_changes
from jobgen.strategy.choice.ladder import change_nodes, has_possible_rung, is_possible, list_wider
from jobgen.strategy.choice.least_room import choose_room, lessen_batch
from jobgen.strategy.choice.offer import Growth, Lever, StrategyOption
from jobgen.strategy.choice.savings import change_train, list_savings, list_smaller_batches
from jobgen.strategy.choice.setups import REDUCES_EACH, Ask
from jobgen.strategy.estimate import StepTime, Verdict
from jobgen.strategy.memory import estimate
from jobgen.strategy.setup import Setup

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
    more = () if room is None else tuple(_combine_all(start, ask, room.ask, auto=auto))
    levers = _arrange((*_join_changes(start, ask, single, more, auto=auto), *single))
    return Help(levers) if room is None else Help(levers, room.nodes, room.title)


def find_room_to_spare(start: StrategyOption, ask: Ask, *, auto: bool = False) -> tuple[Lever, ...]:
    """What would make a tight option fit: single changes, and what is quicker; where no single one
    costs nothing but time, also the simplest strategy that fits on the same ranks."""
    single = find_levers(start, ask, auto=auto)
    costly = all(lever.verdict != "fits" or _rank_cost(lever)[0] for lever in single)
    more = tuple(_combine(start, ask, ask, auto=auto)) if costly else ()
    levers = (*_join_changes(start, ask, single, more, auto=auto), *single)
    return _arrange(tuple(lever for lever in levers if lever.verdict == "fits"))


def _join_changes(
    start: StrategyOption, ask: Ask, single: Sequence[Lever], more: Sequence[Lever], *, auto: bool
) -> Iterator[Lever]:
    """Several changes at once: the fastest that fits, pairs, and ``more``. Where a ``single`` one
    is enough, only those that cost less."""
    least = min((_rank_cost(lever) for lever in single if lever.verdict == "fits"), default=None)
    fastest = _propose_fastest(start, ask, auto=auto)
    for lever in (*fastest, *_list_pairs(start, ask, auto=auto), *more):
        if least is None or len(lever.changes) == 1 or _rank_cost(lever, _WORTH) < least:
            yield lever


def _propose_fastest(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[Lever]:
    """The fastest strategy and micro-batch that fit on the job's ranks."""
    best = find_fastest(start, ask, {})
    if best is not None:
        lever = _lever(start, ask, best)
        yield lever._replace(changes=list_choice_changes(best, ask, auto=auto))


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
    """Single changes of this option that save memory of the GPU, or are enough where that of the
    host is short, as they are arranged."""
    found = _list_single(start, ask, auto=auto)
    short = is_over_host(start.memory, ask)
    return _arrange(tuple(lever for lever in found if lever.saves > 0 or (short and lever.fits)))


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
    lever = _lever(start, ask, Candidate(there, option))
    varied = auto and there.world == ask.world  # by the batch alone, as single changes are
    if lever.changes and not varied:
        notes = [lever.note, "" if possible else "more than the cluster has"]
        note = "; ".join(part for part in notes if part)
        yield lever._replace(note=note, possible=possible)


def _time(option: StrategyOption, ask: Ask) -> StepTime | None:
    return option.step or estimate_step(option.setup, ask)


def _try(asks: Iterable[Ask], *, auto: bool) -> Iterator[Candidate]:
    """The answers to those that the framework accepts; with ``auto`` the strategy is chosen
    again."""
    for ask in asks:
        if not (has_possible_rung(ask) if auto else is_possible(ask.train, ask)):
            continue
        option = choose_option(ask, auto=auto)
        if option is not None:
            yield Candidate(ask, option)


def _list_single(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[Lever]:
    changes = list_savings(start, ask, auto=auto)
    trials = [*_try(change_train(ask, changes), auto=auto), *_try_larger(ask, auto=auto)]
    yield from (_lever(start, ask, trial) for trial in trials)
    yield from _lessen_micro(start, ask, auto=auto)
    yield from _reduce_each(start, ask)


def _list_pairs(start: StrategyOption, ask: Ask, *, auto: bool) -> tuple[Lever, ...]:
    """Two changes of ``train`` that fit together, the cheapest ones: with the job's own strategy,
    or with ``auto`` what the planner then chooses."""
    changes = [*list_savings(start, ask, auto=auto)]
    pairs = combinations(changes, 2)
    apart = [{**one, **other} for one, other in pairs if not one.keys() & other.keys()]
    trials = [*_try(change_train(ask, apart), auto=auto)]
    for there in change_train(ask, changes):
        trials += _try_smaller(start, there, auto=auto)
    levers = (_lever(start, ask, trial) for trial in trials)
    return _arrange(tuple(lever for lever in levers if lever.verdict == "fits"))[:_PAIRS]


def _try_smaller(start: StrategyOption, ask: Ask, *, auto: bool) -> list[Candidate]:
    """The answers for smaller micro-batches, the largest first: those that fit, or are tight if no
    more is; the smallest if none fits."""
    trials = _try(list_smaller_batches(start, ask, auto=auto), auto=auto)
    least = next(trials, None)
    if least is None or least.option.verdict == "no":
        return [least] if least else []
    alike = takewhile(lambda trial: trial.option.verdict == least.option.verdict, trials)
    return [least, *alike][::-1]


def _lessen_micro(start: StrategyOption, ask: Ask, *, auto: bool) -> Iterator[Lever]:
    """The largest of the smaller micro-batches that fits, and the fastest of those that do."""
    levers = [_lever(start, ask, trial) for trial in _try_smaller(start, ask, auto=auto)]
    yield from levers[:1]
    yield from sorted(levers, key=_rank_cost)[:1]


def _try_larger(ask: Ask, *, auto: bool) -> Iterator[Candidate]:
    """The job as it is on more GPUs of its nodes, and on twice as many nodes if there are any."""
    wider = _choose_roomy(_try(list_wider(ask), auto=auto))
    yield from [wider] if wider else []
    twice = change_nodes(ask, 2 * ask.world.nodes)
    possible = ask.machine.nodes is None or twice.world.nodes <= ask.machine.nodes
    yield from _try([twice] if possible else [], auto=auto)


def _choose_roomy(trials: Iterable[Candidate]) -> Candidate | None:
    """The first that fits; where none does, the first that is tight, else the first."""
    first: dict[Verdict, Candidate] = {}
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
        lever = _lever(start, ask, Candidate(ask, option))
        change = "gradients reduced in every micro-batch"
        yield lever._replace(changes=(change,), note=place, possible=False)


def _lever(start: StrategyOption, ask: Ask, trial: Candidate) -> Lever:
    """Slower is by the seconds of a sample. The note says what the program needs, and what is
    chosen again."""
    there, option = trial
    changes = list_changes(ask, there)
    notes = [note for change in changes if (note := note_program(change, option.setup.framework))]
    own = there.train.strategy.type == option.setup.strategy
    notes += [] if own or option.title == start.title else [f"auto chooses {option.title}"]
    before, after = _time(start, ask), _time(option, there)
    slower = rate = 0.0
    if before and after:
        samples = start.setup.batch.total / option.setup.batch.total
        slower = samples * after.seconds / before.seconds - 1
        rate = after.work / after.seconds
    return Lever(
        changes,
        start.memory.needed - option.memory.needed,
        slower,
        option.memory.needed,
        option.verdict,
        note="; ".join(notes),
        needs=_compare_worlds(start.setup, option.setup),
        rate=rate,
    )


def _compare_worlds(old: Setup, new: Setup) -> Growth:
    """What the ranks of ``new`` take more."""
    if new.mesh.world <= old.mesh.world:
        return ""
    nodes = (setup.mesh.world // setup.world_per_node for setup in (old, new))
    return "GPUs" if next(nodes) == next(nodes) else "nodes"
