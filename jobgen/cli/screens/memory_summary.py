"""The memory of a plan in a few lines: whether it fits, what decides it, the step, what would help.

Its parts and their bar are in the memory section."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.cli.layout import measure
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.measured_rows import describe_measured
from jobgen.cli.screens.memory import (
    STYLES,
    can_run,
    compute_mfu,
    fold_foreign,
    format_assumption,
    format_interval,
    format_percent,
    format_rate,
    format_setting,
    format_time,
    name_rank,
    to_gib,
)
from jobgen.cli.screens.remedies import format_changes, format_slower
from jobgen.cli.screens.strategies import compute_exposed
from jobgen.strategy.choice.assumptions import list_assumptions
from jobgen.strategy.choice.offer import Advice, Lever, StrategyOption
from jobgen.strategy.estimate import StepTime
from jobgen.wording import count

_LEVERS = 2
"""Changes that are named where the job does not fit."""
_PARTS = 4
"""Parts that are named where no assumption decides."""
_WAITS = 0.5
"""The part of a step from which it is said that communication is not hidden."""


def draw_summary(advice: Advice, ink: Ink, optimizer: str = "") -> list[str]:
    """The lines of the option that was chosen, or of the one that comes nearest to fitting."""
    option = advice.first_option
    if option is None:
        return []
    assumed = (
        [f"optimizer {optimizer} (assumed)"]
        if optimizer and "optimizer" in option.setup.assumed
        else []
    )
    setting = ", ".join([format_setting(option), *assumed])
    sentences = [
        *map(defuse, describe_measured(option.setup)),
        *_describe_step(option, advice),
        *_describe_choice(advice),
        *_list_levers(advice),
    ]
    texts = [
        *_draw_title(option, advice, ink),
        *_draw_decisive(option, ink),
        f"  {fold_foreign(setting, ink.width - 2, '  ')}",
        *(f"  {fold_foreign(text, ink.width - 4, '    ')}" for text in sentences),
    ]
    return [line for text in texts for line in text.split("\n")]


def _draw_title(option: StrategyOption, advice: Advice, ink: Ink) -> list[str]:
    """``Memory per GPU  fits: 62.1 GiB expected …``, the verdict painted."""
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
    """What torch allocates of what there is; then what is free, or why it does not fit."""
    memory = option.memory
    interval = format_interval(memory, "allocated")
    allocated = to_gib(memory.get_peak("allocated"))
    amount = f"{allocated} GiB allocated ({interval}) of {to_gib(limit)}{name_rank(memory)}"
    if option.verdict in {"no", "unknown"}:
        why = option.note or "; ".join(memory.doubts)
        return f"{amount}; {why}" if why else amount
    return f"{amount}; {memory.describe_room(limit)}"


def _draw_decisive(option: StrategyOption, ink: Ink) -> list[str]:
    """A line: the assumptions that change most, with the GiB of their alternatives; where nothing
    is assumed, the largest parts."""
    title, words = "assumed", list(map(format_assumption, list_assumptions(option.setup)))
    if not words:
        parts = sorted(option.memory.components, key=lambda part: -part.bytes)[:_PARTS]
        words = [f"{part.title} {to_gib(part.bytes)}" for part in parts if part.bytes > 0]
        title = "largest parts in GiB"
    room = ink.width - 2
    while len(words) > 1 and measure(_list_words(title, words)) > room:
        words.pop()
    return [f"  {fold_foreign(_list_words(title, words), room, '    ')}"]


def _list_words(title: str, words: Sequence[str]) -> str:
    return f"{title}: {'; '.join(words)}"


def _describe_step(option: StrategyOption, advice: Advice) -> list[str]:
    step = option.step
    if step is None or step.seconds <= 0 or not can_run(option):
        return []
    text = f"estimated step {format_time(step.seconds)}, {format_rate(step)}"
    if advice.machine.peak > 0:
        text += f", MFU {format_percent(compute_mfu(step, advice.machine))}"
    return [f"{text}{_describe_wait(step)}"]


def _describe_wait(step: StepTime) -> str:
    """``; 90 % is exposed communication over the network``, where that is most of the step."""
    if compute_exposed(step) < _WAITS:
        return ""
    links = {"network": "over the network", "node": "between the GPUs of a node"}
    spent = {link: sum(v.exposed for v in step.volumes if v.link == link) for link in links}
    slowest = max(spent, key=lambda link: spent[link])
    share = format_percent(spent[slowest] / step.seconds)
    return f"; {share} of the step is exposed communication {links[slowest]}"


def _describe_choice(advice: Advice) -> list[str]:
    """How the strategy came about, and how many others there are."""
    others = [option for option in advice.options if not option.chosen]
    if not others:
        return []
    if advice.why and advice.chosen:
        return [f"strategy: {_describe_auto(advice.options, advice.chosen)}"]
    fit, tight = _count_able(others)
    also = f", {tight} tightly" if tight else ""
    return [f"strategy: {fit or 'none'} of {count(len(others), 'other')} would fit{also}"]


def _describe_auto(options: Sequence[StrategyOption], chosen: StrategyOption) -> str:
    """Why the planner took this one, of how many."""
    fit, tight = _count_able(options)
    compared = f"{len(options)} strategies compared"
    if chosen.verdict == "fits":
        return f"auto chose {_name_simplest(fit, 'that fits', 'that fit')} ({compared})"
    if chosen.verdict == "tight":
        which = _name_simplest(tight, "that is tight", "that are tight")
        return f"auto chose {which}; none fits comfortably ({compared})"
    return f"auto shows what needs least; nothing fits ({compared})"


def _name_simplest(number: int, one: str, many: str) -> str:
    return f"the only one {one}" if number == 1 else f"the simplest of {number} {many}"


def _count_able(options: Sequence[StrategyOption]) -> tuple[int, int]:
    """How many fit with room to spare, and how many more are tight."""
    verdicts = [one.verdict for one in options]
    return verdicts.count("fits"), verdicts.count("tight")


def _list_levers(advice: Advice) -> list[str]:
    """The cheapest changes that are enough."""
    enough = [lever for lever in advice.levers if lever.fits][:_LEVERS]
    if enough:
        return [f"what would help: {'; or '.join(map(_describe_lever, enough))}"]
    return ["what would help: nothing that the planner tries"] if advice.levers else []


def _describe_lever(lever: Lever) -> str:
    tight = ", tight" if lever.verdict == "tight" else ""
    note = f"; {defuse(lever.note)}" if lever.note else ""
    numbers = f"{to_gib(lever.memory)} GiB{tight}{format_slower(lever.slower)}"
    return f"{format_changes(lever)} ({numbers}{note})"
