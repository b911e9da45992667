"""The estimate of a plan in a few lines: what is trained how, whether it fits, and what decides it.

Everything else is in the memory section."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.cli.layout import format_percent, format_size, measure
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.cli.screens.memory import (
    STYLES,
    VERDICTS,
    can_run,
    fold_foreign,
    format_assumption,
    format_strategy,
    list_sizes,
    name_rank,
)
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.offers import format_amount
from jobgen.cli.screens.step_speed import (
    compute_exposed,
    compute_mfu,
    format_gain,
    format_number,
    format_time,
    join_sets,
)
from jobgen.strategy.choice.assumptions import list_assumptions
from jobgen.strategy.choice.offer import Advice, StrategyOption
from jobgen.strategy.estimate import ClusterHardware, GpuMemory, Link, StepTime

_PARTS = 4
"""Parts that are named where no assumption decides."""
_WAITS = 0.5
"""The part of a step from which communication that is not hidden is named."""
_MUCH = 0.5
"""The part of a node's memory from which what is offloaded is named."""
_IDLE = 0.1
"""The part of a step from which the bubble of a pipeline is named."""


def draw_memory(advice: Advice, room: int, ink: Ink) -> list[str]:
    """Whether the GPU that holds most has room; what decides it. Each on a line of ``room``
    columns, folded where it must be."""
    option = advice.first_option
    if option is None:
        return []
    word = VERDICTS[option.verdict]
    found = _describe_verdict(option, advice.limit)
    words, more = _list_decisive(option, advice)
    if host := _describe_host(option.memory, advice.machine):
        words = [found, *(each for each in words if each != option.note)]
    verdict = fold_foreign(f"{word}: {host or found}", room)
    while more and measure("; ".join([*words, more[0]])) <= room:
        words.append(more.pop(0))
    painted = ink(STYLES[option.verdict], word) + verdict[len(word) :]
    lines = [painted, *([] if host else _list_host(option.memory, advice.machine))]
    lines.append(fold_foreign("; ".join(words), room))
    return [line for text in lines for line in text.split("\n")]


def _describe_host(memory: GpuMemory, machine: ClusterHardware) -> str:
    """What the memory of a node lacks; nothing where that is enough, or not known."""
    there = machine.node_memory
    if not there or memory.host <= there:
        return ""
    return f"needs {format_size(memory.host)} of {format_size(there)} host memory per node"


def _list_host(memory: GpuMemory, machine: ClusterHardware) -> list[str]:
    """What offloading needs of a node's memory, where that is much, or cannot be compared."""
    there, need = machine.node_memory, format_size(memory.host)
    if there and memory.host > _MUCH * there:
        return [f"also needs {need} of {format_size(there)} host memory per node"]
    if memory.host > 0 and not there:
        return [f"also needs {need} of host memory per node (nodes.mem is not set)"]
    return []


def _describe_verdict(option: StrategyOption, limit: float) -> str:
    """What is needed of what there is, as it is judged, and where nine in ten published runs
    lie."""
    memory = option.memory
    where = name_rank(memory) or " per GPU"
    low, high = memory.needed_interval
    interval = f"(90 %: {to_gib(low)}\u2013{to_gib(high)})"
    return f"needs {to_gib(memory.needed)} of {to_gib(limit)} GiB{where} {interval}"


def _list_decisive(option: StrategyOption, advice: Advice) -> tuple[list[str], list[str]]:
    """Why there is no room, or little, and the assumptions whose alternatives change the verdict;
    then what is named where there is room for it."""
    words = []
    if option.verdict in {"no", "unknown"}:
        words = [why] if (why := option.note or "; ".join(option.memory.doubts)) else []
    words += ["measured on fake tensors"] if option.setup.measured else []
    limit, verdict = advice.limit, option.memory.judge(advice.limit)
    assumed = list_assumptions(option.setup, advice.factor)
    if verdict == "no":  # what would make it larger decides nothing
        assumed = [each for each in assumed if each.change < 0]
    turning = [each for each in assumed if each.memory.judge(limit) != verdict]
    others = [each for each in assumed if each not in turning]
    texts = [format_assumption(each, option, advice) for each in (*turning, *others)]
    if texts:
        texts = [f"assumes {texts[0]}", *texts[1:]]
    elif not words:
        texts = _list_parts(option)
    kept = len(turning) or not words
    return [*words, *texts[:kept]], texts[kept:]


