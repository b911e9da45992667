"""Several programs in one job on a real cluster: training, then evaluation, with each launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import LAUNCHERS, Run, answer, submit, write
from tests.products import one_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = """\
import os, socket, sys, time
from pathlib import Path
step = os.environ["JOBGEN_STEP"]
rank, world, local = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
nodes = world // local
if "meets" in sys.argv:
    import torch.distributed as dist
    dist.init_process_group("gloo")
    names = [None] * world
    dist.all_gather_object(names, socket.gethostname())
    rank, world, nodes = dist.get_rank(), dist.get_world_size(), len(set(names))
    dist.destroy_process_group()
print(f"{step}: rank {rank} of {world} on {nodes} nodes", flush=True)
Path(f"{step}.{rank}.{os.environ['JOBGEN_RESTART']}").touch()
while rank == 0 and len([*Path().glob(f"{step}.*.{os.environ['JOBGEN_RESTART']}")]) < world:
    time.sleep(0.1)
if step == "train" and rank == 0:
    Path("model").write_text("trained")
if step == "eval":
    assert Path("model").read_text() == "trained"
    while os.environ["JOBGEN_RESTART"] == "0" and "stops" in sys.argv:
        if Path(os.environ["JOBGEN_STOP_FILE"]).exists():
            Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()
            break
        time.sleep(0.1)
sys.exit(4 if f"fails-{step}" in sys.argv and rank == 0 else 0)
"""
"""Ranks meet only where the job asks for it: to import torch is most of what such a step costs."""


def start(cluster: Cluster, folder: Path, argument: str = "", **keys: object) -> Run:
    """Four ranks on two nodes, then two on the first."""
    folder.mkdir()
    (folder / "main.py").write_text(PROGRAM)
    run = f"main.py {argument}"
    steps = [{"name": "train", "run": run}, {"name": "eval", "run": run, "nodes": 1}]
    job = {"name": "steps", "nodes": 2, "time": "1h", "procs_per_node": 2, "steps": steps}
    job["finally"] = 'echo "$JOBGEN_EXIT_CODE${JOBGEN_STEP-}" >>ended'
    return submit(cluster, write(folder, {**job, **keys}))


def read_output(run: Run, step: str, restart: int = 0) -> list[str]:
    """What the ranks of one step have printed."""
    folder = run.directory / "logs" / "0" / str(restart) / step
    paths = (path for path in folder.glob("n*.out") if not path.is_symlink())
    return sorted(line for path in paths for line in path.read_text().splitlines())


TRAINED = [f"train: rank {rank} of 4 on 2 nodes" for rank in range(4)]
EVALUATED = [f"eval: rank {rank} of 2 on 1 nodes" for rank in range(2)]


@pytest.mark.train("torch", "deepspeed", "accelerate")
@pytest.mark.parametrize("launcher", one_of_each(LAUNCHERS, ["srun"]))
def test_training_then_evaluation(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    run = start(cluster, tmp_path / "job", "meets", launcher=LAUNCHERS[launcher])
    assert run.wait() == 0, run.story()
    assert read_output(run, "train") == TRAINED
    assert read_output(run, "eval") == EVALUATED
    assert (run.directory / "src" / "ended").read_text() == "0\n"
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.train("torch")
def test_a_failing_step_ends_the_job_and_is_named(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path / "job", "fails-train")
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "4:0"
    assert not read_output(run, "eval")
    assert (run.directory / "src" / "ended").read_text() == "4\n"
    (step,) = answer(run.jobgen("show", "--json"))["job"]["steps"]
    assert (step["name"], step["code"]) == ("train", 4)
    assert "step train" in run.jobgen("show").stdout
    assert "step train" in " ".join(run.jobgen("diagnose").stdout.split())


@pytest.mark.train("torch")
def test_the_steps_run_in_rounds_until_one_fails(cluster: Cluster, tmp_path: Path) -> None:
    note = {"name": "note", "launcher": "plain", "run": "echo $JOBGEN_ROUND $SEED >>rounds"}
    steps = [note, {"name": "train", "run": "main.py fails-train-2"}]
    keys = {"steps": steps, "repeat": 3, "nodes": 1, "env": {"SEED": "s$JOBGEN_ROUND"}}
    run = start(cluster, tmp_path / "job", **keys)
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "4:0"
    assert (run.directory / "src" / "rounds").read_text() == "1 s1\n2 s2\n"
    for round_ in (1, 2):
        named = [f"train-{round_}: rank {rank} of 2 on 1 nodes" for rank in range(2)]
        assert read_output(run, f"train-{round_}") == named
    shown = run.jobgen("show").stdout
    assert "step note-2: succeeded" in shown, shown
    assert "step train-2: failed with exit code 4" in shown
    assert "not started: note-3, train-3" in shown
    logs = run.jobgen("logs", "--step", "train-1", "--rank", "1").stdout
    assert "train-1: rank 1 of 2" in logs
    assert "train-2" not in logs
    logs = run.jobgen("logs", "--step", "train").stdout
    assert all(f"train-{round_} r0 |" in logs for round_ in (1, 2)), logs
    assert "note" not in logs


@pytest.mark.train("torch")
def test_a_requeue_in_the_second_step_keeps_the_first(cluster: Cluster, tmp_path: Path) -> None:
    keys = {"checkpoint": {"grace": "5m", "requeue": True}}
    run = start(cluster, tmp_path / "job", "stops", **keys)
    source = run.directory / "src"
    until(lambda: len([*source.glob("eval.*.0")]) == 2, run.story)
    cluster.slurm("scancel", "--batch", "--signal=USR1", run.job)
    until(lambda: cluster.job(run.job).get("Restarts") == "1", run.story)
    cluster.start_now(run.job)
    assert run.wait() == 0, run.story()
    assert read_output(run, "train") == TRAINED
    assert len([*source.glob("eval.*.1")]) == 2
    assert not [*source.glob("train.*.1")]
    assert read_output(run, "eval", restart=1) == EVALUATED
    assert (source / "ended").read_text() == "0\n", "once, at the last end"
