"""A site's answers → the lines of a profile that its login host can tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.survey.catalogued import find_candidates
from jobgen.survey.choice import Choice, Kind, list_accounts, list_gpu_types
from jobgen.survey.draft import Draft, Gap, LoginHost, ProfileLine, WritableFolder, join_names
from jobgen.survey.slurm_site import SlurmSite, format_limit, parse_limit

SHARED = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "afs", "panfs", "wekafs", "fuseblk", "fuse"}
    | {"pvfs2", "orangefs", "cifs", "smb2", "quobyte"}
)
"""File systems, as stat names them, that other machines can see too."""
_ABOUT_JOBS = ("cuda", "nccl", "rccl", "rocm", "python", "pytorch", "conda", "aws-ofi", "libfabric")
_LONGEST = 366 * 86_400
"""A limit of more than that is none for a profile."""


class UserFacts(NamedTuple):
    """What a person said instead of asking for it to be found."""

    account: str = ""
    qos: str = ""
    root: str = ""


def list_entries(
    site: SlurmSite, login: LoginHost, choice: Choice, asked: UserFacts
) -> Iterator[ProfileLine | Gap]:
    """The lines of a profile, in its order; what only a node can tell is a Gap."""
    yield from _root(login, asked.root)
    yield from _nodes(choice.kind)
    yield from _request(site, choice)
    partition = choice.partition.name
    yield ProfileLine(("defaults", "slurm", "partition"), partition, _why_partition(choice))
    yield from _account(site, choice, asked.account)
    yield from _qos(site, choice, asked)
    yield from _modules(login)
    yield from _limits(site, choice, asked)
    yield from _accounting(site)
    if site.version:
        release = ".".join(site.version.split(".")[:2])
        how = "scontrol show config: SLURM_VERSION" if site.settings else "sinfo --version"
        yield ProfileLine(("slurm_version",), release, f"{how} {site.version}")
    else:
        yield Gap(("slurm_version",), _silence(site, "sinfo --version"))


def choose_folder(login: LoginHost) -> WritableFolder | None:
    """Where run directories go best: scratch, then work, then the home."""
    order = ("SCRATCH", "PSCRATCH", "SCRATCHDIR", "WORK", "WORKDIR", "PROJECT", "", "HOME")
    known = [one for one in login.folders if one.name in order and one.type != "tmpfs"]
    return min(known, key=lambda one: order.index(one.name), default=None)


def _root(login: LoginHost, root: str) -> Iterator[ProfileLine | Gap]:
    path = ("paths", "root")
    if root:
        yield ProfileLine(path, root, "--root")
        return
    best = choose_folder(login)
    if best is None:
        yield Gap(path, "no folder there is yours to write")
        return
    named_by = f"${best.name}" if best.name else "it is there"
    seen = (
        "which other machines see too" if best.type in SHARED else "not known whether nodes see it"
    )
    how = f"{named_by}, yours to write, {best.free_kib >> 20} GiB free; {best.type}, {seen}"
    yield ProfileLine(path, f"{insert_user(best.path, login.user)}/jobgen", how)


def insert_user(path: str, user: str) -> str:
    """The path with ``$USER`` for the folder that is called as its user."""
    parts = [
        "$USER" if part == user and user else part.replace("$", "$$") for part in path.split("/")
    ]
    return "/".join(parts)


def _nodes(kind: Kind) -> Iterator[ProfileLine | Gap]:
    out = f"; {kind.out} of them cannot be used now" if kind.out else ""
    of = f"of partition {kind.partition}"
    with_ = f" with {kind.gpus} {kind.gpu_type or 'GPUs'}" if kind.gpus else " without GPUs"
    yield ProfileLine(("nodes", "count"), kind.number, f"{kind.how}: nodes {of}{with_}{out}")
    least = ", less what the system keeps" if kind.kept else ""
    least += "" if kind.alike else ", the least of them"
    if kind.gpus:
        word = f"gpu:{kind.gpu_type}:{kind.gpus}" if kind.gpu_type else f"gpu:{kind.gpus}"
        yield ProfileLine(("nodes", "gpus_per_node"), kind.gpus, f"{kind.how}: Gres {word}")
        yield guess_gpu(kind)
    if kind.cpus:
        yield ProfileLine(("nodes", "cpus"), kind.cpus, f"{kind.how}: CPUTot{least}")
    else:
        yield Gap(("nodes", "cpus"), f"{kind.how} does not say")
    if kind.memory:
        yield ProfileLine(("nodes", "mem"), f"{kind.memory}MiB", f"{kind.how}: RealMemory{least}")
    else:
        yield Gap(("nodes", "mem"), f"{kind.how} does not say")


def guess_gpu(kind: Kind) -> ProfileLine | Gap:
    """What the GRES type alone says of the GPU."""
    path = ("nodes", "gpu")
    if not kind.gpu_type:
        return Gap(path, "Slurm's Gres names no type")
    found = find_candidates(kind.gpu_type)
    if len(found) == 1:
        return ProfileLine(
            path, found[0], f"Slurm's Gres type {kind.gpu_type}, which means only this one"
        )
    if not found:
        return Gap(path, f"Slurm's Gres type {kind.gpu_type} is no GPU of the catalogue")
    return Gap(path, f"Slurm's Gres type {kind.gpu_type} can mean several", found)


def _request(site: SlurmSite, choice: Choice) -> Iterator[ProfileLine | Gap]:
    """How GPUs are asked for: by type where the partition has several."""
    path, kind = ("gpu_request",), choice.kind
    if not kind.gpus:
        return
    types = list_gpu_types(site, kind.partition)
    select = site.settings.get("SelectType", "")
    if len(types) > 1 and kind.gpu_type:
        yield ProfileLine(path, "gres-typed", f"partition {kind.partition} has {join_names(types)}")
        yield ProfileLine(("gpu_type",), kind.gpu_type, f"{kind.how}: Gres")
    elif select.endswith("cons_tres"):
        yield ProfileLine(path, "gpus-per-node", f"scontrol show config: SelectType {select}")
    elif select:
        how = f"scontrol show config: SelectType {select}, which has no --gpus-per-node"
        yield ProfileLine(path, "gres", how)
    else:
        yield Gap(path, "the configuration does not say", ("gpus-per-node", "gres"))


def _why_partition(choice: Choice) -> str:
    default = ", the default one" if choice.partition.default else ""
    return f"scontrol show partition{default}" if choice.partition.nodes else f"sinfo{default}"


def _account(site: SlurmSite, choice: Choice, asked: str) -> Iterator[ProfileLine | Gap]:
    path = ("defaults", "slurm", "account")
    if asked:
        yield ProfileLine(path, asked, "--account")
        return
    if not site.associations:
        why = _silence(site, "sacctmgr") or "sacctmgr knows no account of yours"
        yield Gap(path, why)
        return
    mine = list_accounts(site, choice.partition)
    if site.default_account in mine:
        others = [a for a in mine if a != site.default_account]
        more = f"; also {join_names(others)}" if others else ""
        yield ProfileLine(
            path, site.default_account, f"sacctmgr show user: your default account{more}"
        )
    elif len(mine) == 1:
        yield ProfileLine(
            path, mine[0], f"sacctmgr show assoc: yours for partition {choice.partition.name}"
        )
    elif mine:
        yield Gap(path, "sacctmgr show assoc: several of yours, and none is the default", mine)
    else:
        yield Gap(path, f"no account of yours may use partition {choice.partition.name}")


def _qos(site: SlurmSite, choice: Choice, asked: UserFacts) -> Iterator[ProfileLine | Gap]:
    """Nothing where the default QOS will do."""
    path, allowed = ("defaults", "slurm", "qos"), choice.partition.qos
    if asked.qos:
        yield ProfileLine(path, asked.qos, "--qos")
        return
    account = asked.account or site.default_account
    mine = [one for one in site.associations if not account or one.account == account]
    lower = {name.lower() for name in allowed}
    if not allowed or not mine or any(one.default_qos.lower() in lower for one in mine):
        return
    found = tuple(dict.fromkeys(q for one in mine for q in one.qos if q.lower() in lower))
    why = f"scontrol show partition: AllowQos {join_names(allowed)}"
    if len(found) == 1:
        yield ProfileLine(
            path, found[0], f"{why}; sacctmgr show assoc: the one of them that is yours"
        )
    else:
        yield Gap(path, why, found)


def _modules(login: LoginHost) -> Iterator[Gap]:
    found = [m for m in login.modules if m.lower().startswith(_ABOUT_JOBS)]
    if found:
        why = "your choice; module avail shows these among others"
        yield Gap(("defaults", "setup"), why, tuple(f"module load {m}" for m in found[:8]))


def _limits(site: SlurmSite, choice: Choice, asked: UserFacts) -> Iterator[ProfileLine | Gap]:
    partition, path = choice.partition, ("limits", "time")
    options = [
        (parse_limit(partition.max_time), f"scontrol show partition: MaxTime of {partition.name}")
    ]
    chosen = asked.account or site.default_account
    options += [
        (parse_limit(one.max_wall), f"sacctmgr show assoc: MaxWall of account {one.account}")
        for one in site.associations
        if one.account == chosen and one.concerns(partition.name)
    ]
    used = {name.lower() for name in (_qos_used(site, choice, asked), partition.own_qos) if name}
    options += [
        (parse_limit(one.max_wall), f"sacctmgr show qos: MaxWall of {one.name}")
        for one in site.qos
        if one.name.lower() in used
    ]
    known = [(limit, how) for limit, how in options if limit and limit <= _LONGEST]
    if known:
        limit, how = min(known)
        yield ProfileLine(path, format_limit(limit), how)
    else:
        yield Gap(path, f"partition {partition.name} has no limit that Slurm shows")
    usual = parse_limit(partition.default_time)
    if usual is not None and usual <= _LONGEST:
        how = f"scontrol show partition: DefaultTime of {partition.name}"
        yield ProfileLine(("limits", "default_time"), format_limit(usual), how)
    most = partition.max_nodes
    if most is not None and most < choice.kind.number:
        yield ProfileLine(
            ("limits", "nodes"), most, f"scontrol show partition: MaxNodes of {partition.name}"
        )


def _qos_used(site: SlurmSite, choice: Choice, asked: UserFacts) -> str:
    """The QOS that jobs get: the one that is written, else the account's default one."""
    written = (str(one.value) for one in _qos(site, choice, asked) if isinstance(one, ProfileLine))
    account = asked.account or site.default_account
    mine = (one.default_qos for one in site.associations if one.account == account)
    return next(written, "") or next(mine, "")


