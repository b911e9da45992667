"""Cloud against owned hardware: from which price, and after how much work, the other is cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.offer import Offer


class Even(NamedTuple):
    """Where an offer costs as much as the cheapest of the others."""

    other: Offer
    price: float
    """Of a GPU-hour of this offer, in its currency."""
    runs: float | None = None
    """How often the work must be done before buying is cheaper than renting ``other``; None where
    nothing is bought, or where renting costs no more than running what one owns."""


def list_break_evens(offers: Sequence[Offer]) -> list[Even | None]:
    """Of each offer, against the cheapest other one that is rented, in an equal currency.

    None where there is none. The price follows from equal amounts: amount(other) / GPU-hours(this).
    Buying pays after bought / (amount(other) - amount(this)) runs.
    """
    rented: dict[str, list[Offer]] = {}
    for offer in offers:
        if offer.amount is not None and offer.owned is None:
            rented.setdefault(offer.currency, []).append(offer)
    # the second where the offer is the cheapest itself
    cheapest = {name: nsmallest(2, some, key=_get_amount) for name, some in rented.items()}
    return [_compare(offer, cheapest.get(offer.currency, ())) for offer in offers]


def _get_amount(offer: Offer) -> float:
    return offer.amount or 0.0


def _compare(offer: Offer, cheapest: Sequence[Offer]) -> Even | None:
    other = next((one for one in cheapest if one is not offer), None)
    if offer.amount is None or not offer.gpu_hours or other is None:
        return None
    amount = _get_amount(other)
    saved = amount - offer.amount
    runs = offer.owned / saved if offer.owned is not None and saved > 0 else None
    return Even(other, amount / offer.gpu_hours, runs)
