"""The fastest option that fits, where the one that is shown is clearly slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobgen import strategy
from jobgen.strategy.choice.advise import estimate_option
from jobgen.strategy.choice.changed_keys import list_train_changes
from jobgen.strategy.choice.ladder import LEVELS, Rung, list_rungs
from jobgen.strategy.choice.offer import Advice, Faster, StrategyOption
from jobgen.strategy.choice.setups import Ask

_CLEAR = 0.10
"""The part by which it must be faster: of less, nobody can be sure."""
_DIVIDES = ("megatron", "torchtitan")
"""Frameworks that divide the model by options; other programs would have to be rewritten."""
_AXES = ("tp", "pp", "ep")
_OFFLOADS = LEVELS.index("offload")


def add_faster(found: Advice, ask: Ask, *, auto: bool) -> Advice:
    """With the fastest option that fits, and its row, where it is clearly faster than the shown
    one."""
    shown = found.first_option
    known = {option.name: option for option in found.options}
    faster = find_faster(shown, ask, known, auto=auto) if shown else None
    if faster is None:
        return found
    more = () if faster.option.name in known else (faster.option,)
    return found._replace(options=(*found.options, *more), faster=faster)


def find_faster(
    shown: StrategyOption, ask: Ask, known: Mapping[str, StrategyOption], *, auto: bool
) -> Faster | None:
    """The fastest option that fits, by tokens per second and GPU; None where it is not clearly
    faster than ``shown``, or that does not fit itself. ``known`` are estimated options by name."""
    if shown.verdict != "fits" or shown.step is None:
        return None
    best, train, rate = shown, ask.train, shown.step.rate
    for rung in _list_comparable(ask):
        option = known.get(rung.name) or estimate_option(rung, ask)
        if option.setup.adapters != shown.setup.adapters:
            continue  # what the program prepares otherwise makes the difference
        if option.verdict == "fits" and option.step and option.step.rate > rate:
            best, train, rate = option, rung.train, option.step.rate
    gain = rate / shown.step.rate - 1
    if gain <= _CLEAR:
        return None
    changes = tuple(list_train_changes(ask.train, train))
    named = f"train.strategy: {train.strategy.type}"  # auto would choose another
    return Faster(best, tuple(dict.fromkeys((named, *changes))) if auto else changes, gain)


def _list_comparable(ask: Ask) -> Iterator[Rung]:
    """What options of the framework, or a wrapper around the model, can do."""
    divides = strategy.choose_framework(ask.train, ask.launcher) in _DIVIDES
    for rung in list_rungs(ask):
        same = all(getattr(rung.train, axis) == getattr(ask.train, axis) for axis in _AXES)
        if rung.level < _OFFLOADS and (divides or same):
            yield rung
