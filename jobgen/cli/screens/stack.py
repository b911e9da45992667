"""A bar of letters: the parts of a GPU's memory against its limit, in as many cells as there are.

Every part gets its share rounded up or down to whole cells, and together they get the rounded share
of their sum (largest remainders). A part too small for a cell is still named in the legend.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.cli.output import Ink
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import Component

LETTERS = {
    "params": "p",
    "grads": "g",
    "master": "m",
    "moments": "o",
    "gathered": "u",
    "buckets": "b",
    "activations": "a",
    "logits": "l",
    "temporary": "t",
    "context": "c",
    "cache": "f",
}
"""Of a bar. ``u`` is gathered, because g is taken: these are unsharded; ``f`` is fragmentation."""
MEANT = {
    "params": "parameters",
    "grads": "gradients",
    "master": "fp32 copy of the parameters",
    "moments": "optimizer's moments",
    "gathered": "gathered (unsharded) layers, or 16-bit copies",
    "buckets": "buckets of the network",
    "activations": "activations",
    "logits": "logits and loss",
    "temporary": "temporary tensors",
    "context": "CUDA context and NCCL",
    "cache": "free in torch's cache, given back before memory runs out",
}
"""What stands behind a component's name."""
_STYLES = {
    **dict.fromkeys(("params", "grads", "master", "moments"), "note"),
    **dict.fromkeys(("gathered", "buckets", "temporary"), "good"),
    **dict.fromkeys(("activations", "logits"), "busy"),
}
_COPIES = "w"
"""Of ``gathered`` where it has a name of its own: nothing is unsharded, weights are copied."""
FREE, LIMIT = ".", "|"


class CellRun(NamedTuple):
    """Cells of one kind side by side."""

    letter: str
    cells: int
    style: str


def choose_style(name: str) -> str:
    """How a component is painted: states, transients, activations and the rest differ."""
    return _STYLES.get(name, "faint")


def choose_letters(parts: Sequence[Component]) -> list[str]:
    """One letter for each part, all different as far as the alphabet goes."""
    taken = {*(LETTERS[part.name] for part in parts if part.name in LETTERS), _COPIES}
    found = []
    for part in parts:
        letter = LETTERS.get(part.name, "")
        letter = _COPIES if part.name == "gathered" and part.label else letter
        if not letter:
            wanted = (*part.name.lower(), *"hijkqrsvwxyzden")
            usable = (c for c in wanted if c.isascii() and c.isalpha() and c not in taken)
            letter = next(usable, "?")
            taken.add(letter)
        found.append(letter)
    return found


def divide_cells(amounts: Sequence[float], whole: float, cells: int) -> list[int]:
    """Cells of each amount where ``cells`` are ``whole``: its share, rounded up or down."""
    if whole <= 0 or cells <= 0:
        return [0] * len(amounts)
    exact = [min(max(amount, 0) / whole, 1) * cells for amount in amounts]
    found = [int(share) for share in exact]
    left = min(round(sum(exact)), cells) - sum(found)
    for i in sorted(range(len(exact)), key=lambda i: found[i] - exact[i])[: max(left, 0)]:
        found[i] += 1
    return found


def draw_bar(parts: Sequence[Component], limit: float, width: int, ink: Ink) -> str:
    """The bar in at most ``width`` columns: ``[ppgoooaaaa....|``.

    Where the parts fit, its end is the limit. Where they do not, its end is their sum, and the
    limit stands between the cells; what lies beyond is painted as bad, but for cache, which the
    allocator gives back.
    """
    total = sum(part.bytes for part in parts)
    over = total > limit
    cells = max(width - 2 - over, 1)
    whole = max(total, limit)
    counts = divide_cells([part.bytes for part in parts], whole, cells)
    runs = [
        CellRun(letter, count, choose_style(part.name))
        for letter, count, part in zip(choose_letters(parts), counts, parts, strict=True)
    ]
    if not over:
        runs.append(CellRun(FREE, cells - sum(counts), "faint"))
        return f"[{_painted(runs, ink)}{ink('strong', LIMIT)}"
    before, beyond = _split(runs, round(cells * limit / whole))
    return f"[{_painted(before, ink)}{ink('strong', LIMIT)}{_painted(beyond, ink)}]"


def _painted(runs: Sequence[CellRun], ink: Ink) -> str:
    return "".join(ink(run.style, run.letter * run.cells) for run in runs)


def _split(runs: Sequence[CellRun], at: int) -> tuple[list[CellRun], list[CellRun]]:
    before, beyond = [], []
    for run in runs:
        here = min(max(at, 0), run.cells)
        before.append(run._replace(cells=here))
        style = run.style if run.letter == LETTERS["cache"] else "bad"
        beyond.append(run._replace(cells=run.cells - here, style=style))
        at -= here
    return before, beyond
