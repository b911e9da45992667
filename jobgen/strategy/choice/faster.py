"""The fastest option that fits, where the one that is shown is clearly slower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jobgen import strategy
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.advise import choose_first, choose_option, estimate_option
from jobgen.strategy.choice.changed_keys import BATCH, list_batch_changes, list_changes
from jobgen.strategy.choice.ladder import Rung, is_possible, list_rungs, make_rung
from jobgen.strategy.choice.least_room import list_batches
from jobgen.strategy.choice.offer import Advice, AssumedRate, Faster, StrategyOption
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.supported import get_small_loss

if TYPE_CHECKING:
    from jobgen.model.train import Train

_CLEAR = 0.10
"""The part by which it must be faster: of less, nobody can be sure."""
_OTHER_BATCH = 0.05
"""The part by which another micro-batch must be faster than the job's own."""
_DIVIDES = ("megatron", "torchtitan")
"""Frameworks that divide the model by options; other programs would have to be rewritten."""
_AXES = ("tp", "pp", "ep")
_DIVIDED = "pp"
"""The last level that is compared: offload costs most."""
_EXPERTS = "ep"
"""The last level of which all options are estimated with other micro-batches, too."""


class Candidate(NamedTuple):
    """An option, and the question whose ``train`` is the option's."""

    ask: Ask
    option: StrategyOption

    @property
    def rate(self) -> float:
        """Tokens or samples per second of a GPU; 0 where it does not fit with room to spare, or its
        time is not known."""
        step = self.option.step if self.option.verdict == "fits" else None
        return step.rate if step else 0.0


def add_faster(found: Advice, ask: Ask, *, auto: bool) -> Advice:
    """With the fastest option that fits, and its row, where it is clearly faster than the shown
    one."""
    shown = found.first_option
    known = {option.name: option for option in (*found.others, *found.options)}
    faster = find_faster(shown, ask, known, auto=auto) if shown else None
    if faster is None or faster.option in found.options:
        return found._replace(faster=faster)
    others = tuple(option for option in found.others if option != faster.option)
    return found._replace(options=(*found.options, faster.option), others=others, faster=faster)


def find_assumed_rates(shown: StrategyOption, ask: Ask, *, auto: bool) -> Mapping[str, AssumedRate]:
    """Alternatives of what is assumed of the program that are clearly faster than ``shown``. With
    ``auto`` the strategy is chosen again: what needs less memory may need no offload."""
    setup = shown.setup
    if shown.step is None or setup.measured is not None:
        return {}
    small = get_small_loss(setup.framework)
    changes: dict[str, dict[str, Any]] = {"compiled": {"compiled": True}}
    changes |= {small: {"loss": small}} if small else {}
    found = {}
    for name, change in changes.items():
        if not {*setup.assumed}.issuperset(change):
            continue
        option = choose_option(ask._replace(train=ask.train.replace(**change)), auto=auto)
        step = option.step if option else None
        if option and step and step.rate > (1 + _CLEAR) * shown.step.rate:
            title = "" if option.title == shown.title else option.title
            found[name] = AssumedRate(step.work / step.seconds, title)
    return found


def find_faster(
    shown: StrategyOption, ask: Ask, known: Mapping[str, StrategyOption], *, auto: bool
) -> Faster | None:
    """The fastest option that fits, by tokens per second and GPU; None where it is not clearly
    faster than ``shown``, or that does not fit itself. ``known`` are estimated options by name."""
    own = Candidate(ask, shown)
    best = find_fastest(shown, ask, known) if own.rate else None
    if best is None or best.rate <= (1 + _CLEAR) * own.rate:
        return None
    changes = list_choice_changes(best, ask, auto=auto)
    return Faster(best.option, changes, best.rate / own.rate - 1)


def find_fastest(
    shown: StrategyOption, ask: Ask, known: Mapping[str, StrategyOption]
) -> Candidate | None:
    """The fastest that fits without offload, ``shown`` included, with the job's micro-batch or with
    another and as many samples in a step; None where nothing fits."""
    options = ((rung, known.get(rung.name)) for rung in _list_comparable(ask))
    tried = [
        Candidate(ask._replace(train=rung.train), option or estimate_option(rung, ask))
        for rung, option in options
    ]
    own = _choose_fastest([Candidate(ask, shown), *tried], shown)
    other = _choose_fastest(_try_batches(own, shown, ask), shown)
    faster = other.rate > (1 + _OTHER_BATCH) * own.rate if other and own else other
    return other if faster else own


def list_choice_changes(best: Candidate, ask: Ask, *, auto: bool) -> tuple[str, ...]:
    """What to change of the job for this option. With ``auto`` the batch alone where ``auto`` then
    chooses the option itself, else its strategy by name."""
    changes = list_changes(ask, best.ask)
    if not auto:
        return changes
    batch = list_batch_changes(ask.train, best.ask.train)
    chosen = choose_first(ask._replace(train=_take_batch(ask, best.ask))) if batch else None
    if chosen is not None and chosen[1].setup == best.option.setup:
        return batch
    named = f"train.strategy: {best.ask.train.strategy.type}"  # auto would choose another
    return tuple(dict.fromkeys((named, *changes)))


def _choose_fastest(tried: Iterable[Candidate], shown: StrategyOption) -> Candidate | None:
    """The first of the fastest that fit. Where adapters differ, what the program prepares otherwise
    makes the difference."""
    alike = (each for each in tried if each.option.setup.adapters == shown.setup.adapters)
    best = max(alike, key=lambda each: each.rate, default=None)
    return best if best and best.rate else None


def _try_batches(own: Candidate | None, shown: StrategyOption, ask: Ask) -> Iterator[Candidate]:
    """Options with other micro-batches: the simple ones, and the fastest of the job's ``own``."""
    if ask.measured is not None:  # it was measured with its own
        return
    for there in list_batches(ask, shown.setup.batch):
        rungs = [*_list_comparable(there, _EXPERTS)]
        if own is not None:
            rung = make_rung(0, _take_batch(own.ask, there))
            new = rung.name not in {each.name for each in rungs}
            rungs += [rung] if new and is_possible(rung.train, there) else []
        for rung in rungs:
            option = estimate_option(rung, there)
            name = f"{rung.name}+micro {option.setup.batch.micro}"
            yield Candidate(there._replace(train=rung.train), option._replace(name=name))


def _take_batch(ask: Ask, there: Ask) -> Train:
    """The ``train`` of a question with the batch of another."""
    batch = {key: getattr(there.train, key) for key in BATCH}
    return ask.train.replace(**batch)


def _list_comparable(ask: Ask, last: str = _DIVIDED) -> Iterator[Rung]:
    """What options of the framework, or a wrapper around the model, can do."""
    divides = strategy.choose_framework(ask.train, ask.launcher) in _DIVIDES
    for rung in list_rungs(ask, last):
        same = all(getattr(rung.train, axis) == getattr(ask.train, axis) for axis in _AXES)
        if divides or same:
            yield rung
