"""Cloud against owned hardware: from which price, and after how much work, the other is cheaper."""

from __future__ import annotations

from collections.abc import Sequence

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


def break_even(offer: Offer, offers: Sequence[Offer]) -> Even | None:
    """Against the cheapest other offer that is rented, in an equal currency; None without one.

    The price follows from equal amounts: amount(other) / GPU-hours(this). Buying pays after
    bought / (amount(other) - amount(this)) runs.
    """
    others = [
        other
        for other in offers
        if other is not offer
        and other.amount is not None
        and other.currency == offer.currency
        and other.owned is None
    ]
    if offer.amount is None or not offer.gpu_hours or not others:
        return None
    other = min(others, key=lambda o: o.amount or 0.0)
    amount = other.amount or 0.0
    saved = amount - offer.amount
    runs = offer.owned / saved if offer.owned is not None and saved > 0 else None
    return Even(other, amount / offer.gpu_hours, runs)
