"""Other values for keys that are refused: only those that all checks accept, in words of a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import TYPE_CHECKING, Any

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.batch import find_multiple
from jobgen.strategy.mesh import AXES_OF_MODEL, NAMES, build_mesh
from jobgen.strategy.spec import ModelSizes, RankLayout, TrainDiagnostic
from jobgen.wording import join_words

if TYPE_CHECKING:
    from jobgen.model.train import Train

Change = Mapping[str, Any]
"""Key of ``train`` or of its ``strategy`` → its other value; None: the key is removed."""
Paths = frozenset[tuple[str, ...]]

_MOST = 4096
"""Where the search for a degree ends."""
_TRIED = 6
"""Values tried of each key where several change together."""
_SHOWN = 2


class RejectedJob(NamedTuple):
    """A job that is refused, and what its checks depend on."""

    train: Train
    faults: tuple[TrainDiagnostic, ...]
    """Those that need another value of their key."""
    sizes: ModelSizes
    world: RankLayout | None
    list_paths: Callable[[Train], Paths]
    """The keys at which a changed job is refused."""


def propose_values(job: RejectedJob) -> Iterator[TrainDiagnostic]:
    """The faults with their hints. Several degrees at fault get one hint, that mends all."""
    searched = [fault for fault in job.faults if fault.path[0] != "offload"]
    yield from (_hint_offload(job, fault) for fault in job.faults if fault not in searched)
    if not searched:
        return
    keys = [fault.path[-1] for fault in searched]
    rest = job.list_paths(job.train) - {fault.path for fault in job.faults}
    degrees = [axis for axis in (*AXES_OF_MODEL, "ep") if getattr(job.train, axis) > 1]
    more = [axis for axis in degrees if axis not in keys] if set(keys) <= {*NAMES} else []
    common = _describe(_search(job, [*keys, *more], max(2, len(keys)), rest))
    for fault in searched:
        hints = [hint for hint in (_propose_instead(job, fault, rest), common) if hint]
        hint = ", or ".join([*hints[:1], *(_follow(hints[0], each) for each in hints[1:])])
        yield fault._replace(hint=hint or _give_up(job, [*keys, *more]))


_OFFLOADING = ("zero2", "zero3", "fsdp2", "fsdp")
"""Strategies that offload, those that leave most of a job as it is first."""
_ALONE = ("optimizer", "both")


def _hint_offload(job: RejectedJob, fault: TrainDiagnostic) -> TrainDiagnostic:
    """The fault with the two smallest changes that are accepted."""
    rest = job.list_paths(job.train) - {fault.path}
    kinds = [
        _describe([change])
        for changes in _list_offloads(job.train)
        for change in islice((c for c in changes if _settle(job, c, rest, settle=False)), 1)
    ]
    together = [{"strategy": n, "offload": what} for n in _OFFLOADING for what in _ALONE]
    both = [] if kinds else [c for c in together if _settle(job, c, rest, settle=False)]
    hints = [*kinds, *(_describe([change]) for change in both[:1])]
    if _settle(job, {"offload": None}, rest, settle=False):
        hints.append(_describe([{"offload": None}]))
    first, *more = hints[:2] or ["change the strategy and the offload together"]
    hint = ", or ".join([first, *(_follow(first, each) for each in more)])
    return fault._replace(hint=hint)


def _list_offloads(train: Train) -> Iterator[list[Change]]:
    """Changes of the offload alone and of the strategy alone, each kind by preference."""
    asked = train.offload
    if asked.to == "nvme" and asked.path is None:
        yield [{"path": "/local/scratch"}]
    if asked.to == "cpu" and asked.path is not None:
        yield [{"path": None}]
    if asked.to == "nvme":
        yield [{"to": "cpu", "path": None} if asked.path else {"to": "cpu"}]
    yield [{"offload": what} for what in reversed(_ALONE) if what != asked.what]
    yield [{"strategy": name} for name in _OFFLOADING]


def _propose_instead(job: RejectedJob, fault: TrainDiagnostic, rest: Paths) -> str:
    """Another key that can be changed: the length that cp does not divide."""
    if (fault.code, fault.path) != ("J233", ("cp",)):
        return ""
    return _describe(_search(job, ["seq_len"], 1, rest))


def _search(job: RejectedJob, keys: list[str], most: int, rest: Paths) -> list[Change]:
    """The nearest changes that are accepted: of few keys before many, and those that need no other
    dp or global_batch before those that do."""
    for count in range(1, min(most, len(keys)) + 1):
        for settle in (False, True):
            for changed in combinations(keys, count):
                tried = (_settle(job, c, rest, settle) for c in _combine(job, changed))
                accepted = list(islice((c for c in tried if c), _SHOWN))
                if accepted:
                    return accepted
    return []


def _combine(job: RejectedJob, keys: Sequence[str]) -> Iterator[Change]:
    """Values of these keys together, the nearest first."""
    values = [_list_values(key, job) for key in keys]
    if len(keys) == 1:
        yield from ({keys[0]: value} for value in values[0])
        return
    places = product(*(range(min(_TRIED, len(each))) for each in values))
    for place in sorted(places, key=sum):
        yield {key: each[n] for key, each, n in zip(keys, values, place, strict=True)}


def _settle(job: RejectedJob, change: Change, rest: Paths, settle: bool) -> Change | None:
    """The change, with the dp and the global_batch that follow from it if ``settle``; None if it
    is refused all the same."""
    for _ in range(3):
        changed = _apply(job.train, change)
        left = job.list_paths(changed) - rest
        if not left:
            return change
        follow = next((key for key in ("dp", "global_batch") if (key,) in left), None)
        if follow is None or follow in change or job.world is None or not settle:
            return None
        ranks = build_mesh(changed, job.world).data
        change = {**change, follow: ranks if follow == "dp" else find_multiple(changed, ranks)}
    return None


def _apply(train: Train, change: Change) -> Train:
    own = {key: value for key, value in change.items() if key in train.keys}
    own = {key: train.keys[key].default if value is None else value for key, value in own.items()}
    train = train.replace(**own)
    for owner in ("strategy", "offload"):
        form = getattr(train, owner)
        inner = {key: value for key, value in change.items() if key in form.keys and key not in own}
        train = train.replace(**{owner: form.replace(**inner)}) if inner else train
    return train


def _list_values(key: str, job: RejectedJob) -> list[Any]:
    """Other values of a key, the nearest first; last what removes it, if it can be removed."""
    train, sizes, world = job.train, job.sizes, job.world
    if key in NAMES:
        return [*_list_degrees(key, train, sizes, world), None]
    if key == "seq_len":
        return _list_lengths(train, sizes)
    if key == "etp":
        return [*_sort_near(_divisors(train.tp), train.etp or 1), None]
    data = build_mesh(train, world).data if world else 1
    if key == "dp":
        return [data, None]
    if key == "shard":
        return [*_sort_near(_divisors(data)[1:], train.strategy.shard or 1), None]
    within = train.strategy.shard or data
    near = _sort_near(_divisors(within)[1:-1], int(train.strategy.reshard_after_forward))
    return [*near, True]


def _list_degrees(
    axis: str, train: Train, sizes: ModelSizes, world: RankLayout | None
) -> list[int]:
    """Without a world, powers of two: nodes have two, four or eight GPUs. Numbers that divide the
    model's layers come after them."""
    asked = getattr(train, axis)
    most = min(_MOST, world.ranks) if world else _MOST
    near = [d for d in _sort_near(range(2, most + 1), asked) if not world or world.ranks % d == 0]
    if world is None:
        powers = [d for d in near if d & (d - 1) == 0]
        stages = _divisors(sizes.layers or 1)[1:] if axis == "pp" else []
        near = [*powers, *_sort_near(stages, asked)]
    return [degree for degree in near if degree != asked]


