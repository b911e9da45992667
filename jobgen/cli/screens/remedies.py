"""What would help where the strategy does not fit, or is tight."""

from __future__ import annotations

from jobgen.cli.layout import fold, format_percent
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.memory import fold_foreign, to_gib
from jobgen.strategy.choice.offer import Advice, Lever
from jobgen.wording import join_words

ORDER = "fits before tight, then cheapest; time per {}"
"""What stands first, and what the times are of: a token or a sample."""


def screen(advice: Advice, ink: Ink, *, every: bool = False) -> str:
    """The cheapest changes that are enough, with what each gives and costs, and the fewest nodes
    that work; with ``every`` the changes that are not enough too."""
    lines = []
    enough = [lever for lever in advice.levers if lever.fits]
    if advice.levers:
        title = f"What would help ({ORDER.format(advice.unit[:-1])})"
        lines += [ink("strong", line) for line in fold(title, ink.width, "  ").split("\n")]
        for number, lever in enumerate(advice.levers if every else enough, 1):
            lines += _lever(number, lever, ink)
    if advice.levers and not enough:
        nearest = min(advice.levers, key=lambda lever: lever.memory)
        text = f"No change is enough; the nearest is {nearest.change}: "
        lines.append(
            f"  {fold_foreign(f'{text}{to_gib(nearest.memory)} GiB', ink.width - 2, '  ')}"
        )
    if advice.smallest_nodes is not None:
        told = f"Fewest nodes that fit: {advice.smallest_nodes}"
        told += f", with {advice.smallest_by}" if advice.smallest_by else ""
        lines.append(fold_foreign(told, ink.width, "  "))
    return "".join(line + "\n" for line in lines)


_ENDS = {"fits": ("fits", "good"), "tight": ("tight", "busy")}
"""Verdict → the last word of a change, and its style."""


def format_changes(lever: Lever) -> str:
    """``train.loss: fused``; of several that help only together, ``nodes: 2 and …``."""
    return defuse(join_words(lever.changes, "and"))


def _lever(number: int, lever: Lever, ink: Ink) -> list[str]:
    fits, style = _ENDS.get(lever.verdict, ("too much", "bad"))
    note = f" ({lever.note})" if lever.note else ""
    less = (
        f"saves {to_gib(lever.saves)} GiB"
        if lever.saves >= 0
        else f"takes {to_gib(-lever.saves)} GiB more"
    )
    told = f"{less}{format_slower(lever.slower)}: {to_gib(lever.memory)} GiB, {fits}"
    numbers = fold_foreign(told, ink.width - 5, "     ").removesuffix(fits)
    return [
        f"  {number:<2} {fold_foreign(format_changes(lever) + note, ink.width - 5, '     ')}",
        f"     {numbers}{ink(style, fits)}",
    ]


def format_slower(part: float) -> str:
    """``, 33 % slower``, or how many times as long; nothing where it costs no time."""
    if part >= 1:
        return f"; takes {1 + part:.2g} times as long"
    if abs(part) < 0.005:
        return ""
    return f", {format_percent(abs(part))} {'slower' if part > 0 else 'faster'}"
