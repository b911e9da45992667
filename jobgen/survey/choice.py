"""Which nodes of a site a profile is about: one partition, and the nodes of one kind in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.survey.catalogued import is_sliced
from jobgen.survey.draft import join_names
from jobgen.survey.slurm_site import Gres, Partition, SlurmNode, SlurmSite, parse_limit


class Kind(NamedTuple):
    """Nodes of a partition with equal GPUs."""

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
    kept: bool = False
    """Whether they keep CPUs or memory for the system, which are not counted here."""
    how: str = "scontrol show node"

    @property
    def describe(self) -> str:
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
    also: tuple[str, ...] = ()
    """GPUs of other types, or slices of GPUs, on the same nodes: 14 a100_1g.5gb."""


def choose(site: SlurmSite, wanted: str = "") -> Choice | None:
    """The partition asked for, or the one with the most GPUs; None where there is none such.

    Those whose lists let an account of the user in come first. Of partitions with as many GPUs the
    default one wins, then the one with the longest limit, then the first. In it, the kind with the
    most GPUs, then with the most nodes. Slices of GPUs (MIG) count as none.
    """
    known = list_kinds(site)
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
    whole = {name: sum(map(_whole, mine)) for name, mine in options}
    name, mine = max(
        options,
        key=lambda option: (
            whole[option[0]] > 0 and _mine(site, about.get(option[0])),
            whole[option[0]],
            sum(k.gpus * k.number for k in option[1]),
            option[0] == default,
            _span(about.get(option[0])),
            sum(k.number for k in option[1]),
            -names.index(option[0]),
        ),
    )
    order = sorted(mine, key=lambda k: (-k.gpus * k.number, -k.number, k.gpu_type))
    best, *others = sorted(order, key=lambda k: -_whole(k))
    rest = [n for n in dict.fromkeys(k.partition for k in known) if n != name]
    elsewhere = [max((k for k in known if k.partition == n), key=_size) for n in rest]
    partition = about.get(name) or _seen(site, name)
    return Choice(best, partition, tuple(others), tuple(elsewhere), _also(site, best))


def list_kinds(site: SlurmSite) -> tuple[Kind, ...]:
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


def _of_nodes(partition: str, nodes: Sequence[SlurmNode]) -> Iterable[Kind]:
    alike: dict[tuple[str, int], list[SlurmNode]] = {}
    for node in nodes:
        alike.setdefault(_gpus(node.gres), []).append(node)
    for (gpu_type, gpus), mine in alike.items():
        yield Kind(
            partition=partition,
            gpu_type=gpu_type,
            gpus=gpus,
            nodes=tuple(node.name for node in mine),
            number=len(mine),
            cpus=_least(node.cpus for node in mine),
            memory=_least(node.memory for node in mine),
            out=sum(not node.usable for node in mine),
            alike=len({(node.cpus, node.memory) for node in mine}) == 1,
            kept=any(node.kept for node in mine),
        )


def _of_groups(site: SlurmSite) -> Iterable[Kind]:
    found: dict[tuple[str, str, int], Kind] = {}
    for group in site.groups:
        gpu_type, gpus = _gpus(group.gres)
        key = (group.partition, gpu_type, gpus)
        empty = Kind(*key, nodes=(), number=0, cpus=group.cpus, memory=group.memory, how="sinfo")
        old = found.get(key, empty)
        found[key] = old._replace(
            number=old.number + group.number,
            cpus=_least((group.cpus, old.cpus)),
            memory=_least((group.memory, old.memory)),
            out=old.out + (group.number if group.state in _OUT else 0),
            alike=old.alike and (old.cpus, old.memory) == (group.cpus, group.memory),
        )
    return found.values()


_OUT = frozenset({"down", "drained", "draining", "drain", "fail", "failing", "inval", "unknown"})


def _gpus(found: tuple[Gres, ...]) -> tuple[str, int]:
    """The type and number of a node's GPUs; of several the one with the most whole ones."""
    ours = [g for g in found if g.name == "gpu"]
    best = max(ours, key=lambda g: (g.number and not is_sliced(g.type), g.number), default=None)
    return (best.type, best.number) if best and best.number else ("", 0)


