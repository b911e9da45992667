"""A new profile, proved by a short job on two nodes, and its result written into the profile."""

from __future__ import annotations

import time
from pathlib import Path

from jobgen.app.benching import allreduce
from jobgen.app.world import World, replace_file
from jobgen.errors import Diagnostic, Invalid, Missing
from jobgen.model.units import format_size
from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines

SECONDS = 1.0
"""For each size of message, about: the job tests that it works, and measures in passing."""


class Proof(NamedTuple):
    """What a job on the cluster of a new profile showed."""

    run: str
    """The run's name."""
    ok: bool
    lines: tuple[str, ...]
    """What was shown, or what went wrong."""


def request_proof(like: Path | None) -> allreduce.AllreduceRequest:
    """The job: all-reduces between two nodes; ``like`` is a job whose setup brings torch."""
    return allreduce.AllreduceRequest(like=like, seconds=SECONDS)


def judge_proof(world: World, run: str) -> Proof:
    """What the ended job showed. Raises Unreachable."""
    try:
        judged = allreduce.read(world, run)
    except Missing as error:
        return Proof(run, ok=False, lines=(str(error),))
    bench, top = judged.bench, judged.top
    if bench.faulty:
        return Proof(run, ok=False, lines=("the all-reduce gave wrong results",))
    if not bench.ended or top is None:
        return Proof(run, ok=False, lines=("the job ended before its all-reduce did",))
    versions = ", ".join(f"{name} {version}" for name, version in bench.versions if version)
    hosts = tuple(dict.fromkeys(bench.hosts))
    ran = f"{len(hosts)} nodes ({', '.join(hosts)}) ran {bench.ranks} ranks in a shared directory"
    speed = f"{top.bus / 1e9:.3g} GB/s bus bandwidth at {format_size(top.bytes)}"
    reduced = f"all-reduce over {bench.backend}: correct, {speed} ({versions})"
    return Proof(run, ok=True, lines=(ran, reduced))


def write_proof(world: World, path: Path, proof: Proof) -> None:
    """Add the result to the comment at the top of the profile. Raises Invalid."""
    day = time.strftime("%Y-%m-%d", time.localtime(world.now()))
    first, *more = proof.lines
    comments = [f"# Tested {day} by {proof.run}: {_to_comment(first)};"]
    comments += [f"#   {_to_comment(line)}" for line in more]
    try:
        lines = split_lines(path.read_text("utf-8"))
        end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
        replace_file(path, "\n".join([*lines[:end], *comments, *lines[end:], ""]))
    except OSError as error:
        message = f"{world.format_path(path)} cannot be written: {error.strerror}"
        raise Invalid(Diagnostic("J418", message, hint="check its permissions")) from error


def _to_comment(text: str) -> str:
    """One line of ASCII: names of hosts are other people's words."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown.encode("ascii", "replace").decode()
