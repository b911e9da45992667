"""The memory section of ``plan``: what a GPU holds at its peak, against what it has."""

from __future__ import annotations

from jobgen.cli.layout import clip, fold, format_percent, format_size, measure
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.measured_rows import describe_measured
from jobgen.cli.screens.memory_parts import draw_components, to_gib
from jobgen.cli.screens.step_speed import format_number, format_speed
from jobgen.strategy.choice.assumptions import Assumption, list_assumptions
from jobgen.strategy.choice.nearest import find_nearest
from jobgen.strategy.choice.offer import Advice, StrategyOption
from jobgen.strategy.estimate import (
    FRAGMENTED,
    ClusterHardware,
    GpuMemory,
    Metric,
    Verdict,
)
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.wording import count

WORDS: dict[Verdict, str] = {"fits": "yes", "tight": "tight", "no": "no", "unknown": "?"}
"""A verdict in a column."""
VERDICTS: dict[Verdict, str] = {**WORDS, "fits": "fits", "no": "does not fit"}
"""A verdict in a sentence."""
STYLES: dict[Verdict, str] = {"fits": "good", "tight": "busy", "no": "bad", "unknown": "note"}
_MOMENTS = {
    "forward": "the forward pass",
    "backward": "the backward pass",
    "step": "the optimizer step",
    "load": "model loading",
}


_METRICS: dict[Metric, str] = {
    "allocated": "allocated",
    "reserved": "reserved",
    "nvidia-smi": "in nvidia-smi",
}


def fold_foreign(text: object, width: int, indent: str = "") -> str:
    """Foreign text folded to a width; a word that is wider than a line is cut."""
    words = (clip(word, width) for word in defuse(text).split(" "))
    return fold(" ".join(words), width, indent)


def can_run(option: StrategyOption) -> bool:
    """Whether its speed means anything: what does not fit has none."""
    return option.verdict != "no"


def screen(advice: Advice, ink: Ink) -> str:
    """The section of the option that was chosen, or of the one that comes nearest."""
    option = advice.first_option
    if option is None:
        return ""
    lines = [
        *_title(option, advice.limit, ink),
        *draw_components(option.memory, advice.limit, ink),
        *_sentences(option, advice, ink),
    ]
    return "".join(line + "\n" for line in lines)


def format_setting(option: StrategyOption) -> str:
    """What is estimated: ``FSDP, bf16-mixed, seq_len 2048 (assumed), micro-batch 2``."""
    setup = option.setup
    words = [format_strategy(option), *_list_adapters(setup), defuse(setup.recipe.name)]
    words += list_sizes(setup)
    words += [f"optimizer {option.optimizer} (assumed)"] if "optimizer" in setup.assumed else []
    return ", ".join(words)


def _list_adapters(setup: Setup) -> list[str]:
    """``LoRA of rank 16 on every linear layer (assumed), 4-bit weights``; none without adapters."""
    adapters = setup.adapters
    if adapters is None:
        return []
    layers = defuse(" ".join(adapters.targets)) or "every linear layer (assumed)"
    weights = [f"{adapters.bits}-bit weights"] if adapters.bits < 16 else []
    return [f"LoRA of rank {adapters.rank} on {layers}", *weights]


def format_strategy(option: StrategyOption) -> str:
    """The strategy, marked if the job sets none."""
    return defuse(option.title) + " (assumed)" * ("strategy" in option.setup.assumed)


def list_sizes(setup: Setup, *, assumed: bool = False) -> list[str]:
    """The sequence and the micro-batch; what the job does not set is marked, by its key. With
    ``assumed`` only that."""
    values = {"seq_len": setup.seq, "micro_batch": setup.batch.micro}
    if setup.measured is not None:  # its batch says how long a sequence is
        del values["seq_len"]
    names = {"seq_len": "seq", "micro_batch": "micro-batch"}
    words = []
    for key, value in values.items():
        if key in setup.assumed:
            origin = "assumed" if setup.measured is None else "measured"
            words.append(f"{key} {value} ({origin})")
        elif key in setup.derived:
            words.append(f"{key} {value} (from global_batch)")
        elif not assumed:
            words.append(f"{names[key]} {value}")
    return words


def _title(option: StrategyOption, limit: float, ink: Ink) -> list[str]:
    """The strategy at the left and the limit at the right, or the limit below."""
    head = "Memory per GPU"
    right = f"limit {to_gib(limit)} GiB"
    text = format_setting(option)
    if measure(head) + measure(text) + measure(right) + 4 <= ink.width:
        gap = ink.width - measure(head) - measure(text) - measure(right) - 2
        return [f"{ink('strong', head)}  {text}{' ' * gap}{right}"]
    return [f"{ink('strong', head)}  {right}", f"  {fold_foreign(text, ink.width - 2, '  ')}"]


def _sentences(option: StrategyOption, advice: Advice, ink: Ink) -> list[str]:
    memory = option.memory
    found = format_verdict(option, advice.limit)
    word = found.partition(":")[0]
    told = [
        format_expected(memory, advice.limit),
        *_shrinking(option),
        *_beside(memory, advice.machine),
        *describe_measured(option.setup),
        *_describe_assumptions(option, advice),
        *_describe_nearest(option),
        *_describe_step(option, advice),
        *(f"not modelled: {doubt}" for doubt in memory.doubts),
    ]
    lines = [f"  {fold_foreign(text, ink.width - 4, '    ')}" for text in told]
    shown = fold_foreign(found, ink.width - 4, "    ")
    painted = ink(STYLES[option.verdict], shown[: len(word)]) + shown[len(word) :]
    return [f"  {painted}", *lines]


