"""How programs save when their job is asked to stop, and resume: frameworks, signals, SIGTERM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.e2e.runs import LAUNCHERS, Run, submit, write
from tests.products import one_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

STOP = {"grace": "30m", "requeue": True}
JOB: Mapping[str, Any] = {"run": "main.py", "nodes": 2, "time": "2h", "preflight": "off"}

TRAINER = """
import os
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser
from transformers import Trainer, TrainerCallback, TrainingArguments

class Watch(TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        self.first = state.global_step
        print("begins at", state.global_step, flush=True)
    def on_step_end(self, args, state, control, **_):
        if os.environ["JOBGEN_RESTART"] != "0" and state.global_step >= self.first + 3:
            control.should_training_stop = True

if __name__ == "__main__":
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    sizes = {"n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, **sizes))
    data = [{"input_ids": [i % 16] * 8, "labels": [i % 16] * 8} for i in range(64)]
    Trainer(model, args, train_dataset=data, callbacks=[Watch()]).train()
    print("trained", flush=True)
    part()
"""
LIGHTNING = """
import os
from lightning.pytorch import Callback
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringModel

class Watch(Callback):
    def on_train_start(self, trainer, module):
        self.first = trainer.global_step
        print("begins at", trainer.global_step, flush=True)
    def on_train_batch_end(self, trainer, *_):
        if os.environ["JOBGEN_RESTART"] != "0" and trainer.global_step >= self.first + 3:
            trainer.should_stop = True

if __name__ == "__main__":
    quiet = {"logger": False, "enable_progress_bar": False, "max_epochs": -1}
    LightningCLI(BoringModel, save_config_callback=None,
                 trainer_defaults={**quiet, "callbacks": [Watch()]})
    print("trained", flush=True)
    part()
"""
"""Programs as people write them: nothing of jobgen's is in them but the end of the second start."""

PART = """
import os, sys
import torch.distributed as dist

def part():
    # frameworks keep the group, and so gloo's threads: Python aborts if one frees a tensor late
    if dist.is_initialized():
        dist.barrier()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
"""
FRAMEWORKS = {
    "hf-trainer": (
        PART + TRAINER,
        "main.py --output_dir out --max_steps 1000000 --report_to none --save_strategy no",
        "torchrun",
        r"saved out/checkpoint-(\d+)",
    ),
    "lightning": (PART + LIGHTNING, "main.py fit", "srun", r"saved \S+/hpc_ckpt_(\d+)\.ckpt"),
}


def requeue(cluster: Cluster, run: Run) -> None:
    """Wait until the job is back in the queue, and let it start again at once."""
    until(lambda: cluster.job(run.job).get("Restarts") == "1", run.story)
    cluster.start_now(run.job)


def words(run: Run, restart: int, stream: str = "out") -> str:
    """What rank 0 printed in one start of the job."""
    return run.ranks(restart, stream).get(0, b"").decode()


def training(cluster: Cluster, folder: Path, framework: str, **keys: Any) -> Run:
    """A training of two ranks that lasts until it is asked to stop, in its first steps."""
    text, command, launcher, _ = FRAMEWORKS[framework]
    (folder / "main.py").write_text(text)
    train = {"framework": framework, "strategy": "ddp", "precision": "fp32"}
    job = {**JOB, "name": "saves", "run": command, "launcher": launcher, "procs_per_node": 1}
    run = submit(cluster, write(folder, {**job, "checkpoint": STOP, "train": train, **keys}))
    until(lambda: "begins at 0" in words(run, 0), run.story)
    return run


@pytest.mark.train("torch", "transformers", "lightning", "accelerate")
@pytest.mark.parametrize("framework", one_of_each(FRAMEWORKS, ["hf-trainer"]))
def test_a_frameworks_program_saves_and_resumes_without_a_line_of_its_own(
    cluster: Cluster, tmp_path: Path, framework: str
) -> None:
    run = training(cluster, tmp_path, framework)
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    requeue(cluster, run)
    assert run.wait() == 0, run.story()
    assert "trained" not in words(run, 0), "nothing of an unfinished training is used"
    first = re.search(FRAMEWORKS[framework][-1], words(run, 0, "err"))
    resumed = re.search(r"begins at (\d+)", words(run, 1))
    assert first is not None, run.story()
    assert resumed is not None, run.story()
    assert resumed.groups() == first.groups(), "it resumes where it stopped"
    assert "trained" in words(run, 1)
    assert (run.show()["state"], run.show()["restarts"]) == ("COMPLETED", 1)


HANDLES = """
import os, signal, sys, time
from pathlib import Path
here = Path(os.environ["JOBGEN_RUN_DIR"])
rank = os.environ.get("JOBGEN_NODE_RANK") or os.environ["RANK"]
if os.environ["JOBGEN_RESTART"] != "0":
    sys.exit()
came, name = [], sys.argv[1]
def note(number, _):
    came.append(signal.Signals(number).name)
    (here / f"came.{rank}.{os.getpid()}").write_text(" ".join(came))
(here / f"up.{rank}").touch()
while not (here / "handle").exists():
    time.sleep(0.05)
signal.signal(getattr(signal, name), note)
worker = os.fork()
(here / f"ready.{rank}").touch()
while not came:
    time.sleep(0.05)
for _ in range(40):  # a second signal would come by now
    time.sleep(0.05)
os.kill(worker, signal.SIGKILL)
print("saved at", *came, flush=True)
"""
"""It handles the signal late, as one that imports its libraries first, and has a worker."""
ALL: Mapping[str, Any] = {**LAUNCHERS, "plain": "plain"}
RUNS = {
    "one command": "main.py SIGUSR1",
    "several": "export X=1\npython main.py SIGUSR1 | cat\n",
}


@pytest.mark.train("torch", "deepspeed", "accelerate")
@pytest.mark.parametrize("launcher", one_of_each(ALL, ["torchrun c10d"]))
@pytest.mark.parametrize("text", one_of_each(RUNS, ["several"]))
def test_each_ranks_program_gets_the_signal_once(
    cluster: Cluster, tmp_path: Path, launcher: str, text: str
) -> None:
    (tmp_path / "main.py").write_text(HANDLES)
    job = {**JOB, "name": "handles", "run": RUNS[text], "launcher": ALL[launcher]}
    stop = {**STOP, "to": "ranks"}
    size, profile = {"procs_per_node": 2}, cluster.profile()
    if launcher == "torchrun c10d":  # the step beside the program leaves the GPUs to it
        nodes = {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB"}
        size, profile = {"gpus_per_node": 2}, cluster.profile(procs_per_node=None, nodes=nodes)
    run = submit(cluster, write(tmp_path, {**job, **size, "checkpoint": stop}), profile)
    count = 2 if launcher == "plain" else 4
    until(lambda: len([*run.directory.glob("up.*")]) == count, run.story)
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    until(lambda: (run.directory / "state/0/stop").exists(), run.story)
    (run.directory / "handle").touch()
    requeue(cluster, run)
    assert run.wait() == 0, run.story()
    came = sorted(run.directory.glob("came.*"))
    assert [(file.suffixes[0], file.read_text()) for file in came] == [
        (f".{rank}", "SIGUSR1") for rank in range(count)
    ], run.story()
    assert (run.show()["state"], run.show()["restarts"]) == ("COMPLETED", 1)


@pytest.mark.exhaustive
def test_a_program_that_ignores_the_signal_is_not_killed_by_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    program = LOOKS.replace("stop = ", "stop = here / 'end' #")
    (tmp_path / "main.py").write_text(program.removesuffix(STOPPED))
    job = {**JOB, "name": "ignores", "nodes": 1, "procs_per_node": 2, "launcher": "srun"}
    stop = {"grace": "30m", "to": "ranks"}
    run = submit(cluster, write(tmp_path, {**job, "checkpoint": stop}))
    until(lambda: len([*run.directory.glob("up.*")]) == 2, run.story)
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    until(lambda: "handles SIGUSR1 yet: not sent" in run.story(), run.story)
    (run.directory / "end").touch()
    assert run.wait() == 0, run.story()


LOOKS = """
import os, sys, time
from pathlib import Path
here = Path(os.environ["JOBGEN_RUN_DIR"])
stop = Path(os.environ["JOBGEN_STOP_FILE"])
if os.environ["JOBGEN_RESTART"] != "0":
    sys.exit()
(here / f"up.{os.environ['RANK']}").touch()
while not stop.exists():
    time.sleep(0.05)
print("saved", flush=True)
"""
STOPPED = 'Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()\n'
LOOKS += STOPPED


def looking(cluster: Cluster, folder: Path, **keys: Any) -> Run:
    """A job whose ranks look for the stop file, all of them up."""
    (folder / "main.py").write_text(LOOKS)
    job = {**JOB, "name": "looks", "launcher": "srun", "procs_per_node": 1, "checkpoint": STOP}
    run = submit(cluster, write(folder, {**job, **keys}))
    until(lambda: len([*run.directory.glob("up.*")]) == 2, run.story)
    return run


def test_sigterm_to_a_job_that_runs_on_saves_and_requeues_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """As preemption with a grace, or a colleague's scancel --signal."""
    run = looking(cluster, tmp_path)
    cluster.slurm("scancel", "--batch", "--signal=TERM", run.job)
    requeue(cluster, run)
    assert run.wait() == 0, run.story()
    assert words(run, 0) == "saved\n"
    assert (run.show()["state"], run.show()["restarts"]) == ("COMPLETED", 1)


def test_the_last_start_that_stops_before_its_end_fails(cluster: Cluster, tmp_path: Path) -> None:
    run = looking(cluster, tmp_path, checkpoint={**STOP, "max_requeues": 0})
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    assert run.wait() == 1, "`jobgen wait && next` must not use a half-trained model"
    assert words(run, 0) == "saved\n"
    shown = run.show()
    assert (shown["state"], shown["exit"], shown["restarts"]) == ("FAILED", "98:0", 0)
    assert shown["reason"] == "stopped by the pre-timeout signal, no requeue left"
    assert cluster.job(run.job)["ExitCode"] == "98:0"
    assert "jobgen submit" in run.jobgen("wait").stdout


def test_a_cancelled_job_is_neither_asked_to_save_nor_requeued(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = looking(cluster, tmp_path)
    assert run.jobgen("cancel").returncode == 0
    assert run.wait() == 1, run.story()
    assert (run.show()["state"], run.show()["restarts"]) == ("CANCELLED", 0)
    assert not (run.directory / "state/0/stop").exists()


GRACE = 60
"""Seconds that the preempted job below gets; the other waits for them."""
PREEMPTS = (
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    f"PartitionName=low Nodes=n[1-2] PriorityTier=1 PreemptMode=REQUEUE GraceTime={GRACE}",
    "PartitionName=high Nodes=n[1-2] PriorityTier=9 PreemptMode=OFF",
)
HIGH = "#!/bin/bash\n#SBATCH --partition=high --nodes=2 --exclusive --output=/dev/null\nsleep 1\n"


def preempted(cluster: Cluster, run: Run) -> None:
    """Let another job take the nodes, and the run have them again."""
    other = cluster.sbatch(HIGH)
    until(lambda: cluster.job(run.job).get("Restarts") == "1", run.story)
    cluster.wait_state(other)
    cluster.start_now(run.job)


@pytest.mark.exhaustive
@pytest.mark.parametrize("told", ["batch shell", "ranks"])
def test_preemption_with_a_grace_saves_and_resumes(tmp_path: Path, told: str) -> None:
    """Slurm sends SIGTERM to the steps; with preempt_send_user_signal the batch shell gets USR1."""
    asks = ("SlurmctldParameters=preempt_send_user_signal",) if told == "batch shell" else ()
    with Cluster.up(Options(nodes=2, conf=(*PREEMPTS, *asks))) as cluster:
        if told == "batch shell":
            run = looking(cluster, tmp_path, slurm={"partition": "low"})
        else:
            run = training(cluster, tmp_path, "hf-trainer", slurm={"partition": "low"})
        preempted(cluster, run)
        assert run.wait() == 0, run.story()
        assert "saved" in words(run, 0) + words(run, 0, "err"), run.story()
        assert (run.show()["state"], run.show()["restarts"]) == ("COMPLETED", 1)
