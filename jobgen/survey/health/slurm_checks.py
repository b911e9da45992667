"""Slurm as the profile expects it: the controller, accounting, partition, account, a job's request.

What is printed differs little between 20.02 and 26.05; what is not understood is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from jobgen.errors import Place
from jobgen.model.cluster import ClusterProfile
from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines
from jobgen.survey.health import (
    Answer,
    Answers,
    CheckRow,
    Verdict,
    fail,
    judge_silence,
    parse_fields,
    skip,
    succeed,
    warn,
)
from jobgen.survey.health.partition import (
    find_obstacle,
    get_max_nodes,
    parse_max_time,
    select_partitions,
)
from jobgen.survey.health.questions import ASSOCIATION
from jobgen.survey.slurm_site.partitions import Partition, parse_partitions
from jobgen.survey.slurm_site.scontrol_fields import parse_settings

SLOW = 3.0
"""Seconds after which an answer of the controller is slow."""
_NO_ACCOUNTING = re.compile(r"storage is disabled|not running a supported accounting_storage", re.I)
_RELEASE = re.compile(r"(\d{2})\.(\d{2})(?:\.\d{1,3})?", re.ASCII)


class SlurmComparison(NamedTuple):
    """The answers of Slurm, and the profile that they are compared with."""

    answers: Answers
    profile: ClusterProfile
    where: Callable[..., Place]
    """Keys of the profile → ``hpc.yaml:12``."""
    refusal: str = ""
    """Why no job of this profile could be made to be tried; empty where one could."""

    def get_answer(self, key: str) -> Answer:
        """What a question brought."""
        return self.answers.get(key, Answer())

    @property
    def configuration(self) -> Mapping[str, str]:
        """``scontrol show config`` by its keys."""
        return parse_settings(self.get_answer("config").out)

    def get_option(self, name: str) -> str:
        """An option of sbatch among the profile's defaults; empty where it has none."""
        return self.profile.defaults.slurm.get(name) or ""

    @property
    def partitions(self) -> Sequence[Partition]:
        """Those that the controller told of."""
        return parse_partitions(self.get_answer("partitions").out)

    @property
    def wanted(self) -> list[Partition]:
        """Those of the profile's defaults that exist, else the cluster's default one."""
        return select_partitions(self.partitions, self.get_option("partition"))

    @property
    def associations(self) -> list[dict[str, str]]:
        """Account, QOS and limits that the accounting has for this user on this cluster."""
        lines = (line.split("|") for line in split_lines(self.get_answer("association").out))
        here = ("", self.configuration.get("ClusterName", "").lower())
        found = [
            dict(zip(ASSOCIATION, line, strict=True))
            for line in lines
            if len(line) == len(ASSOCIATION) and line[0].strip()
        ]
        return [a for a in found if here[1] == "" or a["cluster"].strip().lower() in here]

    @property
    def enforced(self) -> bool:
        """Whether the controller refuses accounts that the accounting does not know."""
        said = self.configuration.get("AccountingStorageEnforce", "").lower()
        return any(word in said for word in ("associations", "limits", "qos", "all", "safe"))


def _controller(site: SlurmComparison) -> Verdict:
    answer = site.get_answer("ping")
    fix = (
        "run scontrol ping there; if it keeps failing, tell your site (submitted jobs are not lost)"
    )
    if answer.late or (not answer.ok and "DOWN" in answer.out):
        late = "slurmctld did not answer in time" if answer.late else "slurmctld is down"
        return fail(late, fix, "J421")
    if (bad := judge_silence(answer, "scontrol")) or not answer.ok:
        return bad or fail(f"scontrol ping: {answer.summarize}", fix, "J421")
    if site.get_answer("queue").late or site.get_answer("config").late:
        return fail("slurmctld answers pings but no queries", fix, "J421")
    slowest = max(
        (site.get_answer(key).seconds or 0.0) for key in ("config", "partitions", "queue")
    )
    if slowest > SLOW:
        return warn(
            f"slurmctld is slow: {slowest:.1f} s", "avoid polling it: no watch squeue", "J421"
        )
    return succeed("slurmctld answers", site.get_answer("queue").seconds or answer.seconds)


def _version(site: SlurmComparison) -> Verdict:
    printed = site.configuration.get("SLURM_VERSION") or site.get_answer("version").out
    found = _RELEASE.search(printed)
    if not found:
        return judge_silence(site.get_answer("version"), "sbatch") or skip("unknown version")
    real = f"{found[1]}.{found[2]}"
    said = site.profile.slurm_version
    if said is None or said == real:
        return succeed(f"Slurm {found[0]}")
    fix = f'write slurm_version: "{real}" ({site.where("slurm_version")})'
    if said > real:
        return fail(
            f"Slurm {found[0]} is older than slurm_version: {said} of the profile", fix, "J422"
        )
    return warn(f"Slurm {found[0]} is newer than slurm_version: {said} of the profile", fix, "J422")


