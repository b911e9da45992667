"""A job on more and more nodes, as the planner expects it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.cli.layout import format_percent, measure, pad
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.memory import STYLES, WORDS, can_run, fold_foreign
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.step_speed import format_number
from jobgen.strategy.choice.offer import Advice, Scale
from jobgen.wording import count

_HEADS = ("NODES", "GPUS", "NEEDS", "FITS")


def screen(advice: Advice, nodes: Sequence[int], ink: Ink) -> str:
    """A row for each number of nodes; the curve is drawn against the ideal, which ends in ``|``.
    Below, which of ``nodes`` are left out, and what needs a word."""
    scale = advice.scale
    if not scale and not nodes:
        return ""
    notes = [f"  {fold_foreign(note, ink.width - 4, '    ')}\n" for note in _notes(advice, nodes)]
    table = _draw_table(scale, advice.unit, ink) if scale else ink("strong", "How it scales") + "\n"
    return table + "".join(notes)


def _notes(advice: Advice, nodes: Sequence[int]) -> Iterator[str]:
    """What the numbers of the table do not show by themselves."""
    scale, limit = advice.scale, advice.machine.nodes
    rows = {one.nodes for one in scale}
    if left := sorted(set(nodes) - rows):
        yield f"{_join(left)}: left out; batch or parallel sizes do not divide evenly there"
    if limit is not None and (more := sorted(n for n in rows if n > limit)):
        yield f"{_join(more)}: more than the {count(limit, 'node')} of the cluster"
    if advice.scale_network:
        yield f"assumed for steps on several nodes: {advice.scale_network}"
    yield from _explain_unfit(advice)
    able = [one for one in scale if can_run(one.option)]
    if any(one.efficiency > 1.005 for one in able):
        alike = len({one.option.name for one in able}) == 1
        why = "because each GPU of a larger job updates a smaller shard"
        why = why if alike else "where a larger job can take a faster strategy"
        yield f"EFF.: {advice.unit}/s per node against the first row that fits; above 100 % {why}"


def _explain_unfit(advice: Advice) -> Iterator[str]:
    """Why some numbers of nodes do not do, each reason once."""
    reasons: dict[str, list[int]] = {}
    for one in advice.scale:
        memory, note = one.option.memory, one.option.note
        if can_run(one.option):
            continue
        if memory.needed > advice.limit:
            over = f"{to_gib(memory.needed - advice.limit)} GiB over the limit"
            note = f"{over}; {note}" if note else over
        reasons.setdefault(note, []).append(one.nodes)
    yield from (f"{_join(nodes)}: {note}" for note, nodes in reasons.items() if note)


def _join(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))


def _draw_table(scale: Sequence[Scale], unit: str, ink: Ink) -> str:
    """The rows with their curve, and their strategies where they differ."""
    heads = (*_HEADS, f"{unit.upper()}/S", "EFF.")
    rows = [heads, *map(_scale, scale)]
    if sum(_widths(rows)) + 2 * len(heads) > ink.width:
        rows = [(row[0], *row[2:]) for row in rows]
    widths = _widths(rows)
    most = max(compute_ideal(one, scale) for one in scale)
    room = ink.width - sum(widths) - 2 * len(widths)
    lines = [ink("strong", "How it scales")]
    lines.append(ink("faint", "  ".join(map(pad, rows[0], widths)).rstrip()))
    for one, row in zip(scale, rows[1:], strict=True):
        cells = [pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        at = row.index(WORDS[one.option.verdict])
        cells[at] = ink(STYLES[one.option.verdict], row[at]) + cells[at][len(row[at]) :]
        cells.append(_curve(one.rate, compute_ideal(one, scale), most, room))
        lines.append("  ".join(cells).rstrip())
    names = dict.fromkeys(defuse(one.option.title) for one in scale)
    if len(names) > 1:
        lines += [
            f"  {fold_foreign(f'{one.nodes}: {one.option.title}', ink.width - 4, '    ')}"
            for one in scale
        ]
    return "".join(line + "\n" for line in lines)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(measure, column)) for column in zip(*rows, strict=True)]


def _scale(one: Scale) -> tuple[str, ...]:
    option, rates = one.option, ("-", "-")
    if one.rate > 0 and can_run(option):
        rates = (format_number(one.rate), format_percent(one.efficiency))
    memory = (f"{to_gib(option.memory.needed)} GiB", WORDS[option.verdict])
    return (str(one.nodes), str(option.setup.mesh.world), *memory, *rates)


def compute_ideal(one: Scale, scale: Sequence[Scale]) -> float:
    """Tokens or samples for each second if every node gave what each of the fewest nodes gives."""
    known = [s for s in scale if s.rate > 0 and s.nodes > 0 and can_run(s.option)]
    first = min(known, key=lambda s: s.nodes, default=None)
    return first.rate / first.nodes * one.nodes if first else 0.0


def _curve(rate: float, best: float, most: float, width: int) -> str:
    """``█████░░|``: cells of the rate, then up to the ideal."""
    if width < 10 or most <= 0:
        return ""
    done = min(round(rate / most * (width - 1)), width - 1)
    end = min(round(best / most * (width - 1)), width - 1)
    return "█" * done + "░" * (end - done) + "|"
