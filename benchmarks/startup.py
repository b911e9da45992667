"""CPU seconds of whole processes: jobgen's screens beside the peers' dry runs, in one run.

    python benchmarks/startup.py [--rounds N] [--peers DIR]

``--peers`` names the ``bin`` folder of an environment with ``torchx==0.7.0`` and ``slurmforge``
(``python -m venv peers && peers/bin/pip install torchx==0.7.0 slurmforge``). Rounds interleave: a
busy machine slows all rows alike; compare the ratios. Prints milliseconds of user+system time, the
least and the median, and the ratio to ``jobgen render``.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = "name: demo\nnodes: 2\ngpus_per_node: 8\ntime: 2h\nrun: train.py\n"


def cpu(words: list[str], folder: Path) -> float:
    """Seconds of user and system time of one child process; it must end well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(peers: Path | None, folder: Path) -> dict[str, list[str]]:
    """The commands to measure, by the name of their row."""
    here = str(Path(sys.executable).parent / "jobgen")
    table = {
        "bare python": [sys.executable, "-c", "pass"],
        "jobgen --help": [here, "--help"],
        "jobgen ls": [here, "ls"],
        "jobgen lint": [here, "lint", "job.yaml"],
        "jobgen plan": [here, "plan", "job.yaml", "-c", "a100x16"],
        "jobgen render": [here, "render", "job.yaml", "-c", "a100x16"],
    }
    if peers:
        torchx = [str(peers / "torchx"), "run", "-s", "slurm", "--dryrun", "dist.ddp"]
        table["torchx --dryrun"] = [*torchx, "-j", "2x8", "--gpu", "8", "--script", "train.py"]
        subprocess.run(
            [peers / "sforge", "init", "--template", "train-only", "--output", folder / "forge"],
            check=True,
            capture_output=True,
        )
        config = next((folder / "forge").glob("*.y*ml"))
        table["slurmforge train --dry-run"] = [
            str(peers / "sforge"), "train", "--config", str(config), "--dry-run",
        ]  # fmt: skip
    return table


def main() -> None:
    """Measure, and print one row a command."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=9)
    words.add_argument("--peers", type=Path)
    args = words.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.yaml").write_text(JOB)
        (folder / "train.py").write_text("print('hello')\n")
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        table = rows(args.peers, folder)
        times: dict[str, list[float]] = {row: [] for row in table}
        for _ in range(args.rounds):
            for row, command in table.items():
                times[row].append(cpu(command, folder) * 1000)
    base = min(times["jobgen render"])
    print(f"{'':28}{'least':>9}{'median':>9}{'to render':>11}")
    for row, found in times.items():
        least = min(found)
        print(f"{row:28}{least:7.0f}ms{statistics.median(found):7.0f}ms{least / base:10.2f}x")


if __name__ == "__main__":
    main()
