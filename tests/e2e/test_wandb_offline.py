"""The real wandb, offline on the nodes: the starts of a run that is requeued are one run of W&B."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.texts import profile
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

TRAINS = """\
import os, sys, time
from pathlib import Path
import wandb
saved = Path(os.environ["JOBGEN_CHECKPOINT_DIR"], "step")
saved.parent.mkdir(parents=True, exist_ok=True)
first = int(saved.read_text()) if saved.exists() else 0
run = wandb.init()
print("run", run.id, "begins at", run.step, "resumed", run.resumed, flush=True)
for step in range(first, first + 3):
    wandb.log({"loss": 1 / (step + 1)}, step=step)
saved.write_text(str(step + 1))
while os.environ["JOBGEN_RESTART"] == "0" and not Path(os.environ["JOBGEN_STOP_FILE"]).exists():
    time.sleep(0.1)
wandb.finish()
if os.environ["JOBGEN_RESTART"] == "0":
    Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()
"""
BLOCK = 32768
"""Bytes after which the header of a record begins anew."""


def read_records(path: Path) -> Iterator[bytes]:
    """The records of a .wandb file, which is a log of LevelDB after seven bytes of its own."""
    data, at, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield whole
            whole = b""


def read_run(folder: Path) -> tuple[set[str], list[int]]:
    """The run IDs of an offline directory, and the steps that were logged."""
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = folder.glob("run-*.wandb")
    runs, steps = set(), []
    for content in read_records(path):
        record: Any = Record.FromString(content)
        if record.HasField("run"):
            runs.add(record.run.run_id)
        if record.HasField("history"):
            values = {"".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
            steps.append(json.loads(values["_step"]))
    return runs, steps


def start(cluster: Cluster, folder: Path) -> Run:
    import wandb

    folder.mkdir()
    (folder / "train.py").write_text(TRAINS)
    job = {
        "name": "logs",
        "run": f"{sys.executable} train.py",
        "nodes": 1,
        "procs_per_node": 1,
        "time": "1h",
        "launcher": "plain",
        "preflight": "off",
        "env": {"PYTHONPATH": str(Path(wandb.__file__).parents[1])},
        "checkpoint": {"grace": "30m", "requeue": True},
        "track": {"wandb": {"project": "tests"}},
    }
    alone = {**profile(cluster.layout)["network"], "internet": False}
    return submit(cluster, write(folder, job), cluster.profile(network=alone))


@pytest.mark.train("wandb")
def test_an_offline_run_goes_on_through_a_requeue(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path / "job")
    until(lambda: b"begins at" in run.ranks(0).get(0, b""), run.story)
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    until(lambda: cluster.job(run.job).get("Restarts") == "1", run.story)
    cluster.start_now(run.job)
    assert run.wait() == 0, run.story()
    name = hashlib.sha256(f"track {run.token}.".encode()).hexdigest()[:32]
    # offline, wandb knows nothing of the previous start
    for restart in (0, 1):
        printed = run.ranks(restart)[0].decode()
        assert f"run {name} begins at 0 resumed False" in printed
    here = tmp_path / "here"
    pulled = answer(run.jobgen("pull", "--to", str(here), "--json"))
    assert pulled["files"]
    folders = sorted((here / "track" / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert all(re.fullmatch(rf"offline-run-\d{{8}}_\d{{6}}-{name}", f.name) for f in folders)
    runs = [read_run(folder) for folder in folders]
    assert [ids for ids, _ in runs] == [{name}, {name}]
    assert [steps for _, steps in runs] == [[0, 1, 2], [3, 4, 5]]
