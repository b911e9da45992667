"""The digits example on the local cluster, through the front door: real launchers and training."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobgen.payload import localslurm
from jobgen.payload.localslurm import processes
from tests.cluster.texts import FOLDER_OF_PYTHON
from tests.e2e.runs import NOT_ASKED
from tests.e2e.runs import hold as wait_at_pause
from tests.examples.starts import NO_CACHE
from tests.ports import reserved_port
from tests.waiting import HANG, until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "digits-ddp"
NONCE = re.compile(r"^rank (\d)/4 on (local[12]) cpu nonce ([0-9a-f]{32})$", re.MULTILINE)
ACCURACY = re.compile(r"epoch +(\d+)  loss [\d.]+  test accuracy ([\d.]+)%")

pytestmark = pytest.mark.slow
TORCH = pytest.mark.train("torch", "sklearn")


@dataclass(frozen=True)
class User:
    """Somebody at this machine, with a home of their own."""

    home: Path

    def jobgen(self, *words: str, code: int | None = 0) -> str:
        """What jobgen prints to them."""
        done = subprocess.run(
            (sys.executable, "-m", "jobgen", *words),
            env={
                **os.environ,
                "HOME": str(self.home),
                "PYTHONPATH": f"{ROOT}:{FOLDER_OF_PYTHON}",
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def submit(self, file: str, *words: str, hold: str = "", code: int = 0) -> None:
        """Submit a variant of the example; it waits behind an epoch while ``hold`` is so."""
        folder = EXAMPLE
        if hold:
            folder = self.home / "example"
            shutil.copytree(EXAMPLE, folder)
            wait_at_pause(folder / "train.py", hold)
        words = (*words, "--set", "time=2h")
        self.jobgen("submit", str(folder / file), "-c", "local", *words, code=code)

    @property
    def runs(self) -> Path:
        """Where the run directories are."""
        return self.home / ".local" / "share" / "jobgen" / "runs"

    @property
    def run_directory(self) -> Path:
        """The only run directory."""
        (found,) = (p for p in self.runs.iterdir() if (p / "TOKEN").exists())
        return found

    def local(self, *words: str) -> str:
        """A command of the local cluster itself."""
        program = (sys.executable, "-I", localslurm.FOLDER, "--state", str(self.runs / ".local"))
        return subprocess.run((*program, *words), capture_output=True, text=True).stdout

    def carriers(self) -> list[int]:
        """Processes that carry the run's token."""
        token = (self.run_directory / "TOKEN").read_text().strip()
        return processes.carriers([f"JOBGEN_TOKEN={token}".encode()])

    def output(self, restart: int = 0) -> str:
        """All that all ranks printed."""
        folder = self.run_directory / "logs" / "0" / str(restart)
        return "".join(p.read_text() for p in sorted(folder.glob("local*.out")))

    def wait_for(self, text: str) -> None:
        """Wait until a rank has printed this."""
        until(lambda: text in self.output(), self.output)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """A user whose home has a difficult name; none of their processes is left afterwards."""
    home = tmp_path / "it's home"
    home.mkdir()
    someone = User(home)
    yield someone
    if someone.runs.exists():
        someone.local("scancel", "--me")


@TORCH
@pytest.mark.exhaustive
def test_the_digits_are_learned_on_two_nodes_and_every_rank_is_heard(user: User) -> None:
    """In make test: tests/docs/test_tutorial.py, and tests/e2e/test_same_job.py on a cluster."""
    said = user.jobgen("submit", str(EXAMPLE / "job.yaml"), "-c", "local", "--follow")
    assert "COMPLETED" in said
    seen = NONCE.findall(user.output())
    assert sorted((rank, node) for rank, node, _ in seen) == [
        ("0", "local1"), ("1", "local1"), ("2", "local2"), ("3", "local2"),
    ]  # fmt: skip
    nonces = {nonce for _, _, nonce in seen}
    assert len(nonces) == 4
    assert nonces <= set(re.findall(r"[0-9a-f]{32}", said))
    assert nonces <= set(re.findall(r"[0-9a-f]{32}", user.jobgen("logs", "@last")))
    assert float(ACCURACY.findall(said)[-1][1]) >= 96.0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "file",
    [
        pytest.param("job.srun.yaml", marks=TORCH),
        pytest.param("job.static.yaml", marks=TORCH),
        pytest.param("job.elastic.yaml", marks=TORCH),
        pytest.param("job.deepspeed.yaml", marks=pytest.mark.train("torch", "deepspeed")),
        pytest.param("job.accelerate.yaml", marks=pytest.mark.train("torch", "accelerate")),
    ],
)
def test_the_same_program_learns_as_well_under_every_launcher(user: User, file: str) -> None:
    """On a cluster: tests/e2e/test_launchers.py and test_strategies.py."""
    user.submit(file, "--wait")
    seen = NONCE.findall(user.output())
    assert sorted(rank for rank, _, _ in seen) == ["0", "1", "2", "3"]
    assert float(ACCURACY.findall(user.output())[-1][1]) >= 96.0