def _accounting(site: SlurmComparison) -> Verdict:
    answer, said = site.get_answer("past"), site.profile.accounting
    where = site.where("accounting")
    storage = site.configuration.get("AccountingStorageType", "unknown")
    off = storage in ("accounting_storage/none", "") or _NO_ACCOUNTING.search(answer.summarize)
    if off:
        if said == "sacct":
            fix = f"write accounting: none ({where})"
            return fail(
                "the profile has accounting: sacct, but this Slurm has no accounting", fix, "J423"
            )
        return succeed("none: job results are read from run directories")
    if answer.ok:
        return succeed("sacct answers", answer.seconds)
    if (bad := judge_silence(answer, "sacct")) and bad.status == "unknown":
        return bad
    found = "sacct did not answer in time" if answer.late else f"sacct: {answer.summarize}"
    fix = "slurmdbd may be down: ask your site"
    if said == "sacct":
        return fail(found, f"{fix}; until then accounting: auto ({where})", "J423")
    return warn(found, f"{fix}; until then job results are read from run directories", "J423")


def _partition(site: SlurmComparison) -> Verdict:
    if (bad := judge_silence(site.get_answer("partitions"), "scontrol")) or not site.partitions:
        return bad or skip("scontrol lists no partition")
    asked = site.get_option("partition")
    where = site.where("defaults", "slurm", "partition")
    seen = ", ".join(p.name for p in site.partitions[:12])
    known = {p.name for p in site.partitions}
    for name in filter(None, asked.split(",")):
        if name not in known:
            near = get_close_matches(name, known, 1)
            guess = f"did you mean '{near[0]}'? " if near else ""
            fix = f"{guess}correct defaults.slurm.partition ({where}); partitions: {seen}"
            return fail(f"there is no partition '{name}'", fix, "J424")
    if not site.wanted:
        fix = f"write defaults: {{slurm: {{partition: NAME}}}} ({where}); partitions: {seen}"
        return fail("the profile names none, and this Slurm has no default partition", fix, "J424")
    groups = parse_fields(site.get_answer("shell").out).get("groups", "").split()
    asks = (site.get_option("account"), site.get_option("qos"))
    faults = [text for p in site.wanted if (text := find_obstacle(p, *asks, groups))]
    if len(faults) == len(site.wanted):
        return fail(faults[0], f"choose another one ({where}): {seen}", "J424")
    names = ", ".join(p.name for p in site.wanted)
    return succeed(names if asked else f"{names} (default)")


def _sizes(site: SlurmComparison) -> Verdict | None:
    """The profile's limits against those of the partition: what it promises must be had."""
    if not site.wanted:
        return None
    limits, count = site.profile.limits, site.profile.nodes.count
    times = [parse_max_time(p) for p in site.wanted]
    longest = None if None in times else max(time for time in times if time is not None)
    most, total = max(map(get_max_nodes, site.wanted)), max(p.total_nodes for p in site.wanted)
    name = f"partition {site.wanted[0].name}"
    found, key = "", ("limits", "nodes")
    if limits.time and longest is not None and limits.time.seconds > longest:
        found = f"limits.time is {limits.time}, {name} allows {_hours(longest)}"
        key = ("limits", "time")
    elif count > total:
        found, key = f"nodes.count is {count}, {name} has {total}", ("nodes", "count")
    elif (limits.nodes or count) > most:
        found = f"the profile allows jobs of {limits.nodes or count} nodes, {name} allows {most}"
    if found:
        return warn(found, f"correct {'.'.join(key)} ({site.where(*key)})", "J424")
    time = "no time limit" if longest is None else f"jobs up to {_hours(longest)}"
    return succeed(f"{most} node{'s' if most != 1 else ''}, {time}")


