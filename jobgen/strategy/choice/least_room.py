"""The least that a job needs to fit: fewer samples at once, more GPUs of its nodes, more nodes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, takewhile

from jobgen import strategy
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.batch import assume_batch
from jobgen.strategy.choice.advise import choose_first, has_fit
from jobgen.strategy.choice.ladder import change_nodes, list_wider
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.spec import Batch

MOST = 4096
"""Nodes, where the search for the fewest that work ends."""


class Room(NamedTuple):
    """Where something fits."""

    ask: Ask
    """On as many nodes as the job has, if that is enough."""
    nodes: int
    """The fewest nodes."""
    title: str


def choose_room(ask: Ask) -> Room | None:
    """The least that the job would need; with a smaller micro-batch if nothing else fits on its
    own GPUs."""
    lean = lessen_batch(ask)
    if lean is None or has_fit(ask) or not has_fit(lean):
        return _find_room(ask)
    room = _find_room(lean)
    return room and room._replace(title=f"{room.title}, micro_batch 1")


def _find_room(ask: Ask) -> Room | None:
    """The least that the job would need: its own GPUs, more GPUs of its nodes, more such nodes."""
    layouts = [ask, *list_wider(ask)]
    wider = next((one for one in layouts if has_fit(one)), layouts[-1])
    fewest = find_fewest_nodes(wider)
    if fewest is None:
        return None
    nodes, title = fewest
    there = wider if nodes <= ask.world.nodes else change_nodes(wider, nodes)
    gpus = wider.world.ranks_per_node
    each = [] if wider is ask else [f"{gpus} GPUs each"]
    return Room(there, nodes, ", ".join([*each, title]))


def lessen_batch(ask: Ask) -> Ask | None:
    """The question with one sample in each forward pass, and as many in a step; None where there is
    only one, a file of the user's says how many, or a model was measured with another number."""
    if ask.config_batch is not None or ask.measured is not None:
        return None
    decided = strategy.decide(ask.train, ask.sizes, ask.world, launcher=ask.launcher)
    batch = decided.batch or assume_batch(decided.framework, decided.mesh.data)
    return divide_batch(ask, batch, 1) if batch.micro > 1 else None


def list_batches(ask: Ask, batch: Batch) -> Iterator[Ask]:
    """The question with twice or half as many samples in each forward pass, and so on, and as many
    in a step; the fewest at once first. Nothing where a file of the user's says how many."""
    samples = batch.micro * batch.accumulation
    smaller = takewhile(bool, (batch.micro >> halvings for halvings in count(1)))
    larger = takewhile(samples.__ge__, (batch.micro << doublings for doublings in count(1)))
    micros = sorted({*smaller, *larger}) if ask.config_batch is None else []
    yield from (divide_batch(ask, batch, micro) for micro in micros if samples % micro == 0)


def divide_batch(ask: Ask, batch: Batch, micro: int) -> Ask:
    """The question with so many samples in each forward pass, and as many in a step."""
    train = ask.train.replace(micro_batch=micro)
    if train.global_batch is None or train.gradient_accumulation is not None:
        steps = batch.accumulation * batch.micro // micro
        train = train.replace(gradient_accumulation=steps)
    return ask._replace(train=train)


def find_fewest_nodes(ask: Ask, most: int = MOST) -> tuple[int, str] | None:
    """The fewest nodes on which anything fits, and the title of the simplest that does; None where
    not even the most do. Of more than 64 nodes it is the fewest of 32 between one power of two and
    the next."""
    high = 1
    while high <= most and not has_fit(change_nodes(ask, high)):
        high *= 2
    step = max(high // 64, 1)
    for nodes in range(high // 2 + step, min(high, most) + 1, step):
        found = choose_first(change_nodes(ask, nodes))
        if found is not None:
            return nodes, found[1].title
    return None
