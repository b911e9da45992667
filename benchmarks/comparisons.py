"""The comparisons that the benchmarks make, and how each result is reported.

Each benchmark lists its comparisons as ``COMPARISONS`` and reports every result of them once.
``scripts/benchmarks`` runs a benchmark with ``--rows``: the results are printed as JSON lines too,
and become one table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

FAST = "aes128-gcm@openssh.com"
"""The cipher that jobgen prefers; the programs beside it get it too."""
ITSELF = "itself at the smallest size"


class Comparison(NamedTuple):
    """What is measured, how much of it, and what is measured beside jobgen."""

    what: str
    size: str
    peers: tuple[str, ...]
    unit: str = "s"


class Result(NamedTuple):
    """jobgen beside one peer: two figures of one unit, or the reason why there are none."""

    what: str
    size: str
    peer: str
    unit: str = "s"
    jobgen: float = 0.0
    beside: float = 0.0
    exponent: float | None = None
    left_out: str = ""


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option ``--rows``, and an environment in which byte code is kept on both sides."""
    # pip has compiled the peers; jobgen would be compiled anew in each process
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser.add_argument("--rows", action="store_true", help="print results as JSON lines too")


def report(
    comparison: Comparison,
    jobgen: float,
    beside: Mapping[str, float],
    *,
    exponent: float | None = None,
) -> None:
    """Print the results of a comparison as JSON lines, where ``--rows`` was given."""
    assert set(beside) <= set(comparison.peers), beside
    what, size, _, unit = comparison
    for peer, figure in beside.items():
        _print(Result(what, size, peer, unit, jobgen, figure, exponent))


def leave_out(
    comparisons: Sequence[Comparison], reason: str, peers: Sequence[str] | None = None
) -> None:
    """Report why comparisons, or these peers in them, are not measured here."""
    for what, size, all_peers, unit in comparisons:
        for peer in all_peers:
            if peers is None or peer in peers:
                _print(Result(what, size, peer, unit, left_out=reason))


def _print(result: Result) -> None:
    if "--rows" in sys.argv:
        print(json.dumps(result._asdict()), flush=True)


@contextmanager
def live_master(config: Path, host: str) -> Iterator[Path]:
    """An ssh configuration whose connections to a host go through one that is already up."""
    live = config.with_name("live_config")
    live.write_text(f"ControlPath {config.with_name('master')}\n{config.read_text()}")
    words = ["ssh", "-F", str(live), "-c", FAST]
    # it stays in the background: no reader of our streams waits for its end
    closed = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.run([*words, "-M", "-f", "-N", host], check=True, **closed)
    try:
        yield live
    finally:
        subprocess.run([*words, "-O", "exit", host], capture_output=True)
