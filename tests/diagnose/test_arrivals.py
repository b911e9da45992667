"""A rendezvous that the job's own settings make impossible will fail again."""

from __future__ import annotations

import json

from jobgen.diagnose import LogText, find_cause
from jobgen.diagnose.folders import build_evidence
from jobgen.model.cause import FailureCause

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    go()\n'
TIMEOUT = f"{TRACE}torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
CLIENT = (
    "{rank}: [E1125 04:55:16.77 TCPStore.cpp:328] [c10d] TCP client failed to connect/validate to"
    " host n1:{port} - timed out (try=1, timeout=10000ms): The client socket has timed out after"
    " 10000ms while trying to connect to (n1, {port}).\n"
)


def read(text: str, *, tasks: int = 2, step: str = "n[1-2]") -> FailureCause:
    """The cause by one log and by what Slurm tells of the job."""
    sacct = f"JobID|State|NodeList\n6|FAILED|n[1-2]\n6.batch|FAILED|n1\n6.0|FAILED|{step}"
    facts = {"job": f"JobState=FAILED NumTasks={tasks} CPUs/Task=1", "sacct": sacct}
    files = (LogText("slurm-6.out", text), LogText("scheduler.json", json.dumps(facts)))
    cause = find_cause(build_evidence(files))
    assert cause is not None
    return cause


def wait_for(joined: int, world: int) -> str:
    """The error of the rank that waited for all."""
    error = "torch.distributed.DistStoreError: Timed out after 11 seconds waiting for clients. "
    return f"{TRACE}{error}{joined}/{world} clients joined.\n"


def test_a_rendezvous_that_somebody_missed_may_succeed_next_time() -> None:
    assert (read(TIMEOUT).kind, read(TIMEOUT).retry) == ("rendezvous", "yes")
    assert read(wait_for(3, 4), tasks=4).retry == "yes"


def test_a_step_on_fewer_nodes_than_the_job_has_never_meets() -> None:
    cause = read(TIMEOUT, step="n1")
    assert (cause.kind, cause.retry) == ("rendezvous", "no")
    assert cause.says == "srun started the step on n1, and the job has n[1-2]"


def test_more_nodes_than_the_job_has_never_meet() -> None:
    warning = "srun: Warning: can't run 2 processes on 4 nodes, setting nnodes to 2\n"
    assert read(warning + TIMEOUT).retry == "no"


def test_more_ranks_than_tasks_never_meet() -> None:
    cause = read(wait_for(4, 6), tasks=4)
    assert (cause.retry, cause.bad_rank) == ("no", None)
    assert cause.says == "the world size is 6, and Slurm started 4 tasks"


def test_ranks_that_use_different_ports_never_meet() -> None:
    lines = CLIENT.format(rank=2, port=29501) * 4 + CLIENT.format(rank=3, port=29500) * 4
    cause = read(lines)
    assert (cause.retry, cause.says) == ("no", "ranks use different ports: 29500, 29501")
    assert read(lines.replace("29501", "29500")).retry == "yes"


def test_a_node_without_a_route_is_told_from_a_server_that_is_not_up_yet() -> None:
    line = "[W1125 09:13:40.95 socket.cpp:764] [c10d] The client socket has failed to connect to "
    unreachable = f"{line}n3:29500 (errno: 101 - Network is unreachable).\n"
    cause = read(unreachable + TIMEOUT)
    assert (cause.kind, cause.retry) == ("connection_refused", "other_nodes")
    refused = unreachable.replace("101 - Network is unreachable", "111 - Connection refused")
    assert read(refused + TIMEOUT).retry == "yes"
