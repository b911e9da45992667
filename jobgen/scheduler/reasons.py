"""Why a job waits, in plain words. Slurm's own word is always shown beside them.

Source: ``squeue(1)``, section JOB REASON CODES, and ``src/common/job_state_reason.c``.
"""

from __future__ import annotations

_WORDS = {
    "Priority": "waiting for other jobs",
    "Resources": "next in line, waiting for free nodes",
    "Dependency": "waiting for another job to end",
    "DependencyNeverSatisfied": "never starts: the job it depends on ended otherwise; cancel it",
    "BeginTime": "may not start before its begin time (a requeued job waits about two minutes)",
    "JobHeldUser": "held by you: release it with scontrol release",
    "JobHeldAdmin": "held by an administrator, or requeued too often: ask them",
    "JobArrayTaskLimit": "the array's limit of concurrent tasks is reached",
    "PartitionTimeLimit": "never starts: --time is over the partition's limit",
    "PartitionNodeLimit": "never starts: more nodes than the partition allows",
    "PartitionConfig": "never starts: requests more than the partition's limits allow",
    "PartitionDown": "the partition is closed",
    "PartitionInactive": "the partition is closed",
    "ReqNodeNotAvail": "nodes are reserved or down, as for maintenance: a shorter --time may fit",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "never starts: its reservation was deleted",
    "Licenses": "waiting for a licence",
    "BadConstraints": "never starts: no node can satisfy the request",
    "InvalidAccount": "never starts: the account is invalid",
    "InvalidQOS": "never starts: the QOS is invalid",
    "AccountNotAllowed": "never starts: this account may not use the partition",
    "QOSNotAllowed": "never starts: this QOS may not use the partition",
    "NodeDown": "a required node is down",
    "Prolog": "the nodes are being prepared",
    "Cleaning": "cleaning up after an earlier run of this job",
    "JobLaunchFailure": "could not start: the log or working directory is missing",
    "JobHoldMaxRequeue": "held: requeued as often as the site allows",
    "RaisedSignal": "ended by a signal",
    "NonZeroExitCode": "the script ended with an exit code other than 0",
    "OutOfMemory": "used more memory than it requested",
    "TimeLimit": "reached the time limit",
    "SystemFailure": "a node or Slurm itself failed",
    "InactiveLimit": "the job was idle for too long",
    "BurstBufferResources": "waiting for the burst buffer",
    "FrontEndDown": "a front end is down",
    "MaxMemPerLimit": "never starts: more memory than the site allows",
    "job requeued in held state": "requeued and held: release it with scontrol release",
    "launch failed requeued held": "could not start and is held: scontrol release tries again",
}  # fmt: skip

# longest first: AssocGrpGRES before AssocGrp
_LIMITS = (
    ("AssocGrp", "your account has reached its limit{what}: starts when its other jobs end"),
    ("AssocMaxWall", "never starts: --time is over your account's limit"),
    ("AssocMax", "exceeds a limit of your account{what}"),
    ("QOSGrp", "the QOS has reached its limit{what}: starts when other jobs in it end"),
    ("QOSMaxWall", "never starts: --time is over the QOS's limit"),
    ("QOSMin", "never starts: below the minimum of the QOS{what}"),
    ("QOSMax", "exceeds a limit of the QOS{what}"),
    ("MaxMem", "never starts: more memory than the site allows"),
)
_WHAT = (
    ("GRES", "GPUs"), ("Node", "nodes"), ("Cpu", "CPUs"), ("CPU", "CPUs"), ("Mem", "memory"),
    ("Submit", "submitted jobs"), ("Job", "jobs"), ("Wall", "time"), ("Billing", "billing"),
)  # fmt: skip


def is_held(reason: str) -> bool:
    """Whether a job of this reason waits until somebody releases it.

    Slurm expects a start of such a job, too, which means nothing.

    >>> is_held("JobHeldUser"), is_held("Priority")
    (True, False)
    """
    return reason.startswith(("JobHeld", "JobHold")) or reason.endswith((" held", "held state"))


def explain_pending(text: str) -> str:
    """Plain words for Slurm's reason, empty where there is nothing to add to it.

    >>> explain_pending("Priority")
    'waiting for other jobs'
    >>> explain_pending("QOSMaxGRESPerUser")
    'exceeds a limit of the QOS (GPUs)'
    """
    text = text.strip().strip("()")
    word = text.split(",")[0].split(":")[0].strip()
    if word in _WORDS:
        return _WORDS[word]
    for head, words in _LIMITS:
        if word.startswith(head):
            what = next((name for mark, name in _WHAT if mark in word[len(head) :]), "")
            return words.format(what=f" ({what})" if what else "")
    return ""


def explain_reason(text: str) -> str:
    """Slurm's own word, and what it means where that is known.

    >>> explain_reason("Priority")
    'Priority: waiting for other jobs'
    """
    words = explain_pending(text)
    return f"{text.strip()}: {words}" if words else text.strip()
