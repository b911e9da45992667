"""The file system of run directories: writable, with room, shared with the nodes."""

from __future__ import annotations

import re

from jobgen.errors import Place
from jobgen.named_tuple import NamedTuple
from jobgen.survey.health import (
    Answer,
    Answers,
    CheckRow,
    Verdict,
    fail,
    judge_silence,
    list_values,
    parse_fields,
    skip,
    succeed,
    warn,
    write_size,
)

LITTLE, SCARCE = 10 << 10, 1 << 20
"""KiB: too few for a run directory, and few enough for a warning."""
FEW_INODES, SCARCE_INODES = 100, 10_000
OWN = frozenset({"ext2/ext3", "xfs", "btrfs", "tmpfs", "ramfs", "overlayfs", "zfs", "f2fs"})
"""File systems, as ``stat -f`` names them, that a node does not share by itself."""
MANY_RUNS = 200
_STEPS = {
    "look": "looking for the directory",
    "type": "asking for its kind (stat -f)",
    "free": "asking for free space (df)",
    "write": "writing a small file",
    "list": "listing it",
}
_QUOTA = re.compile(
    r"(\d{1,15})(\*?)\s+(\d{1,15})k?\s+(\d{1,15})k?\s+(?:-\s+|[^\s\d]\S*\s+|\d+[^\s\d]\S*\s+)?"
    r"(\d{1,15})(\*?)\s+(\d{1,15})\s+(\d{1,15})\b",
    re.ASCII,
)
"""Used, soft and hard limit of blocks (KiB) and of files, as quota(1) and ``lfs quota`` print."""


class DiskAnswers(NamedTuple):
    """What was answered about it."""

    answers: Answers
    root: str
    """``paths.root``, as the profile writes it."""
    place: Place
    """Where the profile writes it: ``hpc.yaml:5``."""
    several: bool
    """Whether jobs may run on other machines than this one."""

    @property
    def answer(self) -> Answer:
        """What was found of the directory."""
        return self.answers.get("disk", Answer())

    @property
    def by_name(self) -> dict[str, str]:
        """What was found of the directory, by name."""
        return parse_fields(self.answer.out)


def _root(disk: DiskAnswers) -> Verdict:
    answer, told = disk.answer, disk.by_name
    if answer.late:
        step = _STEPS.get((list_values(answer.out, "doing") or [""])[-1], "looking at it")
        return fail(
            f"{told.get('root', disk.root)}: the file system hangs while {step}",
            "ask your site; until then set paths.root to another file system",
            "J435",
        )
    if not answer.out and (bad := judge_silence(answer, "sh")):
        return bad
    where = f"correct paths.root ({disk.place})"
    for key, what in _WRONG:
        if key in told:
            return fail(what.format(told[key], root=told.get("root", disk.root)), where, "J427")
    if "at" not in told:
        return skip("unknown")
    if told["at"] == told.get("root"):
        return succeed(f"{told['root']} is writable", answer.seconds)
    return succeed(f"{told.get('root')} can be created when needed", answer.seconds)


_WRONG = (
    ("unset", "${} is not set at login, so {root} is undefined"),
    ("relative", "{} is not an absolute path"),
    ("file", "{} is a file, not a directory"),
    ("refused", "{root} is not writable: {}"),
    ("unwritten", "{root} accepts no more data: {}"),
    ("unlinked", "{root} does not support symbolic links, which submitting needs: {}"),
)


def _replaceable(disk: DiskAnswers) -> Verdict | None:
    told = disk.by_name
    fix = f"set paths.root ({disk.place}) to a directory that only you can write to"
    if "everyone" in told:
        what = "every user can replace run directories: {} is writable by all and has no sticky bit"
        return fail(what.format(told["everyone"]), fix, "J438")
    if "group" in told:
        return warn(f"the group of {told['group']} can replace run directories", fix, "J438")
    if "owner" in told:
        what = f"{told['owner']} belongs to another user, who can replace run directories"
        return warn(what, fix, "J438")
    return succeed("no other user can replace them") if "at" in told else None


def _free(disk: DiskAnswers) -> Verdict | None:
    row = disk.by_name.get("free", "").split()
    if len(row) < 6 or not _count(row[3]):
        return None
    free = int(row[3])
    found = f"{_size(free)} free of {_size(int(row[1]))}" if _count(row[1]) else _size(free)
    fix = "remove old runs there, or set paths.root to a larger file system"
    if free < LITTLE:
        return fail(f"{found} on {row[5]}", fix, "J428")
    return warn(f"{found} on {row[5]}", fix, "J428") if free < SCARCE else succeed(found)