def _accounting(site: SlurmSite) -> Iterator[ProfileLine | Gap]:
    storage = site.settings.get("AccountingStorageType", "")
    if site.sacct:
        yield ProfileLine(("accounting",), "sacct", "sacct answers")
    elif site.sacct is False:
        yield ProfileLine(("accounting",), "none", "sacct: accounting storage is disabled")
    elif storage in ("accounting_storage/none", "(null)"):
        yield ProfileLine(("accounting",), "none", f"scontrol show config: {storage}")
    else:
        yield Gap(("accounting",), _silence(site, "sacct --") or "sacct gave no answer", ("auto",))


def _silence(site: SlurmSite, command: str) -> str:
    """What the first question that begins so said instead of an answer."""
    found = (
        f"{command.strip(' -')}: {why}" for c, why in site.silent.items() if c.startswith(command)
    )
    return next(found, "")


def draft(
    head: Sequence[ProfileLine | Gap], node: Sequence[ProfileLine | Gap], notes: Sequence[str]
) -> Draft:
    """The entries of both in a profile's order; what a node told wins over the login host's."""
    said = {one.path: one for one in node}
    known = {one.path: one for one in head}
    merged = {path: _joined(one, said.get(path)) for path, one in known.items()}
    merged |= {path: one for path, one in said.items() if path not in known}
    return Draft(tuple(sorted(merged.values(), key=lambda one: _rank(one.path[0]))), tuple(notes))


def _joined(known: ProfileLine | Gap, told: ProfileLine | Gap | None) -> ProfileLine | Gap:
    """What a node told, unless that is less than was known; two gaps have both reasons."""
    if told is None or (isinstance(told, Gap) and isinstance(known, ProfileLine)):
        return known
    if isinstance(told, Gap) and isinstance(known, Gap) and not told.maybe:
        return Gap(told.path, f"{told.why}; {known.why}", known.maybe)
    return told


def mark_shared(line: ProfileLine, node: str) -> ProfileLine:
    """The line of paths.root, once a job on that node has written there."""
    how = line.how.partition("; ")[0]
    return line._replace(how=f"{how}; a job on {node} wrote there")


_ORDER = (
    *("paths", "nodes", "network", "versions", "gpu_request", "gpu_type", "refuses", "defaults"),
    *("limits", "accounting", "slurm_version"),
)


def _rank(key: str) -> int:
    return _ORDER.index(key) if key in _ORDER else len(_ORDER)