def _describe_step(option: StrategyOption, advice: Advice) -> list[str]:
    """The time of a step, and the network that it assumes."""
    if option.step is None or not can_run(option):
        return []
    network = advice.assumed_network
    told = [f"assumed for the step: {network}"] if network else []
    return [format_speed(option.step, advice.machine), *told]


def format_expected(memory: GpuMemory, limit: float) -> str:
    """The peak in each metric with its interval, what torch allocates first: it decides."""
    amounts = (
        f"{to_gib(memory.get_peak(metric))} ({format_interval(memory, metric)}) {word}"
        for metric, word in _METRICS.items()
    )
    return (
        f"expected {', '.join(amounts)}; needs {to_gib(memory.needed)} of {to_gib(limit)} GiB: "
        f"allocated, {_FRAGMENTS} cache, CUDA context; "
        f"peak during {_name_moment(memory)}{name_rank(memory)}"
    )


_FRAGMENTS = format_percent(FRAGMENTED - 1)
"""Cache that the allocator cannot give back, as a part of what is allocated."""


def name_rank(memory: GpuMemory) -> str:
    """Which GPU is meant, where the stages of a pipeline differ."""
    rank = memory.pipeline_rank
    return "" if rank is None else f" on pipeline rank {rank}"


def format_interval(memory: GpuMemory, metric: Metric) -> str:
    """``27.8-35.8``: GiB between which nine in ten published runs lie."""
    low, high = memory.get_interval(metric)
    return f"{to_gib(low)}\u2013{to_gib(high)}"


def format_verdict(option: StrategyOption, limit: float) -> str:
    """Whether it fits and by how much, or why nobody can say."""
    memory = option.memory
    free = limit - memory.needed
    if option.verdict == "unknown":
        return f"unknown: {option.note or '; '.join(memory.doubts) or 'no reason was given'}"
    if option.verdict == "no":
        part = format_percent(-free / limit) if limit > 0 else "?"
        over = f"{to_gib(-free)} GiB over the limit ({part})" if free < 0 else ""
        why = "; ".join(words for words in (over, option.note) if words)
        return f"does not fit: {why or 'no reason was given'}"
    return f"{option.verdict}: {memory.describe_room(limit)}"


def _name_moment(memory: GpuMemory) -> str:
    """When most is allocated: the forward pass ends with the loss, if this GPU has the logits."""
    logits = any(part.name == "logits" and part.bytes > 0 for part in memory.components)
    return "the loss" if logits and memory.moment == "forward" else _MOMENTS[memory.moment]


def _describe_assumptions(option: StrategyOption, advice: Advice) -> list[str]:
    """What the program decides and the planner assumes, each with the GiB of its alternative."""
    assumed = list_assumptions(option.setup, advice.factor)
    text = "; ".join(format_assumption(each, option, advice) for each in assumed)
    return [f"assumed: {text}"] if text else []


def format_assumption(each: Assumption, option: StrategyOption, advice: Advice) -> str:
    """``loss from fp32 logits (fused: -10.3 GiB, fits, 40,552 tokens/s)``; the verdict where it is
    another, and the speed where it is clearly higher."""
    verdict = each.memory.judge(advice.limit)
    changed = verdict != option.memory.judge(advice.limit)
    then = f", {VERDICTS[verdict]}" if changed else ""
    faster = advice.assumed_rates.get(each.alternative)
    if faster:
        then += f", {format_number(faster.rate)} {advice.unit}/s"
        then += f" with {defuse(faster.title)}" if faster.title else ""
    return f"{each.assumed} ({each.alternative}: {format_change(each.change)} GiB{then})"


def _describe_nearest(option: StrategyOption) -> list[str]:
    """The published run that is most like this one, with what was measured."""
    run = find_nearest(option.setup)
    if run is None:
        return []
    trained = "" if run.trained == "full" else f" {run.trained}"
    recomputed = "" if run.recompute == "none" else f", {run.recompute} checkpointing"
    gpus = f"{count(run.gpus, 'GPU')}, seq {run.seq}, micro-batch {run.micro}{recomputed}"
    measured = f"{run.gib:.1f} GiB {_METRICS[run.metric]}"
    how = f"{run.model}{trained}, {TRAITS[run.strategy].title}, {gpus}"
    return [f"nearest published run: {how}: {measured} ({run.source})"]


def format_change(amount: float) -> str:
    """``+1.9``, ``-13.9``: GiB more or less."""
    return f"{'+' if amount > 0 else '-'}{to_gib(abs(amount))}"


def _shrinking(option: StrategyOption) -> list[str]:
    """Which parts shrink with more GPUs, and how much stays however many there are: another
    strategy may shrink more. Cache is left out, as it shrinks with what is allocated."""
    parts = [part for part in option.memory.components if part.bytes > 0 and part.name != "cache"]
    smaller = [part for part in parts if part.shrinks]
    stays = sum(part.bytes for part in parts if not part.shrinks)
    if not smaller:
        return [f"more GPUs shrink nothing: {to_gib(stays)} GiB is fixed"]
    names = ", ".join(part.title for part in smaller)
    return [f"more GPUs shrink {names}; {to_gib(stays)} GiB is fixed"]


def _beside(memory: GpuMemory, machine: ClusterHardware) -> list[str]:
    """What is needed outside of the GPU, where it is needed."""
    told = []
    if memory.host > 0:
        there = f" of {format_size(machine.node_memory)}" if machine.node_memory else ""
        pinned = f" ({format_size(memory.pinned)} pinned)" if memory.pinned > 0 else ""
        told.append(f"{format_size(memory.host)}{there} host memory per node{pinned}")
    if memory.nvme > 0:
        told.append(f"{format_size(memory.nvme)} NVMe per node")
    if memory.checkpoint > 0:
        told.append(f"checkpoint of {format_size(memory.checkpoint)}")
    return [f"outside GPU memory: {'; '.join(told)}"] if told else []
