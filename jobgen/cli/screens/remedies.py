"""What would help where the strategy does not fit, or is tight."""

from __future__ import annotations

from jobgen.cli.layout import fold, format_percent
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.memory import can_run, fold_foreign
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.step_speed import format_number
from jobgen.strategy.choice.offer import Advice, Lever
from jobgen.wording import join_words

ORDER = "fits before tight, same GPUs before more, then fastest"
"""What stands first."""


def screen(advice: Advice, ink: Ink, *, every: bool = False) -> str:
    """The cheapest changes that are enough, with what each gives and costs, and the fewest nodes
    that work; with ``every`` the changes that are not enough too."""
    lines = []
    enough = [lever for lever in advice.levers if lever.fits]
    if advice.levers:
        title = f"What would help ({ORDER})"
        lines += [ink("strong", line) for line in fold(title, ink.width, "  ").split("\n")]
        for number, lever in enumerate(advice.levers if every else enough, 1):
            lines += _lever(number, lever, advice, ink)
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


_SAME = 0.005
"""The part of the rate below which two are alike."""
_ENDS = {"fits": ("fits", "good"), "tight": ("tight", "busy")}
"""Verdict → the last word of a change, and its style."""


def format_changes(lever: Lever) -> str:
    """``train.loss: fused``; of several that help only together, ``nodes: 2 and …``."""
    return defuse(join_words(lever.changes, "and"))


def _lever(number: int, lever: Lever, advice: Advice, ink: Ink) -> list[str]:
    fits, style = _ENDS.get(lever.verdict, ("too much", "bad"))
    note = f" ({lever.note})" if lever.note else ""
    speed = f"; {format_rate(lever, advice)}" if lever.fits and lever.rate else ""
    told = f"needs {to_gib(lever.memory)} GiB, {fits}{speed}"
    numbers = fold_foreign(told, ink.width - 5, "     ").replace(fits, ink(style, fits), 1)
    return [
        f"  {number:<2} {fold_foreign(format_changes(lever) + note, ink.width - 5, '     ')}",
        f"     {numbers}",
    ]


def format_rate(lever: Lever, advice: Advice) -> str:
    """``160,832 tokens/s (87 % more)``, of all GPUs; alone if the job as it is does not fit."""
    rate = f"{format_number(lever.rate)} {advice.unit}/s"
    option = advice.first_option
    gain = 1 / (1 + lever.slower) - 1
    if option is None or not can_run(option) or abs(gain) < _SAME:
        return rate
    if gain >= 1:
        return f"{rate} ({1 + gain:.1f} times as many)"
    return f"{rate} ({format_percent(abs(gain))} {'more' if gain > 0 else 'fewer'})"
