"""``calibrate`` on a real cluster: gloo ranks report, monitors watch, and a plan shows both.

The nodes have no GPUs: a script answers as nvidia-smi does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.cli.output import TIMES
from tests.cluster import Cluster
from tests.e2e.runs import answer, submit, write

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = """\
import json, os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
# a program may be over before its node's monitor has begun
folder = os.path.join(os.environ["JOBGEN_STATE_DIR"], "monitor.0")
sample = os.path.join(folder, os.environ["SLURMD_NODENAME"] + ".csv")
while not (os.path.exists(sample) and os.path.getsize(sample) > 200):
    time.sleep(0.1)
if dist.get_rank() == 0:
    told = {"peak_allocated_bytes": float(sys.argv[1]) * total.item(), "step_s": float(sys.argv[2])}
    with open(os.environ["JOBGEN_REPORT_FILE"], "w") as file:
        json.dump(told, file)
dist.barrier()
dist.destroy_process_group()
"""
TRAIN = {"model": "gpt2", "strategy": "ddp", "seq_len": 1024, "micro_batch": 8}


def test_a_run_with_reports_and_monitors_corrects_the_next_plan(
    cluster: Cluster, tmp_path: Path
) -> None:
    profile = cluster.profile(
        procs_per_node=None, nodes={"gpus_per_node": 1, "gpu": "A100-SXM4-80GB"}, gpu_request="none"
    )
    tools = cluster.scratch / "calibrated"
    tools.mkdir(exist_ok=True)
    job = {
        "name": "calibrated",
        "nodes": 2,
        "time": "5m",
        "launcher": "torchrun",
        "monitor": "1s",
        "preflight": "off",
        "env": {"PATH": f"{tools}:$PATH"},
        "train": TRAIN,
        "run": "main.py 0 0",
    }
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "main.py").write_text(PROGRAM)
    file = write(folder, job)
    plan = ("plan", str(file), "-c", str(profile), "--json")
    before = answer(cluster.client.jobgen(*plan))["estimate"]["strategies"]
    planned = next(each for each in before if each["chosen"])
    memory, seconds = planned["memory"], planned["step"]["step_seconds"]
    used = round(memory["nvidia_smi_bytes"] * 1.1 / (1 << 20))
    tool = tools / "nvidia-smi"
    row = f"0, 97, {used}, 81920, 65, 312.34, 400.00, 1355, 1410, 1593, 0x4"
    tool.write_text(f"#!/bin/bash\necho '{row}'\n")
    tool.chmod(0o755)

    file = write(
        folder, {**job, "run": f"main.py {memory['allocated_bytes'] * 0.6} {seconds * 1.25}"}
    )
    run = submit(cluster, file, profile)
    assert run.wait() == 0, run.story()
    shown = run.jobgen("calibrate")
    assert shown.returncode == 0, shown.stderr
    assert f"{run.id} on testbed (A100-SXM4-80GB)" in shown.stdout
    told = answer(run.jobgen("calibrate", "--json"))
    ratios = {each["name"]: round(each["ratio"], 2) for each in told["runs"][0]["figures"]}
    assert ratios == {"allocated": 1.2, "nvidia-smi": 1.1, "step": 1.25}
    assert told["runs"][0]["gpu_peaks_bytes"] == [used << 20] * 2

    after = answer(cluster.client.jobgen(*plan, "--calibrated"))
    assert after["calibration"]["runs"] == [run.id]
    corrected = next(each for each in after["estimate"]["strategies"] if each["chosen"])
    grown = corrected["memory"]["allocated_bytes"] / memory["allocated_bytes"]
    assert grown == pytest.approx(1.2)
    assert corrected["step"]["step_seconds"] / seconds == pytest.approx(1.25)
    text = cluster.client.jobgen("plan", str(file), "-c", str(profile)).stdout
    said = f"your runs on testbed: 1, memory {TIMES}1.20, step {TIMES}1.25; --calibrated applies"
    assert said in " ".join(text.split())
    assert answer(run.jobgen("calibrate", "--remove", "--json"))["calibrations"][0]["runs"] == []
    assert answer(cluster.client.jobgen(*plan))["calibration"] is None
