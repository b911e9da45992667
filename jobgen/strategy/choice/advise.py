"""All options of a job on a cluster, the simplest that fits, and what to change where none does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jobgen import strategy
from jobgen.strategy.batch import assume_batch
from jobgen.strategy.choice.ladder import LEVELS, Rung, list_rungs, make_rung
from jobgen.strategy.choice.offer import Advice, StrategyOption
from jobgen.strategy.choice.setups import Ask, assume_length, build_setup
from jobgen.strategy.estimate import GIB, Component, GpuMemory, Verdict
from jobgen.strategy.measured_model import split_units
from jobgen.strategy.memory import estimate
from jobgen.strategy.spec import TRAITS, Mesh
from jobgen.wording import count, join_words

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy.estimate import StepTime
    from jobgen.strategy.measured_model import MeasuredModel
    from jobgen.strategy.setup import Setup

_SHOWN = 2
"""Options of a level that are shown beside the chosen one, where the level has many."""
_RECOMPUTES = LEVELS.index("activation_checkpointing")


def estimate_option(rung: Rung, ask: Ask, *, speed: bool = True) -> StrategyOption:
    """What is expected of one rung; its speed only where it fits, and is wanted."""
    decided = strategy.decide(rung.train, ask.sizes, ask.world, launcher=ask.launcher)
    asked = build_setup(decided, ask, rung.train)
    memory = estimate(asked).scale(ask.factor)
    verdict = judge_memory(memory, ask)
    return StrategyOption(
        name=rung.name,
        title=_title(rung.train, decided.mesh),
        setup=asked,
        memory=memory,
        step=estimate_step(asked, ask) if speed and verdict != "no" else None,
        verdict=verdict,
        note=_note(memory, verdict, ask),
        optimizer=rung.train.optimizer,
    )


def judge_memory(memory: GpuMemory, ask: Ask) -> Verdict:
    """Whether the GPU and the memory of its node have room."""
    return "no" if is_over_host(memory, ask) else memory.judge(ask.machine.memory)


def is_over_host(memory: GpuMemory, ask: Ask) -> bool:
    """Whether what is offloaded exceeds the memory of a node; False where that is unknown."""
    return memory.host > (ask.machine.node_memory or float("inf"))


def estimate_step(asked: Setup, ask: Ask) -> StepTime | None:
    """The time of a step; None where only the memory is known."""
    from jobgen.strategy.speed.measured_compute import find_timed_trace
    from jobgen.strategy.speed.step_time import compute_step

    if asked.measured is not None and find_timed_trace(asked) is None:
        return None

    return compute_step(asked, ask.machine).scale(ask.slower)


_TRANSFORMERS = ("accelerate", "hf-trainer")
"""Frameworks whose programs train transformers' models."""
_GROUPED = (
    "assuming all experts of a layer in one grouped product, as in transformers 5; one expert "
    "after another, as before, takes several times as long"
)
"""transformers 5, modeling_utils.py, ``get_correct_experts_implementation``; 91.2 s a step of
DeepSpeed where Megatron-LM takes 9.6 s: ms-swift, docs/source_en/Megatron-SWIFT/Quick-start.md."""
_PLACES = {"cpu": "CPU", "nvme": "NVMe"}


def _title(train: Train, mesh: Mesh) -> str:
    parts = [TRAITS[train.strategy.type].title]
    parts += [f"{axis} {n}" for axis, n in mesh.list_degrees()]
    if train.activation_checkpointing != "none":
        parts.append(f"{train.activation_checkpointing} activation checkpointing")
    if train.offload.what != "none":
        what = {"both": "parameters and optimizer"}.get(train.offload.what, train.offload.what)
        parts.append(f"{what} offloaded to {_PLACES.get(train.offload.to, train.offload.to)}")
    return ", ".join(parts)


