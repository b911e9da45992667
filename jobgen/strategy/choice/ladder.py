"""The ladder of strategies: what can be tried, the simplest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

from jobgen import strategy
from jobgen.model.train import Offload
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.frameworks.hf_trainer import EXCLUDED
from jobgen.strategy.frameworks.program_options import read_values
from jobgen.strategy.mesh import is_balanced
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.supported import can_shard

if TYPE_CHECKING:
    from jobgen.model.train import Train


class Rung(NamedTuple):
    """One thing to try."""

    level: int
    """How much of the program and of the machine it takes: rungs of a level are alike."""
    name: str
    train: Train


def make_rung(level: int, train: Train) -> Rung:
    """The rung of this ``train``, named by all that its rows may differ in: ``fsdp2+tp2+full``."""
    parts: list[str] = [train.strategy.type]
    parts += [
        f"{axis}{ranks}" for axis in ("tp", "pp", "ep") if (ranks := getattr(train, axis)) > 1
    ]
    if train.offload.what != "none":
        parts.append(f"cpu {train.offload.what}")
    if train.activation_checkpointing != "none":
        parts.append(train.activation_checkpointing)
    return Rung(level, "+".join(parts), train)


_ORDER = ("ddp", "zero1", "zero2", "fsdp-grad-op", "fsdp2", "fsdp", "zero3", "fsdp-hybrid")
"""The simplest first: what is sharded less needs less to be sent. FSDP2 before FSDP, which torch
calls its older one."""
_DEPRECATED = {"hf-trainer": ("fsdp-grad-op", "fsdp", "fsdp-hybrid")}
"""Framework → strategies that it warns to remove, so that they are not proposed (transformers 5.23,
training_args.py, ``_process_fsdp_args``, of FSDP1)."""
LEVELS = ("strategy", "activation_checkpointing", "ep", "tp", "pp", "offload")
"""Level of a rung → the key of ``train`` that it changes, beside those of levels before it."""
_AGAIN = ("selective", "full")
_DIVIDES_EXPERTS = ("megatron", "torchtitan")
"""Frameworks that have expert parallel; programs of the others would have to have it themselves."""
_UNDIVIDED = ("hf-trainer",)
"""Frameworks that have no option for tp, pp and ep."""


def list_rungs(ask: Ask, last: str = LEVELS[-1]) -> Iterator[Rung]:
    """Everything that this program and these ranks can do, level by level to the ``last`` one.

    If the framework refuses all of it, what divides the model no further than the job is listed:
    the framework's own message says what to change.
    """
    refused = []
    able = False
    for rung in _list_possible(ask, LEVELS.index(last)):
        if is_refused(rung.train, ask):
            refused.append(rung)
        else:
            able = True
            yield rung
    if not able:
        yield from (rung for rung in refused if _is_undivided(rung.train, ask.train))


def _is_undivided(train: Train, asked: Train) -> bool:
    """Whether it has no parallel axis that the job did not ask for."""
    return all(getattr(train, axis) == getattr(asked, axis) for axis in ("tp", "pp", "ep"))


def _list_possible(ask: Ask, last: int) -> Iterator[Rung]:
    framework = strategy.choose_framework(ask.train, ask.launcher)
    plain = [name for name in _ORDER if _knows(name, framework, ask)]
    divided = [
        _expert_parallel(ask, framework),
        *(_divided(ask, framework, pipeline=pipeline) for pipeline in (False, True)),
    ]
    if ask.measured is not None or framework in _UNDIVIDED:  # a model is measured whole
        divided = [iter(())] * 3
    if ask.world.ranks == 1:
        plain = plain[:1]
    levels = (_plain(ask, plain), _again(ask, plain), *divided, _offloaded(ask, plain))
    names = set()
    for rung in chain.from_iterable(levels[: last + 1]):
        # what the job sets itself makes rungs of several levels alike
        if rung.name not in names and not _faulty(rung.train, ask):
            names.add(rung.name)
            yield rung


def _knows(name: str, framework: str, ask: Ask) -> bool:
    able = framework in TRAITS[name].frameworks and name not in _DEPRECATED.get(framework, ())
    return able and (ask.other_quantizer or can_shard(name, ask.train, framework))


def _faulty(train: Train, ask: Ask) -> bool:
    found = strategy.list_faults(train, ask.sizes, ask.world, launcher=ask.launcher)
    return next(found, None) is not None


def is_possible(train: Train, ask: Ask) -> bool:
    """Whether neither the planner's checks nor the framework refuse it."""
    return not _faulty(train, ask) and not is_refused(train, ask)


def has_possible_rung(ask: Ask) -> bool:
    """Whether anything can be tried that neither the planner's checks nor the framework refuse."""
    return any(not is_refused(rung.train, ask) for rung in list_rungs(ask))


def _is_excluded(train: Train, words: Sequence[str]) -> bool:
    """Whether an option of ``run`` makes the Trainer reject this strategy."""
    option = EXCLUDED.get(TRAITS[train.strategy.type].family)
    return bool(option and read_values(words).get(option))


def is_refused(train: Train, ask: Ask) -> bool:
    """Whether the framework has no configuration for it, the user's own or an option of ``run``
    contradicts it, or its quantized weights cannot be sharded."""
    framework = strategy.choose_framework(train, ask.launcher)
    if not (ask.other_quantizer or can_shard(train.strategy.type, train, framework)):
        return True
    if framework == "hf-trainer" and _is_excluded(train, ask.run_args):
        return True
    found = strategy.list_framework_faults(
        train, ask.sizes, ask.world, launcher=ask.launcher, config=ask.config
    )
    return bool(found)