@TORCH
@pytest.mark.exhaustive
def test_a_rank_that_fails_fails_the_job(user: User) -> None:
    """In make test: tests/docs/test_tutorial.py, and tests/e2e/test_ends.py on a cluster."""
    user.submit("job.yaml", "--set", "run=train.py --fail-rank 3", "--wait", code=1)
    assert '"FAILED"' in user.jobgen("show", "@last", "--json"), "not at its time limit"
    assert "fails, as --fail-rank asks" in user.jobgen("logs", "@last", "--stderr")
    assert user.carriers() == []


@TORCH
@pytest.mark.exhaustive
def test_after_cancel_no_process_carries_the_token(user: User) -> None:
    """In make test: as the test before this one."""
    user.submit("job.yaml", "--set", "run=train.py --epochs 500 --pause 1")
    user.wait_for("epoch  1")
    assert len(user.carriers()) >= 4
    user.jobgen("cancel", "@last", "-y")
    user.jobgen("wait", "@last", code=1)
    assert user.carriers() == []
    assert "CANCELLED" in user.jobgen("ls")


RANK_A_NODE = ("--set", "procs_per_node=1")
"""As few ranks as have to meet: most of a short job is the import of torch."""
SMALL = ("--set", "run=train.py --epochs 4", *RANK_A_NODE)


@TORCH
@pytest.mark.exhaustive
def test_a_warned_job_saves_goes_back_to_the_queue_and_finishes(user: User) -> None:
    """In make test: tests/e2e/test_ends.py, at the time limit of a cluster."""
    asked = f"state.epoch >= 2 and {NOT_ASKED}"
    user.submit("job.requeue.yaml", *SMALL, "--set", "launcher=srun", hold=asked)
    user.wait_for("epoch  2")
    (job,) = re.findall(r"\d+", (user.run_directory / "submit" / "jobid").read_text())
    # what Slurm does some time before the limit
    user.local("scancel", "--batch", "--signal=USR1", job)
    user.jobgen("wait", "@last")
    first, second = user.output(0), user.output(1)
    assert "asked to stop: saved at epoch" in first
    assert "going on from epoch" in second
    epochs = [int(epoch) for epoch, _ in ACCURACY.findall(first) + ACCURACY.findall(second)]
    assert epochs == [1, 2, 3, 4]
    assert json.loads(user.jobgen("show", "@last", "--json"))


@TORCH
@pytest.mark.exhaustive
def test_an_elastic_job_goes_on_from_its_checkpoint_when_a_rank_is_killed(user: User) -> None:
    """In make test: tests/e2e/test_elastic.py, where a whole node is lost."""
    # the second start begins behind this place
    user.submit("job.elastic.yaml", *SMALL, hold="state.epoch == 2")
    user.wait_for("epoch  2")
    # the rendezvous says which of the two nodes comes first
    (last,) = (user.run_directory / "state" / "0" / "pids").glob("local[12].1")
    os.kill(int(last.read_text()), signal.SIGKILL)
    user.jobgen("wait", "@last")
    assert "going on from epoch" in user.output()
    assert {int(epoch) for epoch, _ in ACCURACY.findall(user.output())} == {1, 2, 3, 4}


@TORCH
def test_the_program_runs_alone_too(tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    done = subprocess.run(
        (sys.executable, str(EXAMPLE / "train.py"), "--epochs", "4"),
        env={**clean, "JOBGEN_CHECKPOINT_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(ACCURACY.findall(done.stdout)[-1][1]) >= 96.0
    assert [p.name for p in tmp_path.iterdir()] == ["digits.pt"]


SLURM_ONLY = {"job.packed.yaml", "job.pdsh.yaml", "job.sweep.yaml"}


def test_every_job_file_of_the_example_renders_where_it_can_run(user: User) -> None:
    files = sorted(p.name for p in EXAMPLE.glob("job*.yaml"))
    assert files
    for file in files:
        for cluster in ("local", "a100x16"):
            if cluster == "local" and file in SLURM_ONLY:
                continue  # simulated nodes are no ssh hosts, and have no job arrays
            assert user.jobgen("render", str(EXAMPLE / file), "-c", cluster).startswith("#!")


ENDS = """
import os, sys
import train
train.main(["--epochs=1"])
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print("left", sum("gloo" in name for name in names))
"""


@TORCH
def test_no_thread_of_the_process_group_outlives_it() -> None:
    """One that frees a tensor while Python ends would abort a training that went well."""
    with reserved_port() as port:
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", ENDS],
                env={**os.environ, **NO_CACHE, **meet, "RANK": rank, "LOCAL_RANK": rank},
                cwd=EXAMPLE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in ("0", "1")
        ]
        said = [rank.communicate(timeout=HANG)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert [text.splitlines()[-1] for text in said] == ["left 0"] * 2