def _note(memory: GpuMemory, verdict: Verdict, ask: Ask) -> str:
    """Why it does not fit, or how much room it leaves."""
    if is_over_host(memory, ask):
        need, there = memory.host / GIB, (ask.machine.node_memory or 0) / GIB
        return f"needs {need:.0f} of {there:.0f} GiB of host memory per node"
    if verdict == "no":
        largest = memory.list_largest()[0]
        return f"largest part: {largest.title}, {_gib(largest)}"
    return f"leaves {memory.describe_room(ask.machine.memory)}"


def _gib(part: Component) -> str:
    size = part.bytes / GIB
    return f"{size:.1f} GiB" if size < 100 else f"{size:.0f} GiB"


def choose_first(ask: Ask) -> tuple[Rung, StrategyOption] | None:
    """The simplest that fits; where nothing fits with room to spare, the simplest that is tight."""
    tight = None
    for rung in list_rungs(ask):
        found = estimate_option(rung, ask, speed=False)
        if found.verdict == "fits":
            return rung, found
        if found.verdict == "tight" and tight is None:
            tight = rung, found
    return tight


def find_least(ask: Ask) -> tuple[Rung, StrategyOption] | None:
    """What needs least memory; None where nothing goes with these ranks at all."""
    pairs = ((rung, estimate_option(rung, ask, speed=False)) for rung in list_rungs(ask))
    return min(pairs, key=lambda pair: pair[1].memory.needed, default=None)


def choose_option(ask: Ask, *, auto: bool) -> StrategyOption | None:
    """What ``advise`` shows first, without the options beside it; None where there is none."""
    if not auto:
        return _estimate_own(ask)
    best = choose_first(ask) or find_least(ask)
    return estimate_option(best[0], ask) if best else None


def _estimate_own(ask: Ask) -> StrategyOption:
    """What the job says."""
    return estimate_option(make_rung(0, ask.train), ask)


def has_fit(ask: Ask) -> bool:
    """Whether anything fits."""
    return choose_first(ask) is not None


def advise(ask: Ask, *, auto: bool) -> Advice:
    """Everything for one screen. With ``auto`` the simplest that fits is chosen, else what the job
    says is."""
    own = None if auto else _estimate_own(ask)
    pairs = list(_tried(ask))
    chosen = own
    if auto:
        ranked = {"fits": 0, "tight": 1}
        able = [found for _, found in pairs if found.verdict in ranked]
        chosen = min(able, key=lambda found: ranked[found.verdict], default=None)
    shown = list(_shown(pairs, chosen, "" if auto else ask.train.strategy.type))
    names = {option.name for option in shown}
    return Advice(
        machine=ask.machine,
        limit=ask.machine.memory,
        options=tuple(shown),
        chosen=chosen and chosen._replace(chosen=True),
        doubts=_doubts(ask),
        why=tuple(_why(pairs, chosen, ask)) if auto else (),
        factor=ask.factor,
        assumed_network=describe_assumed_network(ask),
        others=tuple(option for _, option in pairs if option.name not in names),
        untried=_list_untried(ask, pairs),
    )


def _tried(ask: Ask) -> Iterator[tuple[Rung, StrategyOption]]:
    """Level by level, until one has something that fits: simpler is better."""
    level, able = 0, False
    for rung in list_rungs(ask):
        if rung.level != level:
            if able:
                return
            level = rung.level
        found = estimate_option(rung, ask)
        able = able or found.verdict == "fits"
        yield rung, found


def _list_untried(ask: Ask, pairs: Iterable[tuple[Rung, StrategyOption]]) -> tuple[str, ...]:
    """Keys of ``train`` that could be changed, and were not because simpler changes are enough."""
    last = max((rung.level for rung, _ in pairs), default=0)
    levels = {rung.level for rung in list_rungs(ask)}
    return tuple(key for level, key in enumerate(LEVELS) if level > last and level in levels)


