"""A job on more nodes: what each number of nodes gives."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen import strategy
from jobgen.strategy.choice.advise import choose_first, estimate_option, find_least
from jobgen.strategy.choice.ladder import change_nodes, make_rung
from jobgen.strategy.choice.offer import Scale, StrategyOption
from jobgen.strategy.choice.setups import Ask


def scale(ask: Ask, counts: Iterable[int], *, auto: bool) -> tuple[Scale, ...]:
    """A row for each number of nodes, with the efficiency against the smallest that fits. Numbers
    that the job's batch or layout do not go with are left out."""
    rows: list[tuple[int, StrategyOption]] = []
    for nodes in sorted(set(counts)):
        there = change_nodes(ask, nodes)
        found = _option(there, auto=auto)
        if found is not None:
            rows.append((nodes, found))
    base = next(((n, _rate(o) / n) for n, o in rows if _rate(o)), None)
    return tuple(
        Scale(nodes, one, _rate(one), _rate(one) / nodes / base[1] if base else 0.0)
        for nodes, one in rows
    )


def _option(ask: Ask, *, auto: bool) -> StrategyOption | None:
    if auto:
        best = choose_first(ask) or find_least(ask)
        return estimate_option(best[0], ask) if best else None
    faulty = strategy.list_faults(ask.train, ask.sizes, ask.world, launcher=ask.launcher)
    if next(faulty, None) is not None:
        return None
    return estimate_option(make_rung(0, ask.train), ask)


def _rate(found: StrategyOption) -> float:
    """Tokens for each second, of all ranks."""
    return found.step.rate * found.step.ranks if found.step else 0.0
