"""The parts of a GPU's memory: a legend with the GiB of each, and the bar below."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.cli.layout import clip, format_percent, measure
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.stack import choose_letters, choose_style, divide_cells, draw_bar
from jobgen.strategy.estimate import GIB, Component, GpuMemory


def to_gib(amount: float) -> str:
    """GiB to a tenth, without the unit; whole from a hundred on."""
    if 0 < amount < 0.05 * GIB:
        return "<0.1"
    found = amount / GIB
    return f"{found:.0f}" if found >= 99.95 else f"{found:.1f}"


def draw_components(memory: GpuMemory, limit: float, ink: Ink) -> list[str]:
    """Each part with its letter and GiB, and the bar below."""
    parts = [part for part in memory.components if part.bytes > 0]
    total, mark = f"= {to_gib(memory.nvidia_smi)} GiB", f"(| is the limit, {to_gib(limit)})"
    end = f"{total} in nvidia-smi {mark}"
    if measure(end) > ink.width - 4:
        end = f"{total} {mark}"
    return [*_legend(parts, end, ink), _bar(memory, limit, ink)]


def round_parts(parts: Sequence[Component]) -> list[str]:
    """GiB of each part to a tenth, so that the tenths add up to those of the sum, and those of what
    is allocated to its own; as each is where a sum is shown without tenths. Cache and context are
    the last parts."""
    beside = [part.bytes for part in parts if part.name in {"cache", "context"}]
    allocated = [part.bytes for part in parts[: len(parts) - len(beside)]]
    torch = round(sum(allocated) / GIB * 10)
    rest = round(sum(part.bytes for part in parts) / GIB * 10) - torch
    return [
        *_round_sizes(allocated, torch, exact=torch < 1000),
        *_round_sizes(beside, rest, exact=torch + rest < 1000),
    ]


def _round_sizes(sizes: Sequence[float], tenths: int, *, exact: bool) -> list[str]:
    """GiB of each; if ``exact``, to tenths that add up to so many."""
    if not exact:
        return [to_gib(size) for size in sizes]
    rounded = divide_cells(sizes, sum(sizes), tenths)
    return [f"{tenth / 10:.1f}" if tenth else "<0.1" for tenth in rounded]


def _legend(parts: Sequence[Component], end: str, ink: Ink) -> list[str]:
    """``p params 0.9, g grads 0.9  = 50.2 GiB  | limit 79.2``: every part by its letter, as it is
    painted; then the sum, and the sign of the limit."""
    lines: list[str] = []
    used = ink.width
    columns = zip(choose_letters(parts), parts, round_parts(parts), strict=True)
    for number, (letter, part, amount) in enumerate(columns, 1):
        comma = "," * (number < len(parts))
        rest = f" {clip(defuse(part.title), 17)} {amount}{comma}"
        word = ink(choose_style(part.name), letter) + rest
        width = 1 + measure(rest)
        if used + 1 + width > ink.width - 2:
            lines.append(f"  {word}")
            used = 2 + width
        else:
            lines[-1] += f" {word}"
            used += 1 + width
    if used + 2 + measure(end) > ink.width - 2:
        return [*lines, f"  {end}"]
    return [*lines[:-1], f"{lines[-1]}  {end}"]


def _bar(memory: GpuMemory, limit: float, ink: Ink) -> str:
    """The bar, with the part of the limit that is needed: what the verdict leaves free is the
    rest."""
    parts = [part for part in memory.components if part.bytes > 0]
    if limit <= 0:
        return f"  {draw_bar(parts, limit, ink.width - 4, ink)}"
    share = f"{format_percent(memory.needed / limit)} needed"
    return f"  {draw_bar(parts, limit, ink.width - 4 - measure(share), ink)} {share}"