def _list_parts(option: StrategyOption) -> list[str]:
    parts = option.memory.list_largest()[:_PARTS]
    words = [f"{defuse(part.title)} {to_gib(part.bytes)} GiB" for part in parts]
    return [f"largest parts: {words[0]}", *words[1:]] if words else []


def draw_training(advice: Advice, room: int) -> list[str]:
    """``ZeRO-1, full activation checkpointing (auto); step 3.11 s, MFU 52 %; 16 x 8192 tokens per
    step, 42,100 tokens/s``: the strategy, sizes that the job does not set, the time of a step, and
    the work of all GPUs, in as few lines of ``room`` columns as hold each part whole."""
    option = advice.first_option
    if option is None:
        return []
    chosen = " (auto)" if advice.why and advice.chosen else ""
    sizes = list_sizes(option.setup, assumed=True)
    head = ", ".join([f"{format_strategy(option)}{chosen}", *sizes])
    lines = [head]
    for part in (*_describe_step(option, advice.machine), *_describe_faster(advice)):
        joined = f"{lines[-1]}; {part}"
        lines[-1:] = [joined] if measure(joined) <= room else [lines[-1], part]
    return [line for text in lines for line in fold_foreign(text, room).split("\n")]


def describe_work(advice: Advice, seconds: float) -> str:
    """``727 million tokens``, or samples: what the job trains on in these seconds; empty where the
    time of a step is not known."""
    step = _get_step(advice.first_option)
    return f"{format_amount(step.work / step.seconds * seconds)} {step.unit}" if step else ""


def _get_step(option: StrategyOption | None) -> StepTime | None:
    """The step of an option that can run, where its time is known."""
    if option is None or option.step is None or not can_run(option):
        return None
    return option.step if option.step.seconds > 0 else None


def _describe_step(option: StrategyOption, machine: ClusterHardware) -> Iterator[str]:
    step = _get_step(option)
    if step is None:
        return
    text = f"step {format_time(step.seconds)}"
    if step.bubble >= _IDLE * step.seconds:
        text += f", {format_percent(step.bubble / step.seconds)} of it pipeline bubble"
    if compute_exposed(step) >= _WAITS:
        yield f"{text}, {_describe_wait(step)}"
    elif machine.peak > 0:
        yield f"{text}, MFU {format_percent(compute_mfu(step, machine))}"
    else:
        yield text
    samples, rate = option.setup.batch.total, format_number(step.work / step.seconds)
    size = f"{samples:,} {TIMES} {option.setup.seq}" if step.unit == "tokens" else f"{samples:,}"
    yield f"{size} {step.unit} per step, {rate} {step.unit}/s"


def _describe_faster(advice: Advice) -> Iterator[str]:
    """``33 % more tokens/s with --set train.strategy=zero3``, where ``auto`` chose what is clearly
    slower. A strategy that the job names is not questioned here."""
    if advice.why and advice.faster:
        sets = join_sets(advice.faster.changes)
        yield f"{format_gain(advice.faster.gain, advice.unit)} with {sets}"


def _describe_wait(step: StepTime) -> str:
    """``90 % of it exposed communication over the network``."""
    links: dict[Link, str] = {
        "network": "over the network",
        "node": "between the GPUs of a node",
    }
    spent = {link: step.get_exposed(link) for link in links}
    slowest = max(spent, key=lambda link: spent[link])
    share = format_percent(spent[slowest] / step.seconds)
    return f"{share} of it exposed communication {links[slowest]}"