def _inodes(disk: DiskAnswers) -> Verdict | None:
    row = disk.by_name.get("inodes", "").split()
    # several file systems count none, and say 0 of 0, or a dash
    if len(row) < 6 or not _count(row[1]) or not _count(row[3]) or not int(row[1]):
        return None
    free = int(row[3])
    fix = "remove folders with many small files there: old runs, conda environments"
    if free < FEW_INODES:
        return fail(f"room for {free} more files", fix, "J428")
    if free < SCARCE_INODES:
        return warn(f"room for only {free} more files", fix, "J428")
    return succeed(f"room for {free} more files")


def _quota(disk: DiskAnswers) -> Verdict | None:
    seen = None
    for key in ("lustre", "quota"):
        for found in _QUOTA.finditer(disk.answers.get(key, Answer()).out):
            seen = _judged_quota(found)
            if seen.status != "ok":
                return seen
    hung = any(disk.answers.get(key, Answer()).late for key in ("lustre", "quota"))
    return skip("quota did not answer in time") if hung and seen is None else seen


def _judged_quota(found: re.Match[str]) -> Verdict:
    fix = "remove files, or ask your site for more"
    for what, used, star, soft, hard in (
        ("KiB", *found.group(1, 2, 3, 4)),
        ("files", *found.group(5, 6, 7, 8)),
    ):
        limit = min((int(x) for x in (soft, hard) if int(x)), default=0)
        said = f"{_size(int(used)) if what == 'KiB' else used + ' files'} used"
        most = _size(limit) if what == "KiB" else f"{limit} files"
        if int(hard) and int(used) >= int(hard):
            return fail(f"{said}: the quota of {most} is used up", fix, "J428")
        if star or (limit and int(used) > 0.95 * limit):
            return warn(f"{said} of {most}", fix, "J428")
    hard = int(found[4]) or int(found[3])
    return succeed(
        f"{_size(int(found[1]))} used" + (f" of {_size(hard)}" if hard else ", no limit")
    )


def _shared(disk: DiskAnswers) -> Verdict | None:
    kind = disk.by_name.get("type", "")
    if not kind or not disk.several:
        return None
    if kind in OWN:
        return warn(
            f"{kind} is usually local to one host: nodes may not see it",
            f"test: srun ls -d {disk.by_name.get('root', disk.root)}; else correct paths.root "
            f"({disk.place})",
            "J429",
        )
    return succeed(kind)


def _programs(disk: DiskAnswers) -> Verdict | None:
    if "noexec" in disk.by_name:
        fix = "start programs through their interpreter: bash run.sh, python train.py"
        return warn("mounted noexec: files there cannot be executed", fix, "J427")
    return None


def _runs(disk: DiskAnswers) -> Verdict | None:
    told = disk.by_name.get("runs", "")
    if not _count(told):
        return None
    number = int(told)
    answer = disk.answers.get("runs", Answer())
    used = answer.out.split()
    size = f", {_size(int(used[0]))}" if answer.ok and used and _count(used[0]) else ""
    size = ", too many files to sum up" if answer.late else size
    found = f"{number} run director{'y' if number == 1 else 'ies'}{size}"
    if number > MANY_RUNS:
        fix = "remove those of ended jobs"
        return warn(found, f"{fix}: ls -t {disk.by_name.get('root', disk.root)}")
    return succeed(found)


def _count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _size(kib: int) -> str:
    return write_size(kib * 1024)


ROWS: tuple[CheckRow[DiskAnswers], ...] = (
    CheckRow("disk.root", "paths.root is writable, or can be created", _root),
    CheckRow("disk.replaceable", "no other user can replace run directories", _replaceable),
    CheckRow("disk.free", "there is free space", _free),
    CheckRow("disk.inodes", "there is room for more files", _inodes),
    CheckRow("disk.quota", "your quota has room", _quota),
    CheckRow("disk.shared", "the file system is shared with the nodes", _shared),
    CheckRow("disk.noexec", "files there can be executed", _programs),
    CheckRow("disk.runs", "there are few old runs", _runs),
)
