"""A rendezvous that cannot succeed: fewer ranks or nodes were started than are waited for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.log_lines import ProcessLog
from jobgen.model.cause import Doubt, FailureCause

_JOINED = re.compile(r"(?P<joined>\d+)/(?P<world>\d+) clients joined")
_FEWER = re.compile(r"srun: [Ww]arning: can't run \d+ processes on (?P<asked>\d+) nodes")
_PORT = re.compile(
    r"trying to connect to \(\S+, (\d+)\)|connect/validate to host \S+:(\d+) "
    r"|waitForInput: socket SocketImpl\(.* remote=\S+:(\d+)\) timed out"
)
"""The port of the store that a rank tries to reach, or has reached."""
_AGENT = "torch/distributed/elastic"
"""torchrun has a store of its own, on another port than its ranks."""


def add_never_started(
    cause: FailureCause, evidence: Evidence, streams: Sequence[ProcessLog]
) -> FailureCause:
    """The cause of a failed rendezvous with what the job can never satisfy, if that is known."""
    if cause.kind != "rendezvous":
        return cause
    says = _compare_nodes(evidence, streams) or _compare_ranks(evidence, streams)
    if says:
        return cause._replace(says=says, retry="no", doubt=Doubt.VICTIM, other="")
    if says := _compare_ports(streams):
        return cause._replace(says=says, retry="no")
    return cause


def _compare_nodes(evidence: Evidence, streams: Iterable[ProcessLog]) -> str:
    if match := _search(_FEWER, streams):
        return f"srun was to use {match['asked']} nodes, and the job has fewer"
    if evidence.unused:
        return f"srun started the step on {evidence.unused}"
    return ""


def _compare_ranks(evidence: Evidence, streams: Iterable[ProcessLog]) -> str:
    """Whether every task that Slurm started joined, and still some are waited for."""
    match = _search(_JOINED, streams)
    if match is None or not 0 < evidence.tasks <= int(match["joined"]) < int(match["world"]):
        return ""
    return f"the world size is {match['world']}, and Slurm started {evidence.tasks} tasks"


def _compare_ports(streams: Sequence[ProcessLog]) -> str:
    if any(_AGENT in line.text for stream in streams for line in stream.lines):
        return ""
    ports = {
        next(filter(None, match.groups()))
        for stream in streams
        if stream.known
        for match in (_PORT.search(line.text) for line in stream.lines)
        if match
    }
    return f"ranks use different ports: {', '.join(sorted(ports))}" if len(ports) > 1 else ""


def _search(pattern: re.Pattern[str], streams: Iterable[ProcessLog]) -> re.Match[str] | None:
    lines = (line.text for stream in streams for line in stream.lines)
    return next((match for match in map(pattern.search, lines) if match), None)
