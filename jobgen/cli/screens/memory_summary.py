"""The memory of a plan in a few lines: whether it fits, the bar, the step, the other strategies."""

from __future__ import annotations

from jobgen.cli.layout import measure
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.memory import (
    STYLES,
    can_run,
    compute_mfu,
    draw_components,
    fold_foreign,
    format_percent,
    format_setting,
    format_time,
    to_gib,
)
from jobgen.cli.screens.remedies import format_slower
from jobgen.strategy.choice.offer import Advice, Lever, StrategyOption
from jobgen.wording import count

_LEVERS = 2
"""Changes that are named where the job does not fit."""


def draw_summary(advice: Advice, ink: Ink, optimizer: str = "") -> list[str]:
    """The lines of the option that was chosen, or of the one that comes nearest to fitting."""
    option = advice.first_option
    if option is None:
        return []
    assumed = (
        [f"{optimizer} (assumed)"] if optimizer and "optimizer" in option.setup.assumed else []
    )
    setting = ", ".join([format_setting(option), *assumed])
    sentences = [*_describe_step(option, advice), *_describe_choice(advice), *_list_levers(advice)]
    texts = [
        *_draw_title(option, advice, ink),
        f"  {fold_foreign(setting, ink.width - 2, '  ')}",
        *draw_components(option.memory, advice.limit, ink),
        *(f"  {fold_foreign(text, ink.width - 4, '    ')}" for text in sentences),
    ]
    return [line for text in texts for line in text.split("\n")]


def _draw_title(option: StrategyOption, advice: Advice, ink: Ink) -> list[str]:
    """``Memory per GPU  fits: 62.1 of 79.2 GiB expected …``, the verdict painted."""
    word = _WORDS.get(option.verdict, option.verdict)
    head = "Memory per GPU"
    text = fold_foreign(
        f"{word}: {_describe_verdict(option, advice.limit)}",
        ink.width - measure(head) - 2,
        " " * (measure(head) + 2),
    )
    return [f"{ink('strong', head)}  {ink(STYLES[option.verdict], word)}{text[len(word) :]}"]


_WORDS = {"no": "does not fit"}


def _describe_verdict(option: StrategyOption, limit: float) -> str:
    """What is expected of what there is; then the headroom, or why it does not fit."""
    memory = option.memory
    interval = f"{to_gib(memory.low)}\u2013{to_gib(memory.high)}"
    amount = f"{to_gib(memory.nvidia_smi)} of {to_gib(limit)} GiB expected ({interval})"
    if option.verdict in {"no", "unknown"}:
        why = option.note or "; ".join(memory.doubts)
        return f"{amount}; {why}" if why else amount
    headroom = (limit - memory.nvidia_smi) / limit if limit > 0 else 0.0
    top = "; the upper estimate does not fit" if memory.high > limit else ""
    return f"{amount}; {format_percent(headroom)} headroom{top}"


def _describe_step(option: StrategyOption, advice: Advice) -> list[str]:
    step = option.step
    if step is None or step.seconds <= 0 or not can_run(option):
        return []
    text = f"estimated step {format_time(step.seconds)}, {step.rate:,.0f} tokens/s/GPU"
    if advice.machine.peak > 0:
        text += f", MFU {format_percent(compute_mfu(step, advice.machine))}"
    return [text]


def _describe_choice(advice: Advice) -> list[str]:
    """How the strategy came about, and how many others there are."""
    others = [option for option in advice.options if not option.chosen]
    fit = sum(option.verdict in {"fits", "tight"} for option in others)
    if not others:
        return []
    if advice.why and advice.chosen:
        able = fit + (advice.chosen.verdict in {"fits", "tight"})
        return [f"strategy: auto chose the simplest that fits ({able} of {len(others) + 1} fit)"]
    return [f"strategy: {fit or 'none'} of {count(len(others), 'other')} would fit"]


def _list_levers(advice: Advice) -> list[str]:
    """The cheapest changes that are enough; where none is, what the fewest nodes would take."""
    enough = [lever for lever in advice.levers if lever.fits][:_LEVERS]
    if enough:
        return [f"what would help: {'; or '.join(map(_describe_lever, enough))}"]
    if advice.smallest_nodes is not None:
        nodes = f"{count(advice.smallest_nodes, 'node')} or more"
        how = f"{advice.smallest_by}, on {nodes}" if advice.smallest_by else nodes
        return [f"what would help: {how}"]
    return ["what would help: no single change is enough"] if advice.levers else []


def _describe_lever(lever: Lever) -> str:
    return f"{defuse(lever.change)} ({to_gib(lever.memory)} GiB{format_slower(lever.slower)})"
