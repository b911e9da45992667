"""What would help where no strategy fits."""

from __future__ import annotations

from jobgen.cli.output import Ink
from jobgen.cli.screens.memory import fold_foreign, format_percent, to_gib
from jobgen.strategy.choice.offer import Advice, Lever


def screen(advice: Advice, ink: Ink) -> str:
    """The cheapest changes with what each gives and costs, and the fewest nodes that work."""
    lines = []
    if advice.levers:
        lines.append(ink("strong", "What would help (cheapest first)"))
        for number, lever in enumerate(advice.levers, 1):
            lines += _lever(number, lever, ink)
    if advice.smallest_nodes is not None:
        how = f", with {advice.smallest_by}" if advice.smallest_by else ""
        told = f"Fewest nodes that fit: {advice.smallest_nodes}{how}"
        lines.append(fold_foreign(told, ink.width, "  "))
    elif advice.levers and not any(lever.fits for lever in advice.levers):
        lines += [f"  {fold_foreign('No single change is enough.', ink.width - 2)}"]
    return "".join(line + "\n" for line in lines)


def _lever(number: int, lever: Lever, ink: Ink) -> list[str]:
    fits, style = ("fits", "good") if lever.fits else ("too much", "bad")
    less = (
        f"saves {to_gib(lever.saves)} GiB"
        if lever.saves >= 0
        else f"takes {to_gib(-lever.saves)} GiB more"
    )
    told = f"{less}{format_slower(lever.slower)}: {to_gib(lever.memory)} GiB, {fits}"
    numbers = fold_foreign(told, ink.width - 5, "     ").removesuffix(fits)
    return [
        f"  {number:<2} {fold_foreign(lever.change, ink.width - 5, '     ')}",
        f"     {numbers}{ink(style, fits)}",
    ]


def format_slower(part: float) -> str:
    """``, 33 % slower``; nothing where it costs no time."""
    if abs(part) < 0.005:
        return ""
    return f", {format_percent(abs(part))} {'slower' if part > 0 else 'faster'}"
