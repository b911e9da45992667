"""scontrol: show hostnames, job and config; requeue, update, hold, release."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from . import options, run, times
from .errors import CommandError
from .hostlist import compress, expand
from .records import Job
from .squeue import elapsed
from .store import Store, here

_UNKNOWN = "slurm_load_jobs error: Invalid job id specified"


def main(store: Store, words: Sequence[str]) -> int:
    """One command."""
    wanted, rest = options.parse("scontrol", options.SCONTROL, words)
    if "version" in wanted:
        print(options.VERSION)
        return 0
    commands: dict[str, Callable[[Store, list[str]], None]] = {
        "show": _show,
        "requeue": _requeue,
        "update": _update,
        "hold": _hold,
        "release": _hold,
        "ping": _ping,
    }
    name = rest[0].lower() if rest else ""
    if name not in commands:
        raise CommandError(f"invalid keyword: {name}")
    commands[name](store, rest)
    return 0


def _show(store: Store, words: list[str]) -> None:
    # -o may stand anywhere, as in `scontrol show job -o ID`
    entity, *rest = [word for word in words[1:] if word not in ("-o", "--oneliner")] or [""]
    if entity in ("hostnames", "hostname", "hostnames"):
        _hostnames(rest)
    elif entity in ("hostlist", "hostlistsorted"):
        print(",".join(rest))
    elif entity in ("job", "jobs"):
        _jobs(store, rest)
    elif entity == "config":
        print("\n".join(f"{name:<23} = {value}" for name, value in _config(store)))
    else:
        raise CommandError(f"invalid entity:{entity} for keyword:show ")


def _hostnames(rest: list[str]) -> None:
    text = rest[0] if rest else os.environ.get("SLURM_JOB_NODELIST", "")
    if not text:
        raise CommandError("scontrol: error: host list is empty")
    try:
        print("\n".join(expand(text)))
    except ValueError:
        raise CommandError(f"Invalid hostlist: {text}") from None


def _config(store: Store) -> list[tuple[str, str]]:
    settings = store.settings()
    return [
        ("AccountingStorageType", "accounting_storage/none"),
        ("AuthInfo", "ttl=10"),
        ("AuthType", "auth/none"),
        ("ClusterName", "local"),
        ("JobRequeue", "1"),
        ("KillWait", f"{settings.killwait} sec"),
        ("MessageTimeout", "10 sec"),
        ("MinJobAge", f"{settings.minjobage} sec"),
        ("SLURM_VERSION", "22.05.8"),
        ("SlurmctldHost[0]", here()),
    ]


def _jobs(store: Store, rest: list[str]) -> None:
    if not rest:
        for job in store.jobs(store.ids()):
            print(_oneline(job))
        return
    for word in rest:
        print(_oneline(_job(store, word, _UNKNOWN)))


def _job(store: Store, word: str, unknown: str) -> Job:
    job = store.job(int(word)) if word.isdigit() else None
    if job is None:
        raise CommandError(unknown)
    return job


def _oneline(job: Job) -> str:
    request, status = job.request, job.status
    limit = request.limit
    end = status.end or (status.start + limit if status.start and limit else 0.0)
    pairs = {
        "JobId": request.id,
        "JobName": request.name,
        "UserId": f"{request.user}({os.getuid()})",
        "Priority": 4294901760 - request.id,
        "Account": request.account or "(null)",
        "QOS": request.qos or "(null)",
        "JobState": status.state,
        "Reason": status.reason,
        "Dependency": request.dependency or "(null)",
        "Requeue": int(request.requeue),
        "Restarts": status.restarts,
        "BatchFlag": 1,
        "ExitCode": f"{status.exit}:{status.signal}",
        "RunTime": times.full(elapsed(job)),
        "TimeLimit": "UNLIMITED" if limit is None else times.full(limit),
        "SubmitTime": times.stamp(request.submitted),
        "EligibleTime": times.stamp(status.eligible, "Unknown"),
        "StartTime": times.stamp(status.start, "Unknown"),
        "EndTime": times.stamp(end, "Unknown"),
        "Partition": request.partition,
        "NodeList": compress(status.nodes),
        "BatchHost": compress(status.nodes[:1]),
        "NumNodes": request.nodes,
        "NumTasks": request.ntasks or request.nodes,
        "CPUs/Task": request.cpus_per_task or 1,
        "Command": request.command or "(null)",
        "WorkDir": request.directory,
        "Comment": request.comment,
        "StdErr": run.error(job),
        "StdIn": request.input or os.devnull,
        "StdOut": run.output(job),
    }
    if not request.comment:
        del pairs["Comment"]
    return " ".join(f"{name}={value}" for name, value in pairs.items())


def _requeue(store: Store, words: list[str]) -> None:
    for word in _ids(words):
        job = _job(store, word, f"Invalid job id specified for job {word}")
        if not job.request.requeue:
            raise CommandError(f"Requested operation is presently disabled for job {word}")
        if job.status.state == "PENDING":
            raise CommandError(f"Job is pending execution for job {word}")
        if not store.ask(int(word), {"do": "requeue"}):
            raise CommandError(f"Job/step already completing or completed for job {word}")


def _update(store: Store, words: list[str]) -> None:
    pairs = dict(word.partition("=")[::2] for word in words[1:])
    given = {name.lower(): value for name, value in pairs.items()}
    job, start = given.pop("jobid", ""), given.pop("starttime", "")
    if given or not job:
        what = next(iter(pairs), "")
        raise CommandError(f"Update of this parameter is not supported: {what}", "Request aborted")
    for word in job.split(","):
        _job(store, word, f"Invalid job id specified for job {word}")
        try:
            when = times.begin(start, time.time())
        except ValueError:
            raise CommandError(f"Invalid time specification (pos=0): {start}") from None
        store.ask(int(word), {"do": "start", "time": when})


def _hold(store: Store, words: list[str]) -> None:
    for word in _ids(words):
        _job(store, word, "slurm_suspend error: Invalid job id specified")
        store.ask(int(word), {"do": words[0].lower()})


def _ping(_: Store, __: list[str]) -> None:
    print(f"Slurmctld(primary) at {here()} is UP")


def _ids(words: list[str]) -> list[str]:
    found = [part for word in words[1:] for part in word.split(",") if part]
    if not found:
        raise CommandError(f"too few arguments for keyword:{words[0]}")
    return found
