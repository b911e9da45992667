"""A run directory and stand-ins for srun and scontrol, to run the real job.sbatch in."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.events import Event, read_events
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, job, plan
from tests.waiting import HANG, until

SCONTROL = """#!/bin/bash
case "$1 $2" in
    "show hostnames")
        [[ $3 == "$SLURM_JOB_NODELIST" ]] || FAKE_HOSTS=${3//,/ }
        printf '%s\\n' $FAKE_HOSTS
        ;;
    "show job") echo "JobId=$4 $([[ -e $FAKE_DIR/begun.$4 ]] || echo JobState=RUNNING)" \
        "ExcNodeList=${FAKE_EXCLUDED:-(null)} BatchHost=n1" ;;
    "update "*) echo "$3" >>"$FAKE_DIR/updated" ;;
    "requeue "*) echo "$2" >>"$FAKE_DIR/requeued"; [[ -z ${FAKE_NO_REQUEUE:-} ]] ;;
esac
"""
SRUN = """#!/bin/bash
# srun: every task at once; a signal reaches every process of the step, the first bad exit ends the
# others, and the largest exit code is the answer
printf '%s\\n' "$*" >>"$FAKE_DIR/srun"
[[ $* == *preflight* ]] || touch "$FAKE_DIR/begun.$SLURM_JOB_ID"
while [[ $1 == -* ]]; do
    case $1 in
        --ntasks=*) ntasks=${1#*=} ;;
        --ntasks-per-node=*) each=${1#*=} ;;
        --kill-on-bad-exit=*) kill=${1#*=} ;;
    esac
    shift
done
hosts=($FAKE_HOSTS) tasks=() rc=0
ends=$(mktemp -u) && mkfifo "$ends" && exec {told}<>"$ends" && rm "$ends"
for ((task = 0; task < ntasks; task++)); do
    export SLURM_NTASKS=$ntasks SLURM_PROCID=$task SLURM_LOCALID=$((task % each))
    export SLURM_NODEID=$((task / each)) SLURMD_NODENAME=${hosts[task / each]}
    (trap : TERM; "$@"; printf '%s\\n' "$?" >&"$told") &
    tasks+=("$!")
done
below() {
    local pid
    for pid; do
        below $(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
        printf '%s ' "$pid"
    done
}
end() { kill -TERM $(below "${tasks[@]}") 2>/dev/null; }
trap end TERM
for ((left = ntasks; left > 0; left--)); do
    until read -r code <&"$told"; do :; done
    ((code <= rc)) || rc=$code
    if ((code && kill)); then kill=0 && end; fi
done
rm -f "$FAKE_DIR/begun.$SLURM_JOB_ID" # another step may follow
exit "$rc"
"""


@dataclass
class Job:
    """One run directory, its script, and the allocation that Slurm would give."""

    folder: Path
    token: str = "t" * 26
    hosts: tuple[str, ...] = ("n1", "n2")
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls, folder: Path, program: str, *, cluster: str = CPUS, token: bool = True, **keys: str
    ) -> Job:
        """The bundle of a job whose program is this bash, two ranks on two nodes by srun.

        Without ``token``: as a person starts it who keeps the files.
        """
        # these hosts are names only, which a preflight would notice
        words = {"launcher": "srun", "run": "./program", "preflight": "off", **keys}
        bundle = render(plan(job(**words), cluster), templates())
        made = cls(folder)
        (folder / "fake").mkdir(parents=True)
        for name, text in (("scontrol", SCONTROL), ("srun", SRUN)):
            (folder / "fake" / name).write_text(text)
            (folder / "fake" / name).chmod(0o755)
        files, source = (folder / "bundle", folder / "src") if token else (folder, folder)
        for place in {files, source, folder / "logs", made.tmp}:
            place.mkdir(exist_ok=True)
        for file in bundle.files:
            (files / file.path).parent.mkdir(exist_ok=True)
            (files / file.path).write_bytes(file.content)
        if token:
            (folder / "TOKEN").write_text(made.token + "\n")
        (source / "program").write_text("#!/bin/bash\n" + program)
        (source / "program").chmod(0o755)
        return made

    @property
    def tmp(self) -> Path:
        """The disk that each node has for itself; here all nodes share one."""
        return self.folder / "tmp"

    @property
    def script(self) -> Path:
        folder = self.folder / "bundle"
        return (folder if folder.is_dir() else self.folder) / "job.sbatch"

    def words(self) -> list[str]:
        """The command that Slurm starts: with the digest of bundle/ where jobgen submitted it."""
        return ["bash", str(self.script), *filter(None, [self.digest()])]

    def digest(self) -> str:
        """The digest of bundle/ as it is now; empty where the files lie as a person keeps them."""
        bundle = self.folder / "bundle"
        paths = [path for path in bundle.rglob("*") if path.is_file()]
        files = (BundleFile(str(p.relative_to(bundle)), p.read_bytes()) for p in paths)
        return Bundle(tuple(files)).digest if paths else ""

    def environment(self, number: int, restart: int) -> Mapping[str, str]:
        return {
            "PATH": f"{self.folder / 'fake'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "USER": "ann",
            "TMPDIR": str(self.tmp),
            "SLURM_JOB_ID": str(number),
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURM_NNODES": str(len(self.hosts)),
            "SLURM_JOB_CPUS_PER_NODE": f"64(x{len(self.hosts)})",
            "SLURMD_NODENAME": self.hosts[0],
            "FAKE_HOSTS": " ".join(self.hosts),
            "FAKE_DIR": str(self.folder),
            **({"SLURM_RESTART_COUNT": str(restart)} if restart else {}),
            **self.env,
        }

    def start(self, number: int = 7, restart: int = 0) -> subprocess.Popen[str]:
        """The batch shell, started as slurmd would."""
        (self.folder / f"begun.{number}").unlink(missing_ok=True)
        return subprocess.Popen(
            # a background job's children inherit that SIGINT is ignored; slurmd's do not
            ["env", "--default-signal", *self.words()],
            cwd=self.folder,
            env=self.environment(number, restart),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, number: int = 7, restart: int = 0) -> subprocess.CompletedProcess[str]:
        """The batch shell, to its end."""
        process = self.start(number, restart)
        try:
            out, err = process.communicate(timeout=HANG)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def state(self, name: str, task: str = "0") -> Path:
        return self.folder / "state" / task / name

    def marker(self, restart: int = 0) -> dict[str, str]:
        """The exit marker, as ``observing`` reads it."""
        lines = self.state(f"exit.{restart}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def events(self, restart: int = 0) -> tuple[Event, ...]:
        """What the ranks and the batch shell recorded of one start."""
        files = sorted(self.state("events").glob(f"{restart}.*"))
        return read_events("".join(path.read_text() for path in files))

    def ran(self) -> int:
        """How often the program was started: each rank 0 leaves a line."""
        path = self.folder / "ran"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait_for(self, path: Path) -> None:
        until(path.exists, str(path), pause=0.02)