def _plain(ask: Ask, names: list[str]) -> Iterator[Rung]:
    for name in names:
        yield make_rung(0, _with(ask, name))


def _with(ask: Ask, name: str) -> Train:
    if ask.train.strategy.type == name:
        return ask.train
    return ask.train.replace(strategy=name)


def _again(ask: Ask, names: list[str]) -> Iterator[Rung]:
    for kind in _kinds(ask):
        for name in names:
            yield make_rung(1, _with(ask, name).replace(activation_checkpointing=kind))


def _kinds(ask: Ask) -> tuple[str, ...]:
    """Kinds of recompute that the job leaves open, of the user's own model those measured."""
    if ask.measured is not None and "activation_checkpointing" not in ask.fixed:
        return ("full",) if any(t.recompute == "full" for t in ask.measured.traces) else ()
    return () if "activation_checkpointing" in ask.fixed else _AGAIN


def _expert_parallel(ask: Ask, framework: str) -> Iterator[Rung]:
    """Experts divided, and nothing else; as few ranks as do, which exchange least."""
    for ep in _list_expert_sizes(ask, framework, ask.world.ranks):
        for kind in (ask.train.activation_checkpointing, *_kinds(ask)):
            for name in ("fsdp2", "zero1"):
                if _knows(name, framework, ask) and "ep" in TRAITS[name].axes:
                    train = _with(ask, name).replace(ep=ep, activation_checkpointing=kind)
                    yield make_rung(2, train)


def _list_expert_sizes(ask: Ask, framework: str, most: int) -> Iterator[int]:
    """Powers of two up to so many ranks that divide the experts and the ranks."""
    experts = ask.sizes.experts or 0
    if framework not in _DIVIDES_EXPERTS or "ep" in ask.fixed:
        return
    ep = 2
    while ep <= min(experts, most):
        if experts % ep == 0 and ask.world.ranks % ep == 0:
            yield ep
        ep *= 2


def _divided(ask: Ask, framework: str, *, pipeline: bool) -> Iterator[Rung]:
    """Tensor parallel inside of a node, and experts divided; with pipelines too."""
    kinds = [k for k in (ask.train.activation_checkpointing, *_kinds(ask)) if k != "selective"]
    for name in ("fsdp2", "zero1", "3d"):
        if not _knows(name, framework, ask) or "tp" not in TRAITS[name].axes:
            continue
        if name == "zero1" and framework != "megatron":
            continue
        for pp, tp, ep in _list_degrees(ask, framework, pipeline=pipeline):
            base = _with(ask, name).replace(tp=tp, pp=pp, ep=ep)
            for kind in kinds:
                train = base.replace(activation_checkpointing=kind)
                yield make_rung(4 if pipeline else 3, train)


def _list_degrees(ask: Ask, framework: str, *, pipeline: bool) -> Iterator[tuple[int, int, int]]:
    """Sizes of pp, tp and ep: experts whole, on the most ranks inside of a node, and of all."""
    stages = _stages(ask) if pipeline else [ask.train.pp]
    reaches = (ask.world.ranks_per_node, ask.world.ranks)
    larger = (list(_list_expert_sizes(ask, framework, most))[-1:] for most in reaches)
    experts = dict.fromkeys(chain([ask.train.ep], *larger))
    yield from product(stages, list(_degrees(ask, least=1 if pipeline else 2)), experts)


def _degrees(ask: Ask, least: int) -> Iterator[int]:
    """Powers of two that divide a node and the heads."""
    if "tp" in ask.fixed:
        yield ask.train.tp
        return
    sizes, degree = ask.model.sizes, least
    while degree <= ask.world.ranks_per_node:
        if ask.world.ranks_per_node % degree == 0 and sizes.heads % degree == 0:
            yield degree
        degree *= 2


def _stages(ask: Ask) -> list[int]:
    """Numbers of stages that divide the layers evenly."""
    if "pp" in ask.fixed:
        return [ask.train.pp] if ask.train.pp > 1 else []
    count = ask.model.sizes.layers
    most = min(count, ask.world.ranks)
    return [
        pp
        for pp in range(2, most + 1)
        if ask.world.ranks % pp == 0 and (count % pp == 0 or is_balanced(count, pp))
    ]


def _offloaded(ask: Ask, names: list[str]) -> Iterator[Rung]:
    if "offload" in ask.fixed:
        return
    for what in ("optimizer", "both"):
        for name in names:
            train = _with(ask, name).replace(offload=Offload(what=what))
            yield make_rung(5, train)
            for kind in _kinds(ask)[-1:]:
                yield make_rung(5, train.replace(activation_checkpointing=kind))


def change_nodes(ask: Ask, nodes: int) -> Ask:
    """The question for another number of nodes."""
    return ask._replace(world=ask.world._replace(nodes=nodes))


def list_wider(ask: Ask) -> Iterator[Ask]:
    """The question for more GPUs of each node: twice as many, and so on, at last all."""
    most = ask.world.ranks_per_node + ask.spare_gpus
    gpus = ask.world.ranks_per_node
    while gpus < most:
        gpus = min(2 * gpus, most)
        yield ask._replace(world=ask.world._replace(ranks_per_node=gpus), spare_gpus=most - gpus)
