"""Clusters side by side: what a job's work takes on each, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobgen.cli.layout import clip, fold, measure, pad, write_hours
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.memory import STYLES, WORDS, can_run, fold_foreign
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.step_speed import format_number, format_time
from jobgen.model.units import Walltime
from jobgen.strategy.choice.offer import Offer
from jobgen.strategy.choice.price_comparison import Even, list_break_evens
from jobgen.strategy.estimate import WorkUnit
from jobgen.strategy.setup import get_work_unit

HEADS = (
    "strategy",
    "GPUs",
    "needs",
    "fits",
    "step",
    "rate",
    "time",
    "GPU-hours",
    "cost",
)
"""What is compared, from above."""
_FITS = HEADS.index("fits")
_WIDEST = 26


_MEMORY = "GPU memory"
"""The title where nothing but memory is known."""


def list_heads(offers: Sequence[Offer]) -> list[str]:
    """What is compared, with the unit of the rate; only memory where no time is known."""
    heads = HEADS if _find_leader(offers) else HEADS[: _FITS + 1]
    return [f"{_get_unit(offers)}/s/GPU" if head == "rate" else head for head in heads]


def format_work(offers: Sequence[Offer], work: float) -> str:
    """``For 1.2 billion tokens``, or samples; ``GPU memory`` where no time is known."""
    if _find_leader(offers) is None:
        return _MEMORY
    return f"For {format_amount(work)} {_get_unit(offers)}"


def _describe_work(offers: Sequence[Offer], work: float) -> str:
    """The work that is compared, or why only memory is."""
    leader = _find_leader(offers)
    if leader is not None:
        name = clip(defuse(leader.cluster), _WIDEST)
        amount = f"{format_amount(work)} {_get_unit(offers)}"
        return f"Same work: {amount}, as {name} does in the job's time"
    fits = any(can_run(offer.option) for offer in offers)
    why = "the time of a step is not known" if fits else "the job fits on none of these clusters"
    return f"{_MEMORY} side by side: {why}"


def _find_leader(offers: Sequence[Offer]) -> Offer | None:
    """The first whose time is known: the others take as much work."""
    return next((offer for offer in offers if offer.gpu_hours), None)


def _get_unit(offers: Sequence[Offer]) -> WorkUnit:
    return get_work_unit(offers[0].option.setup)


def screen(offers: Sequence[Offer], work: float, ink: Ink) -> str:
    """A column for each cluster, in as many blocks as the width needs; then where they are even."""
    if not offers:
        return ""
    title = _describe_work(offers, work)
    lines = [ink("strong", line) for line in fold(title, ink.width, "  ").split("\n")]
    heads = list_heads(offers)
    left = 2 + max(map(measure, heads))
    cells = [[clip(defuse(o.cluster), _WIDEST), *draw_column(o, heads)] for o in offers]
    widths = [min(max(map(measure, c)), _WIDEST) for c in cells]
    for first, last in _blocks(widths, ink.width - left):
        lines += [""] if first else []
        lines += _block(offers[first:last], cells[first:last], widths[first:last], ink)
    lines += [f"  {fold_foreign(line, ink.width - 4, '    ')}" for line in list_evens(offers)]
    return "".join(line + "\n" for line in lines)


def draw_column(offer: Offer, heads: Sequence[str]) -> list[str]:
    """Of one cluster, what stands beside these heads."""
    return _list_cells(offer)[: len(heads)]


def _list_cells(offer: Offer) -> list[str]:
    option = offer.option
    step = option.step if can_run(option) and option.step and option.step.seconds > 0 else None
    gpus = option.setup.mesh.world
    memory = (f"{to_gib(option.memory.needed)} GiB", WORDS[option.verdict])
    cells = [defuse(option.name), str(gpus), *memory]
    if not step:
        return cells + ["-"] * 5
    hours = (_format_duration(3600 * offer.gpu_hours / gpus), write_hours(offer.gpu_hours))
    return [
        *cells,
        format_time(step.seconds),
        format_number(step.rate),
        *hours,
        format_money(offer),
    ]


def _format_duration(seconds: float) -> str:
    """As in the head of a plan: ``4h 0m``; seconds only below ten minutes."""
    whole = round(seconds) if seconds < 600 else 60 * round(seconds / 60)
    return Walltime(max(whole, 1)).human()


def format_money(offer: Offer) -> str:
    """``115 EUR``, or ``-`` where nobody said a price."""
    if offer.amount is None:
        return "-"
    return f"{offer.amount:,.0f} {defuse(offer.currency)}".rstrip()


def list_evens(offers: Sequence[Offer]) -> list[str]:
    """Where one of two offers becomes cheaper than the other, in words."""
    told = []
    for offer, even in zip(offers, list_break_evens(offers), strict=True):
        if even is None:
            continue
        name, other, currency = offer.cluster, even.other.cluster, offer.currency
        if offer.owned is None:
            now = (offer.amount or 0.0) / offer.gpu_hours
            told.append(
                f"{name} breaks even with {other} at {even.price:.2f} {currency} per GPU-hour "
                f"(now {now:.2f})"
            )
        elif even.runs is None:
            told.append(f"{name}: buying never pays off; {other} costs no more than running it")
        else:
            hours = even.runs * offer.gpu_hours / offer.option.setup.mesh.world
            told.append(
                f"{name} pays for itself after {even.runs:,.0f} such runs ({hours:,.0f} hours), "
                f"compared with {other}"
            )
    return told


def format_amount(number: float) -> str:
    """A large number for people: ``1.2 billion``."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{write_hours(number / size)} {word}"
    return f"{number:,.0f}"


