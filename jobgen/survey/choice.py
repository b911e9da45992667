"""Which nodes of a site a profile is about: one partition, and the nodes of one kind in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobgen.survey.slurm import Gres, Node, Partition, Site, seconds
from jobgen.survey.values import named


class Kind(NamedTuple):
    """Nodes of a partition that have the same GPUs."""

    partition: str
    gpu_type: str
    """The type in Slurm's GRES; empty where it has none."""
    gpus: int
    """GPUs of each node."""
    nodes: tuple[str, ...]
    """Their names, as far as they are known."""
    number: int
    cpus: int
    """Of the smallest of them, as Slurm counts them; 0 where unknown."""
    memory: int
    """MiB of the smallest of them; 0 where unknown."""
    out: int = 0
    """How many of them cannot be used now."""
    alike: bool = True
    """Whether all have as many CPUs and as much memory."""
    how: str = "scontrol show node"

    @property
    def words(self) -> str:
        """The kind in words: 4 nodes of 8 a100."""
        each = f"{self.gpus} {self.gpu_type or 'GPUs'}" if self.gpus else "no GPU"
        return f"{self.number} node{'' if self.number == 1 else 's'} of {each}"


class Choice(NamedTuple):
    """The kind of node that the profile is about, its partition, and what else there is."""

    kind: Kind
    partition: Partition
    others: tuple[Kind, ...] = ()
    """Other kinds of the same partition."""
    elsewhere: tuple[Kind, ...] = ()
    """The largest kind of each other partition."""


def choose(site: Site, wanted: str = "") -> Choice | None:
    """The partition asked for, or the one with the most GPUs; None where there is none such.

    Of partitions with as many GPUs the default one wins, then the one with the longest limit, then
    the first. In it, the kind with the most GPUs, then with the most nodes.
    """
    known = kinds(site)
    about = {one.name: one for one in site.partitions}
    names = [wanted] if wanted else list(dict.fromkeys(kind.partition for kind in known))
    options = [
        (name, mine)
        for name in names
        if (mine := [k for k in known if k.partition == name]) and (wanted or _open(about, name))
    ]
    if not options:
        return None
    default = _default(site)
    name, mine = max(
        options,
        key=lambda option: (
            sum(k.gpus * k.number for k in option[1]),
            option[0] == default,
            _span(about.get(option[0])),
            sum(k.number for k in option[1]),
            -names.index(option[0]),
        ),
    )
    best, *others = sorted(mine, key=lambda k: (-k.gpus * k.number, -k.number, k.gpu_type))
    rest = [n for n in dict.fromkeys(k.partition for k in known) if n != name]
    elsewhere = [max((k for k in known if k.partition == n), key=_size) for n in rest]
    return Choice(best, about.get(name) or _seen(site, name), tuple(others), tuple(elsewhere))


def kinds(site: Site) -> tuple[Kind, ...]:
    """Every kind of node of every partition: of scontrol, else of sinfo."""
    if any(node.partitions for node in site.nodes):
        names = [p.name for p in site.partitions]
        names += [p for node in site.nodes for p in node.partitions]
        return tuple(
            kind
            for name in dict.fromkeys(names)
            for kind in _of_nodes(name, [n for n in site.nodes if name in n.partitions])
        )
    return tuple(_of_groups(site))


def _of_nodes(partition: str, nodes: Sequence[Node]) -> Iterable[Kind]:
    alike: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        alike.setdefault(_gpus(node.gres), []).append(node)
    for (gpu_type, gpus), mine in alike.items():
        yield Kind(
            partition=partition,
            gpu_type=gpu_type,
            gpus=gpus,
            nodes=tuple(node.name for node in mine),
            number=len(mine),
            cpus=min(node.cpus for node in mine),
            memory=min(node.memory for node in mine),
            out=sum(not node.usable for node in mine),
            alike=len({(node.cpus, node.memory) for node in mine}) == 1,
        )


def _of_groups(site: Site) -> Iterable[Kind]:
    found: dict[tuple[str, str, int], Kind] = {}
    for group in site.groups:
        gpu_type, gpus = _gpus(group.gres)
        key = (group.partition, gpu_type, gpus)
        old = found.get(key)
        found[key] = Kind(
            partition=group.partition,
            gpu_type=gpu_type,
            gpus=gpus,
            nodes=(),
            number=group.number + (old.number if old else 0),
            cpus=min(group.cpus, old.cpus) if old else group.cpus,
            memory=min(group.memory, old.memory) if old else group.memory,
            out=(old.out if old else 0) + (group.number if group.state in _OUT else 0),
            alike=not old or (old.alike and (old.cpus, old.memory) == (group.cpus, group.memory)),
            how="sinfo",
        )
    return found.values()


_OUT = frozenset({"down", "drained", "draining", "drain", "fail", "failing", "inval", "unknown"})


def _gpus(found: tuple[Gres, ...]) -> tuple[str, int]:
    """The type and number of a node's GPUs; of several types the one with the most."""
    best = max((g for g in found if g.name == "gpu"), key=lambda g: g.number, default=None)
    return (best.type, best.number) if best and best.number else ("", 0)


def _open(about: dict[str, Partition], name: str) -> bool:
    return name not in about or about[name].state in ("UP", "")


def _default(site: Site) -> str:
    told = (p.name for p in site.partitions if p.default)
    return next(told, next((g.partition for g in site.groups if g.default), ""))


def _span(partition: Partition | None) -> float:
    """The time limit in seconds, so that the partition for short tests is not taken."""
    limit = seconds(partition.max_time) if partition else None
    return float("inf") if limit is None else limit


def _seen(site: Site, name: str) -> Partition:
    """A partition of which only sinfo told."""
    group = next((g for g in site.groups if g.partition == name), None)
    return Partition(name, max_time=group.max_time if group else "")


def _size(kind: Kind) -> tuple[int, int]:
    return kind.gpus * kind.number, kind.number


def notes(choice: Choice, wanted: str) -> tuple[str, ...]:
    """What was chosen and what else there is, in sentences."""
    kind = choice.kind
    said = []
    if not wanted and choice.elsewhere:
        most = "it has the most GPUs" if kind.gpus else "none has GPUs"
        others = named(f"{k.partition} ({k.words})" for k in choice.elsewhere)
        said.append(
            f"partition {kind.partition} ({kind.words}) was taken: {most}; "
            f"others: {others}; --partition chooses"
        )
    if choice.others:
        others = named(k.words for k in choice.others)
        said.append(f"partition {kind.partition} also has {others}: not in this profile")
    return tuple(said)
