"""A profile against what was found: equal, different, or not looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobgen.model.cluster import ClusterProfile
from jobgen.model.loaded import Loaded
from jobgen.named_tuple import NamedTuple
from jobgen.survey.choice import Choice, list_accounts
from jobgen.survey.draft import Draft, Path, join_names
from jobgen.survey.slurm_site import SlurmSite

ROOM = 0.10
"""How much the memory may differ: Slurm is often told somewhat less than the machine has."""


class ProfileDifference(NamedTuple):
    """One key: what the profile says and where, what was found and how."""

    key: str
    said: str
    place: str
    found: str
    how: str
    wrong: bool = True
    """False where the profile says nothing of it: no mistake, but it could."""


class Comparison(NamedTuple):
    """A profile against a machine."""

    differences: tuple[ProfileDifference, ...] = ()
    same: tuple[str, ...] = ()
    """Keys that agree."""
    unseen: tuple[tuple[str, str], ...] = ()
    """Keys of the profile that were not found out, and why."""
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> tuple[ProfileDifference, ...]:
        """Where the profile says something else than the machine."""
        return tuple(one for one in self.differences if one.wrong)


def compare(profile: Loaded[ClusterProfile], found: ClusterProfile, draft: Draft) -> Comparison:
    """A profile against ``found``, which ``draft`` makes, so that both are in equal units."""
    differences, same = [], []
    for line in draft.lines:
        rule = _RULES.get(line.path)
        if rule is None:
            continue
        ours, theirs = _at(profile.value, line.path), _at(found, line.path)
        key, shown = ".".join(line.path), _words(line.value)
        if _stated(profile, line.path, ours):
            place = str(profile.cite(*line.path))
            if rule(ours, theirs):
                same.append(key)
            else:
                differences.append(ProfileDifference(key, _words(ours), place, shown, line.how))
        elif line.path not in _OPTIONAL:
            differences.append(ProfileDifference(key, "", "", shown, line.how, wrong=False))
    unseen = [
        (".".join(gap.path), gap.why)
        for gap in draft.gaps
        if gap.path in _RULES and _stated(profile, gap.path, _at(profile.value, gap.path))
    ]
    return Comparison(tuple(differences), tuple(same), tuple(unseen), draft.notes)


def compare_partition(profile: Loaded[ClusterProfile], site: SlurmSite) -> ProfileDifference | None:
    """The difference where the profile's partition is not there."""
    path = ("defaults", "slurm", "partition")
    wanted = profile.value.defaults.slurm.get("partition")
    known = [p.name for p in site.partitions] or list(
        dict.fromkeys(g.partition for g in site.groups)
    )
    if not wanted or not known or all(name in known for name in wanted.split(",")):
        return None
    place = str(profile.cite(*path))
    return ProfileDifference(
        ".".join(path), wanted, place, join_names(known), "scontrol show partition"
    )


def compare_account(
    profile: Loaded[ClusterProfile], site: SlurmSite, choice: Choice
) -> ProfileDifference | None:
    """The difference where the profile's account is not the user's, or not for the partition."""
    path = ("defaults", "slurm", "account")
    wanted, mine = (
        profile.value.defaults.slurm.get("account"),
        list_accounts(site, choice.partition),
    )
    if not wanted or not site.associations or wanted in mine:
        return None
    how = f"sacctmgr show assoc: yours for partition {choice.partition.name}"
    found = join_names(sorted(mine)) or "none"
    return ProfileDifference(".".join(path), wanted, str(profile.cite(*path)), found, how)


def _at(profile: ClusterProfile, path: Path) -> Any:
    value: Any = profile
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else getattr(value, step, None)
    return value


def _stated(profile: Loaded[ClusterProfile], path: Path, value: Any) -> bool:
    """Whether the file says it, itself or by a profile that it extends."""
    return value is not None and any(place[: len(path)] == path for place in profile.places)


def _words(value: Any) -> str:
    human = getattr(value, "human", None)
    if human:
        return str(human())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, int) and value > 1 << 30:
        return f"{value / (1 << 30):.0f} GiB"
    return str(value)


def _equal(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs)


def _near(ours: Any, theirs: Any) -> bool:
    return bool(abs(ours - theirs) <= ROOM * max(ours, theirs))


def _at_most(ours: Any, theirs: Any) -> bool:
    """A limit of one's own may be lower than the site's."""
    return bool(getattr(ours, "seconds", ours) <= getattr(theirs, "seconds", theirs))


def _cards(ours: Any, theirs: Any) -> bool:
    """Whether both name equal NICs, in any order; a bare prefix of all names will do."""
    mine = [name.partition(":")[0] for name in ours.lstrip("=").split(",")]
    there = theirs.split(",")
    prefix = len(mine) == 1 and all(_begins(name, mine[0]) for name in there)
    return prefix or sorted(mine) == sorted(there) or ours.startswith("^")


def _begins(name: str, start: str) -> bool:
    """Whether it begins so, and no number is cut in two: mlx5_1 is no beginning of mlx5_10."""
    cut = start[-1:].isdigit() and name[len(start) :][:1].isdigit()
    return bool(start) and name.startswith(start) and not cut


def _request(ours: Any, theirs: Any) -> bool:
    """``--gres`` works wherever Slurm counts GPUs, by type too; the other form needs cons_tres."""
    if ours == theirs:
        return True
    return ours in ("gres", "gres-typed") and theirs in ("gres", "gpus-per-node")


_RULES: Mapping[Path, Callable[[Any, Any], bool]] = {
    ("nodes", "count"): _equal,
    ("nodes", "gpus_per_node"): _equal,
    ("nodes", "gpu"): _equal,
    ("nodes", "cpus"): _equal,
    ("nodes", "mem"): _near,
    ("nodes", "intra"): _equal,
    ("network", "fabric"): _equal,
    ("network", "nics"): _equal,
    ("network", "nic_gbps"): _equal,
    ("network", "ib_hca"): _cards,
    ("network", "socket_ifname"): _equal,
    ("network", "internet"): _equal,
    ("versions", "driver"): _equal,
    ("gpu_request",): _request,
    ("gpu_type",): _equal,
    ("refuses",): lambda ours, theirs: set(ours) == set(theirs),
    ("limits", "time"): _at_most,
    ("limits", "default_time"): _equal,
    ("limits", "nodes"): _at_most,
    ("accounting",): lambda ours, theirs: ours in ("auto", theirs),
    ("slurm_version",): _equal,
}
_OPTIONAL = frozenset(
    {("network", "nics"), ("gpu_request",), ("gpu_type",), ("accounting",)}
    | {("limits", "default_time")}
)
"""Keys whose default will do where they are left out."""