def _blocks(widths: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Which columns stand together: as many as there is room for, at least one."""
    found, first, used = [], 0, 0
    for i, width in enumerate(widths):
        if i > first and used + width + 2 > room:
            found.append((first, i))
            first, used = i, 0
        used += width + 2
    return [*found, (first, len(widths))]


def _block(
    offers: Sequence[Offer], cells: Sequence[Sequence[str]], widths: Sequence[int], ink: Ink
) -> list[str]:
    heads = list_heads(offers)
    left = max(map(measure, heads))
    room = max(ink.width - 4 - left, 8)
    lines: list[str] = []
    for i, head in enumerate(("", *heads)):
        words = [pad(clip(c[i], min(w, room)), w) for c, w in zip(cells, widths, strict=True)]
        words[-1] = words[-1].rstrip()
        if i == 0:
            words = [ink("strong", word) for word in words]
        if i == _FITS + 1:
            words = [ink(STYLES[o.option.verdict], w) for o, w in zip(offers, words, strict=True)]
        lines.append(f"  {pad(head, left)}  {'  '.join(words)}".rstrip())
    return lines


def data(offers: Sequence[Offer], work: float) -> dict[str, Any]:
    """The comparison as plain data."""
    evens = list_break_evens(offers)
    columns = [_offer(offer, even) for offer, even in zip(offers, evens, strict=True)]
    return {_get_unit(offers) if offers else "tokens": work, "clusters": columns}


def _offer(offer: Offer, even: Even | None) -> dict[str, Any]:
    option = offer.option
    step = option.step if option.step and option.step.seconds > 0 else None
    return {
        "cluster": offer.cluster,
        "strategy": option.name,
        "verdict": option.verdict,
        "gpus": option.setup.mesh.world,
        "needed_bytes": option.memory.needed,
        "nvidia_smi_bytes": option.memory.nvidia_smi,
        "step_seconds": step and step.seconds,
        f"{get_work_unit(option.setup)}_per_second_per_gpu": step and step.rate,
        "gpu_hours": offer.gpu_hours or None,
        "amount": offer.amount,
        "currency": offer.currency or None,
        "owned_amount": offer.owned,
        "break_even": {
            "against": even.other.cluster,
            "price_per_gpu_hour": even.price,
            "runs": even.runs,
        }
        if even
        else None,
    }
