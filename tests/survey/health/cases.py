"""Real answers of a login host (Slurm 22.05.8, Debian 12), and what is judged of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobgen.load import load_cluster
from jobgen.model.cluster import ClusterProfile
from jobgen.survey.health import Answer, Finding, disk, host, judge_rows, slurm_checks
from jobgen.survey.health.host import Clock

PROFILE = """\
name: hpc
scheduler: slurm
ssh: hpc-login
paths: {root: /scratch/ann}
nodes: {count: 4, gpus_per_node: 8, gpu: A100-SXM4-80GB}
network: infiniband
"""
_PARTITION = (
    "PartitionName={} AllowGroups={} AllowAccounts={} AllowQos=ALL AllocNodes=ALL Default={} "
    "QoS=N/A DefaultTime=NONE Hidden=NO MaxNodes=UNLIMITED MaxTime={} MinNodes=0 Nodes=n[1-4] "
    "OverSubscribe=NO PreemptMode=OFF State={} TotalCPUs=256 TotalNodes=4 TRES=cpu=256,node=4"
)


def partition(
    name: str,
    *,
    default: str = "NO",
    time: str = "7-00:00:00",
    state: str = "UP",
    accounts: str = "ALL",
    groups: str = "ALL",
) -> str:
    """A line of ``scontrol --oneliner show partition``."""
    return _PARTITION.format(name, groups, accounts, default, time, state)


ANSWERS: Mapping[str, Answer] = {
    "shell": Answer(
        0,
        "user ann\ngroups ann nlp\nhost login\nsystem Linux 6.1.0 x86_64\numask 0022\n"
        "bash 5.2.15(1)-release\nlocale UTF-8\nsbatch /usr/bin/sbatch",
        "",
        0.05,
    ),
    "version": Answer(0, "slurm-wlm 22.05.8"),
    "ping": Answer(0, "Slurmctld(primary) at ctl is UP", seconds=0.02),
    "config": Answer(
        0,
        "Configuration data as of 2026-11-21T23:24:17\nAccountingStorageEnforce = associations\n"
        "AccountingStorageType   = accounting_storage/slurmdbd\nSLURM_VERSION = 22.05.8\n",
        "",
        0.02,
    ),
    "partitions": Answer(
        0, f"{partition('gpu', default='YES')}\n{partition('debug', time='00:30:00')}"
    ),
    "queue": Answer(0, "17\n18\n", "", 0.03),
    "test": Answer(
        0,
        "",
        "sbatch: Job 6 to start at 2026-11-21T23:24:17 using 1 processors on nodes n1 in "
        "partition gpu\n",
    ),
    "past": Answer(0, ""),
    "association": Answer(0, "nlp||normal,high|normal||100|hpc\nphysics||normal||10||hpc"),
    "disk": Answer(
        0,
        "root /scratch/ann\ndoing look\nat /scratch/ann\ndoing type\ntype lustre\ndoing free\n"
        "free 10.0.0.1@o2ib:/fs 264212084 31722504 74668408 30% /scratch\n"
        "inodes 10.0.0.1@o2ib:/fs 16777216 541799 16235417 4% /scratch\n"
        "doing write\ndoing list\nruns 2\ndoing nothing",
    ),
    "runs": Answer(0, "2097152\t/scratch/ann"),
    "quota": Answer(
        0,
        "Disk quotas for user ann (uid 1000):\n"
        "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n"
        "/dev/mapper/home 6094452  20000000 21474836          365672       0       0",
    ),
}


def with_answers(**changes: Answer | str) -> dict[str, Answer]:
    """The answers with some others; a text is what a question that went well printed."""
    new = {key: a if isinstance(a, Answer) else Answer(0, a) for key, a in changes.items()}
    return {**ANSWERS, **new}


def profile(**keys: str) -> Any:
    """The profile with other lines: ``profile(accounting="sacct")``."""
    text = PROFILE + "".join(f"{key}: {value}\n" for key, value in keys.items())
    return load_cluster(text, "hpc.yaml")


def findings(told: Mapping[str, Answer], clock: Clock | None = None, **keys: str) -> list[Finding]:
    """All findings of a cluster's tables."""
    loaded = profile(**keys)
    value: ClusterProfile = loaded.value
    return [
        *judge_rows("host", host.ROWS, host.Host(told, clock)),
        *judge_rows(
            "slurm", slurm_checks.ROWS, slurm_checks.SlurmComparison(told, value, loaded.cite)
        ),
        *judge_rows(
            "disk", disk.ROWS, disk.DiskAnswers(told, value.paths.root, "hpc.yaml:4", several=True)
        ),
    ]