def _hours(time: int) -> str:
    days, hours, minutes = time // 86400, time // 3600 % 24, time // 60 % 60
    parts = ((days, "d"), (hours, "h"), (minutes, "m"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0m"


def _account(site: SlurmComparison) -> Verdict | None:
    answer = site.get_answer("association")
    if not answer.ok:
        return None
    asked, where = site.get_option("account"), site.where("defaults", "slurm", "account")
    known = list(dict.fromkeys(a["account"] for a in site.associations))
    if asked and asked.lower() not in (name.lower() for name in known):
        there = f"yours: {', '.join(known[:12])}" if known else "you have none here"
        fix = f"correct defaults.slurm.account ({where}); {there}"
        if site.enforced:
            return fail(f"'{asked}' is not one of your accounts", fix, "J425")
        if known:
            found = (
                f"'{asked}' is not one of your accounts, but this Slurm does not enforce accounts"
            )
            return warn(found, fix, "J425")
    if not known and site.enforced:
        fix = "ask your site for an account: sacctmgr show association user=NAME shows none"
        return fail("you have no account here, but jobs need one", fix, "J425")
    if asked:
        return succeed(asked)
    return succeed(f"default, of {', '.join(known[:6])}" if known else "not needed")


def _qos(site: SlurmComparison) -> Verdict | None:
    asked = site.get_option("qos")
    mine = _mine(site)
    if not asked or not site.get_answer("association").ok or not mine:
        return None
    names = (name.strip().lstrip("+") for a in mine for name in a["qos"].split(","))
    allowed = sorted(set(filter(None, names)))
    if asked.lower() in (name.lower() for name in allowed):
        return succeed(asked)
    fix = (
        f"correct defaults.slurm.qos ({site.where('defaults', 'slurm', 'qos')}); "
        f"yours: {', '.join(allowed) or 'none'}"
    )
    judge = fail if site.enforced else warn
    return judge(f"'{asked}' is not one of your QOS", fix, "J425")


def _mine(site: SlurmComparison) -> list[dict[str, str]]:
    """The associations of the profile's account; every one where it names none."""
    asked = site.get_option("account").lower()
    return [a for a in site.associations if not asked or a["account"].lower() == asked]


def _limits(site: SlurmComparison) -> Verdict | None:
    mine = _mine(site)
    told = [(a["maxjobs"].strip(), a["maxsubmit"].strip()) for a in mine]
    if not told:
        return None
    if all("0" in pair for pair in told):
        fix = "ask your site: your account may be closed or out of hours"
        return fail("your account cannot run jobs (MaxJobs or MaxSubmit is 0)", fix, "J425")
    running = sum(line.strip() != "" for line in split_lines(site.get_answer("queue").out))
    words = [f"at most {jobs} running" for jobs, _ in told[:1] if jobs]
    words += [f"at most {most} submitted" for _, most in told[:1] if most]
    return succeed(f"{', '.join(words) or 'no limit on jobs'}; yours in the queue: {running}")


_HINTS = (
    ("invalid partition|partition name", "correct defaults.slurm.partition ({partition})"),
    ("account", "correct defaults.slurm.account ({account})"),
    ("qos", "correct defaults.slurm.qos ({qos})"),
    ("feature|constraint", "correct defaults.slurm.constraint ({constraint})"),
    (
        "gres|TRES",
        "compare with sinfo -o '%P %G' there; correct gpu_request, gpu_type or nodes ({nodes})",
    ),
    (
        "node configuration",
        "no node has that many GPUs or CPUs: correct nodes ({nodes}) to match sinfo",
    ),
    ("time limit", "use a time limit that the partition allows"),
    ("unrecognized option|invalid option", "remove that option from defaults.slurm ({slurm})"),
)


def _test(site: SlurmComparison) -> Verdict:
    if site.refusal:
        return skip(f"no test job can be rendered: {site.refusal}")
    answer = site.get_answer("test")
    if bad := judge_silence(answer, "sbatch"):
        return bad
    if answer.ok:
        start = re.search(r"to start at (\S{1,40})", answer.err + answer.out)
        when = f"; a whole node could start at {start[1]}" if start else ""
        return succeed(f"sbatch --test-only accepts a one-node job{when}", answer.seconds)
    places = {
        key: site.where("defaults", "slurm", key)
        for key in ("partition", "account", "qos", "constraint")
    }
    places |= {"nodes": site.where("nodes"), "slurm": site.where("defaults", "slurm")}
    hints = [hint for words, hint in _HINTS if re.search(words, answer.summarize, re.IGNORECASE)]
    fix = hints[0].format_map(places) if hints else "compare with an example job of your site"
    return fail(f"sbatch --test-only: {answer.summarize}", fix, "J426")


ROWS: tuple[CheckRow[SlurmComparison], ...] = (
    CheckRow("slurm.controller", "the controller answers", _controller),
    CheckRow("slurm.version", "Slurm's release matches the profile", _version),
    CheckRow("slurm.accounting", "accounting matches the profile", _accounting),
    CheckRow("slurm.partition", "the partition exists, is up, and is open to you", _partition),
    CheckRow("slurm.sizes", "the profile's limits fit the partition", _sizes),
    CheckRow("slurm.account", "you may use the account", _account),
    CheckRow("slurm.qos", "you may use the QOS", _qos),
    CheckRow("slurm.limits", "you may submit jobs", _limits),
    CheckRow(
        "slurm.request", "Slurm would accept a job of this profile (nothing is submitted)", _test
    ),
)
