"""The strategies side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.cli.layout import clip, format_percent, measure, pad
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.memory import STYLES, WORDS, can_run, fold_foreign
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.step_speed import (
    compute_exposed,
    format_gain,
    format_number,
    format_time,
    join_sets,
)
from jobgen.strategy.choice.offer import Advice, StrategyOption
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.supported import uses_bitsandbytes
from jobgen.wording import count

_HEADS = ("STRATEGY", "NEEDS", "FITS", "EST. STEP", "RATE", "EXPOSED")
_RATES = {"tokens": "TOK/S/GPU", "samples": "SAMPLES/S/GPU"}
_DROPPED = (5, 4, 3)
"""Columns that go where there is no room, the first one first."""
_NAME, _NOTE = 16, 24
"""The least columns of a name, and of a note beside the numbers."""


def screen(advice: Advice, ink: Ink, *, every: bool = False) -> str:
    """A row for each option, its note beside or below; the chosen one is marked by ``>``, and its
    note stands in the verdict above. With ``every`` all that were compared."""
    if not advice.options:
        return ""
    if every:
        advice = advice._replace(options=(*advice.options, *advice.others), others=())
    heads = [_RATES[advice.unit] if head == "RATE" else head for head in _HEADS]
    rows: list[Sequence[str]] = [heads, *map(_cells, advice.options)]
    kept = _kept(rows, ink.width)
    widths = [max(measure(row[i]) for row in rows) for i in kept]
    widths[0] = min(widths[0], ink.width - 2 - sum(w + 2 for w in widths[1:]))
    lines = [ink("faint", ("  " + _joined([heads[i] for i in kept], widths, "  ")).rstrip())]
    if _room(widths, ink) >= _NOTE:
        lines[0] = ink("faint", "  " + _joined([*(heads[i] for i in kept), "NOTE"], widths, "  "))
    for option, row in zip(advice.options, rows[1:], strict=True):
        lines.append(_row(option, [row[i] for i in kept], widths, ink))
    lines += [f"  {fold_foreign(text, ink.width - 2, '  ')}" for text in _list_rules(advice)]
    return "".join(line + "\n" for line in lines)


def _list_rules(advice: Advice) -> Iterator[str]:
    """How a row was chosen, which is the fastest that fits, and which rows are left out."""
    if advice.why and advice.chosen and can_run(advice.chosen):
        yield "auto takes the simplest that fits, even where another is faster or smaller"
    if advice.faster:
        name, amount = advice.faster.option.name, format_gain(advice.faster.gain, advice.unit)
        yield f"fastest that fits: {name}, {amount}: {join_sets(advice.faster.changes)}"
    if advice.others:
        yield f"compared as well: {count(len(advice.others), 'more row')}; -v shows them"
    if _lacks_sharded(advice):
        yield "left out: FSDP and ZeRO-3, which cannot shard weights in 8 bits (J268)"
    if advice.untried:
        more = ", ".join(advice.untried)
        yield f"left out, because something simpler fits: more rows with {more}"


def _lacks_sharded(advice: Advice) -> bool:
    """Whether no row shards the frozen weights because they have 8 bits."""
    first = advice.first_option
    if first is None or not uses_bitsandbytes(first.setup.framework):
        return False
    rows = (*advice.options, *advice.others)
    adapters = first.setup.adapters
    return bool(adapters and adapters.bits == 8) and not any(
        TRAITS[row.setup.strategy].shards_parameters for row in rows
    )


def _cells(option: StrategyOption) -> tuple[str, ...]:
    step = option.step if can_run(option) else None
    speed = ("-", "-", "-")
    if step is not None and step.seconds > 0:
        speed = (
            format_time(step.seconds),
            format_number(step.rate),
            format_percent(compute_exposed(step)),
        )
    memory = f"{to_gib(option.memory.needed)} GiB"
    return (defuse(option.name), memory, WORDS[option.verdict], *speed)


def _kept(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns that there is room for."""
    kept = list(range(len(_HEADS)))
    widths = [max(measure(row[i]) for row in rows) for i in kept]
    for dropped in _DROPPED:
        name = min(widths[0], _NAME)
        if 2 + name + sum(widths[i] + 2 for i in kept[1:]) <= width:
            break
        kept.remove(dropped)
    return kept


def _room(widths: Sequence[int], ink: Ink) -> int:
    """Columns for a note beside the numbers."""
    return ink.width - 2 - sum(widths) - 2 * len(widths)


def _joined(cells: Sequence[str], widths: Sequence[int], gap: str) -> str:
    fixed = [pad(clip(cell, w), w) for cell, w in zip(cells, widths, strict=False)]
    return gap.join([*fixed, *cells[len(widths) :]])


def _row(option: StrategyOption, cells: Sequence[str], widths: Sequence[int], ink: Ink) -> str:
    mark = "> " if option.chosen else "  "
    name, *rest = _joined(cells, widths, "\0").split("\0")
    rest[1] = ink(STYLES[option.verdict], rest[1].rstrip()) + rest[1][len(rest[1].rstrip()) :]
    line = mark + "  ".join([ink("strong", name) if option.chosen else name, *rest])
    if option.chosen or not option.note:
        return line.rstrip()
    if (room := _room(widths, ink)) >= _NOTE:
        return f"{line}  {fold_foreign(option.note, room, ' ' * (ink.width - room))}"
    return f"{line.rstrip()}\n      {fold_foreign(option.note, ink.width - 6, '      ')}"