def list_gpu_types(site: SlurmSite, partition: str) -> tuple[str, ...]:
    """The types of GPUs, and of GPU slices, in the partition's nodes."""
    every = [node.gres for node in site.nodes if partition in node.partitions]
    every = every or [group.gres for group in site.groups if group.partition == partition]
    names = {g.type for found in every for g in found if g.name == "gpu" and g.number}
    return tuple(sorted(names - {""}))


def _also(site: SlurmSite, kind: Kind) -> tuple[str, ...]:
    """What other GPUs the nodes of the kind have."""
    names = set(kind.nodes)
    every = [node.gres for node in site.nodes if node.name in names]
    if not names:
        every = [g.gres for g in site.groups if g.partition == kind.partition]
    ours = [g for found in every if _gpus(found) == (kind.gpu_type, kind.gpus) for g in found]
    more = [g for g in ours if g.name == "gpu" and g.number and g.type != kind.gpu_type]
    return tuple(dict.fromkeys(f"{g.number} {g.type or 'GPUs'}" for g in more))


def _whole(kind: Kind) -> int:
    """Whole GPUs in all nodes of the kind."""
    return 0 if is_sliced(kind.gpu_type) else kind.gpus * kind.number


def _least(counts: Iterable[int]) -> int:
    """The least of the counts that are known; 0 where none is."""
    return min(filter(None, counts), default=0)


def _open(about: dict[str, Partition], name: str) -> bool:
    return name not in about or (about[name].state in ("UP", "") and not about[name].root_only)


def _mine(site: SlurmSite, partition: Partition | None) -> bool:
    """Whether its lists let an account of the user in, as far as one knows."""
    if not partition or not site.associations:
        return not site.partitions or not site.associations
    return bool(list_accounts(site, partition))


def list_accounts(site: SlurmSite, partition: Partition) -> tuple[str, ...]:
    """The user's accounts that the partition lets in."""
    names = (
        one.account
        for one in site.associations
        if one.concerns(partition.name) and partition.admits(one.account)
    )
    return tuple(dict.fromkeys(names))


def _default(site: SlurmSite) -> str:
    told = (p.name for p in site.partitions if p.default)
    return next(told, next((g.partition for g in site.groups if g.default), ""))


def _span(partition: Partition | None) -> float:
    """The time limit in seconds, so that the partition for short tests is not taken."""
    limit = parse_limit(partition.max_time) if partition else None
    return float("inf") if limit is None else limit


def _seen(site: SlurmSite, name: str) -> Partition:
    """A partition of which only sinfo told."""
    group = next((g for g in site.groups if g.partition == name), None)
    return Partition(name, max_time=group.max_time if group else "")


def _size(kind: Kind) -> tuple[int, int, int]:
    return _whole(kind), kind.gpus * kind.number, kind.number


def list_notes(choice: Choice, wanted: str) -> tuple[str, ...]:
    """What was chosen and what else there is, in sentences."""
    kind = choice.kind
    said = []
    if not wanted and choice.elsewhere:
        more = any(_whole(k) > _whole(kind) for k in choice.elsewhere)
        most = "it has the most GPUs" if kind.gpus else "none has GPUs"
        most = "it has the most GPUs that are open to you" if more else most
        others = join_names(f"{k.partition} ({k.describe})" for k in choice.elsewhere)
        said.append(
            f"partition {kind.partition} ({kind.describe}) was taken: {most}; "
            f"others: {others}; --partition chooses"
        )
    if choice.others:
        others = join_names(k.describe for k in choice.others)
        said.append(f"partition {kind.partition} also has {others}: not in this profile")
    if choice.also:
        said.append(f"nodes of this kind also have {join_names(choice.also)}: not in this profile")
    if choice.partition.groups:
        groups = join_names(choice.partition.groups)
        said.append(f"partition {kind.partition} is for the Unix groups {groups}; id names yours")
    return tuple(said)
