"""CPU seconds of whole processes: jobgen's screens beside the peers' dry runs, in one run.

    python benchmarks/startup.py [--rounds N] [--peers DIR]

``--peers`` names the ``bin`` folder of an environment with the packages of requirements/peers.txt;
``make bench`` makes one in .venv-peers. torchx and slurmforge have a dry run; submitit and
simple_slurm are libraries, so a small program makes the same job's script with each and submits
nothing. Rounds interleave: a busy machine slows all rows alike; compare the ratios. Prints
milliseconds of user+system time, the least and the median, and the ratio to ``jobgen render``.
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

from comparisons import Comparison, add_option, leave_out, report

PEERS = Path(__file__).resolve().parents[1] / ".venv-peers" / "bin"
LIBRARIES = ("simple_slurm", "submitit")
PYTHON = "bare python"
WHAT = "2 nodes of 8 GPUs"
RENDER = Comparison(
    "`jobgen render`, CPU time",
    WHAT,
    ("simple_slurm", "submitit", "slurmforge train --dry-run", "torchx --dryrun", PYTHON),
    "ms",
)
HELP = Comparison("`jobgen --help`, CPU time", "", (*LIBRARIES, PYTHON), "ms")
COMPARISONS = (RENDER, HELP)

JOB = "name: demo\nnodes: 2\ngpus_per_node: 8\ntime: 2h\nrun: train.py\n"
SIMPLE_SLURM = """\
from simple_slurm import Slurm

slurm = Slurm(job_name="demo", nodes=2, ntasks_per_node=8, gpus_per_node=8, time="2:00:00")
slurm.add_cmd("srun python train.py")
print(slurm)
"""
SUBMITIT = """\
from pathlib import Path

from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import SlurmExecutor

from train import train

SlurmExecutor.affinity = classmethod(lambda cls: 2)  # it would look for srun
executor = SlurmExecutor("logs")
executor.update_parameters(
    job_name="demo", nodes=2, ntasks_per_node=8, gpus_per_node=8, time=120
)
job = DelayedSubmission(train)
job.set_timeout(120, executor.max_num_timeout)
executor.folder.mkdir(exist_ok=True)
job.dump(executor.folder / "job.pkl")
text = executor._make_submission_file_text(executor._submitit_command_str, "job")
(executor.folder / "job.sh").write_text(text)
print(text)
"""


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
        for library, program in zip(LIBRARIES, (SIMPLE_SLURM, SUBMITIT), strict=True):
            (folder / f"by_{library}.py").write_text(program)
            table[library] = [str(peers / "python"), f"by_{library}.py"]
    return table


def main() -> None:
    """Measure, and print one row a command."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rounds", type=int, default=9)
    words.add_argument("--peers", type=Path, default=PEERS if PEERS.exists() else None)
    add_option(words)
    args = words.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.yaml").write_text(JOB)
        (folder / "train.py").write_text("def train():\n    print('hello')\n")
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        table = rows(args.peers, folder)
        times: dict[str, list[float]] = {row: [] for row in table}
        for command in table.values():
            cpu(command, folder)  # not counted: the first run may write byte code
        for _ in range(args.rounds):
            for row, command in table.items():
                times[row].append(cpu(command, folder) * 1000)
    base = min(times["jobgen render"])
    print(f"{'':28}{'least':>9}{'median':>9}{'to render':>11}")
    for row, found in times.items():
        least = min(found)
        print(f"{row:28}{least:7.0f}ms{statistics.median(found):7.0f}ms{least / base:10.2f}x")
    least_of = {row: min(found) for row, found in times.items()}
    for ours, comparison in {"jobgen render": RENDER, "jobgen --help": HELP}.items():
        report(
            comparison,
            least_of[ours],
            {peer: least_of[peer] for peer in comparison.peers if peer in least_of},
        )
        missing = [peer for peer in comparison.peers if peer not in least_of]
        leave_out([comparison], "no .venv-peers: `make bench` installs it", missing)


if __name__ == "__main__":
    main()