def _shown(
    pairs: Iterable[tuple[Rung, StrategyOption]], chosen: StrategyOption | None, own: str
) -> Iterator[StrategyOption]:
    """All of the first level; of others those that need least, the simplest that fits, those of the
    job's ``own`` strategy where checkpointing is varied, and the chosen one."""
    levels: dict[int, list[StrategyOption]] = {}
    for rung, tried in pairs:
        levels.setdefault(rung.level, []).append(tried)
    seen = set()
    for level, many in levels.items():
        kept = sorted(many, key=lambda one: one.memory.needed)[:_SHOWN]
        kept += [one for one in many if one.verdict == "fits"][:1]
        kept += [one for one in many if level == _RECOMPUTES and one.setup.strategy == own]
        for one in many:
            mine = chosen is not None and one.name == chosen.name
            if level == 0 or mine or one in kept:
                seen.add(one.name)
                yield one._replace(chosen=mine)
    if chosen is not None and chosen.name not in seen:
        yield chosen._replace(chosen=True)


def _why(
    pairs: Iterable[tuple[Rung, StrategyOption]], chosen: StrategyOption | None, ask: Ask
) -> Iterator[str]:
    """A sentence for each rung on the way up."""
    for _, found in pairs:
        need = f"{found.memory.needed / GIB:.1f} GiB"
        if chosen is not None and found.name == chosen.name:
            yield f"{found.title}: {need}, {found.note}; simplest strategy that fits"
            return
        if is_over_host(found.memory, ask):
            yield f"{found.title}: {need} per GPU, but {found.note}"
            continue
        verdict = "does not fit" if found.verdict == "no" else "is tight"
        yield f"{found.title}: {need} {verdict}; {found.note}"


def describe_assumed_network(ask: Ask) -> str:
    """``200 Gb/s per GPU (the profile sets no network.nic_gbps)``; empty on one node, and where the
    network is known."""
    measured = ask.machine.measured
    if not ask.unset_network or ask.world.nodes == 1 or (measured and measured.network):
        return ""
    unset = join_words([f"network.{key}" for key in ask.unset_network], "or")
    rate = ask.machine.network * 8 / 1e9
    return f"{rate:.4g} Gb/s per GPU between nodes (the profile sets no {unset})"


def _doubts(ask: Ask) -> tuple[str, ...]:
    """What was assumed because the job does not say it."""
    train = ask.train
    found = []
    if ask.measured is not None:
        return tuple(_list_measured_doubts(ask.measured, ask))
    if train.seq_len is None:
        found.append(f"seq_len is not set; assuming {assume_length(ask)}")
    if train.micro_batch is None and train.global_batch is None:
        known = ask.config_batch
        micro = assume_batch(strategy.choose_framework(train, ask.launcher), 1, known).micro
        value = f"{known.place} sets {micro}" if known else f"assuming {micro}"
        found.append(f"micro_batch is not set; {value}")
    if "optimizer" not in ask.written:
        found.append(f"optimizer is not set; assuming {train.optimizer}")
    found.append("assuming FlashAttention or SDPA (no score matrix in memory)")
    framework = strategy.choose_framework(train, ask.launcher)
    if ask.model.sizes.experts and framework in _TRANSFORMERS:
        found.append(_GROUPED)
    return tuple(found)


def _list_measured_doubts(measured: MeasuredModel, ask: Ask) -> Iterator[str]:
    """What was measured, and what was not."""
    samples = count(measured.micro, "sample")
    yield f"{measured.name} measured with {samples}, by CPU kernels of torch {measured.torch}"
    if measured.unmeasured:
        yield f"not measured in 16 bits, autocast's activations assumed: {measured.unmeasured}"
    if ask.train.micro_batch not in (None, measured.micro):
        yield f"activations scaled from {samples} to micro_batch {ask.train.micro_batch}"
    if ask.train.pp > 1:
        stages = [str(len(units)) for units in split_units(len(measured.units), ask.train.pp)]
        yield f"stages of {', '.join(stages)} layers, with torch's 1F1B schedule"
    trace = measured.traces[0] if measured.traces else None
    if trace and trace.uncounted:
        yield f"no step time: the FLOPs of {', '.join(trace.uncounted)} are not known"
    elif trace and not trace.costs:
        yield f"no step time: measure {measured.name} again"
    if "optimizer" not in ask.written:
        yield f"optimizer is not set; assuming {ask.train.optimizer}"