def _list_lengths(train: Train, sizes: ModelSizes) -> list[int]:
    """Multiples of what ranks divide a sequence by, above and below; no more than the model's
    learned positions."""
    asked = min(train.seq_len or 0, sizes.positions or train.seq_len or 0)
    steps = {2 * train.cp if train.cp > 1 else 1, 2 * train.cp * train.tp}
    near = {edge for step in steps for edge in (-(-asked // step) * step, asked // step * step)}
    return sorted((n for n in near if n > 0), key=lambda n: (abs(n - asked), -n))


def _sort_near(values: Iterable[int], asked: int) -> list[int]:
    return sorted((v for v in values if v != asked), key=lambda v: (abs(v - asked), v))


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, min(number, _MOST) + 1) if number % d == 0]


def _describe(changes: list[Change]) -> str:
    """``set tp: 2 or 4``, ``set tp: 2 and pp: 4``, ``remove tp``; empty without a change."""
    if not changes:
        return ""
    first = changes[0]
    alike = [c for c in changes if len(c) == len(first) == 1 and first.keys() == c.keys()]
    values = [value for change in alike for value in change.values()]
    if len(values) > 1:
        key, kept = next(iter(first)), [_write(value) for value in values if value is not None]
        return f"set {key}: {' or '.join(kept)}" + f", or remove {key}" * (key == "dp")
    sets = [f"{key}: {_write(value)}" for key, value in first.items() if value is not None]
    removed = [key for key, value in first.items() if value is None]
    parts = [("set ", sets), ("remove ", removed)]
    return " and ".join(verb + join_words(each, "and") for verb, each in parts if each)


def _follow(first: str, hint: str) -> str:
    """A hint behind another one: ``set`` stands once."""
    return hint.removeprefix("set ") if first.startswith("set ") else hint


def _write(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _give_up(job: RejectedJob, keys: list[str]) -> str:
    ranks = f" on {job.world.ranks} ranks" if job.world else ""
    return f"no other {join_words(keys, 'or')}{ranks} passes all checks: change the other keys too"
