"""Why a job waits, in plain words. Slurm's own word is always shown beside them.

Source: ``squeue(1)``, section JOB REASON CODES, and ``src/common/job_state_reason.c``.
"""

from __future__ import annotations

_WORDS = {
    "Priority": "waiting for other jobs",
    "Resources": "next in line, waiting for free nodes",
    "Dependency": "waiting for another job to end",
    "DependencyNeverSatisfied": "never starts: its dependency can no longer be met; cancel it",
    "BeginTime": "not before its begin time (a requeued job waits about two minutes)",
    "JobHeldUser": "held by you: release it with scontrol release",
    "JobHeldAdmin": "held by an administrator, or requeued too often: ask the administrators",
    "JobArrayTaskLimit": "the array already runs as many tasks as its limit allows",
    "PartitionTimeLimit": "never starts: --time exceeds the partition's limit",
    "PartitionNodeLimit": "never starts: more nodes than the partition allows",
    "PartitionConfig": "never starts: the request exceeds the partition's limits",
    "PartitionDown": "the partition is closed",
    "PartitionInactive": "the partition is closed",
    "ReqNodeNotAvail": "nodes are reserved or down (maintenance?): a shorter --time may fit",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "never starts: its reservation was deleted",
    "Licenses": "waiting for a license",
    "BadConstraints": "never starts: no node can satisfy the request",
    "InvalidAccount": "never starts: invalid account",
    "InvalidQOS": "never starts: invalid QOS",
    "AccountNotAllowed": "never starts: the account may not use this partition",
    "QOSNotAllowed": "never starts: the QOS may not use this partition",
    "NodeDown": "a required node is down",
    "Prolog": "the nodes are being prepared",
    "Cleaning": "an earlier run of this job is still being cleaned up",
    "JobLaunchFailure": "could not start: the directory of the log or of the job is missing",
    "JobHoldMaxRequeue": "held: requeued as often as the site allows",
    "RaisedSignal": "ended by a signal",
    "NonZeroExitCode": "the script exited with a nonzero code",
    "OutOfMemory": "out of memory",
    "TimeLimit": "the time limit was reached",
    "SystemFailure": "a node or Slurm itself failed",
    "InactiveLimit": "the job was idle for too long",
    "BurstBufferResources": "waiting for the burst buffer",
    "FrontEndDown": "a front-end node is down",
    "MaxMemPerLimit": "never starts: more memory than the site allows",
    "job requeued in held state": "requeued and held: release it with scontrol release",
    "launch failed requeued held": "could not start and is held: retry with scontrol release",
}  # fmt: skip

# longest first: AssocGrpGRES before AssocGrp
_LIMITS = (
    ("AssocGrp", "your account is at its limit{what}: starts when other jobs of the account end"),
    ("AssocMaxWall", "never starts: --time exceeds your account's limit"),
    ("AssocMax", "exceeds a limit of your account{what}"),
    ("QOSGrp", "the QOS is at its limit{what}: starts when other jobs of the QOS end"),
    ("QOSMaxWall", "never starts: --time exceeds the QOS limit"),
    ("QOSMin", "never starts: below the QOS minimum{what}"),
    ("QOSMax", "exceeds a QOS limit{what}"),
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
    'exceeds a QOS limit (GPUs)'
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
