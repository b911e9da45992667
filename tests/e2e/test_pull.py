"""Files of a run come over real SSH, also where the connection is cut in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.client import JOBGEN
from tests.e2e.runs import answer, submit, write
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

WRITES = """\
import os
from pathlib import Path
for number in range(1000):
    path = Path("out") / str(number % 10) / f"part-{number}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(60_000))
"""


def test_a_thousand_files_come_over_a_link_that_is_cut(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "make.py").write_text(WRITES)
    job = {
        "name": "writes",
        "run": "python3 make.py",
        "nodes": 1,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "plain",
        "preflight": "off",
        "outputs": ["out/**"],
    }
    run = submit(cluster, write(folder, job))
    answer(run.jobgen("wait", "--json"))
    here = tmp_path / "here"
    words = cluster.client.words([*JOBGEN, "pull", run.id, "--to", str(here)])
    pulling = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    until(lambda: len([*here.rglob("part-*.bin")]) >= 20, "the first files")
    for process in cluster.processes("login", "sshd"):
        if "@" in process.command:  # a session, not the one that listens
            os.kill(process.pid, signal.SIGKILL)
    _, said = pulling.communicate(timeout=HANG)
    assert pulling.returncode == 0, said
    source = run.directory / "src" / "out"
    wanted = {p.relative_to(source): p.read_bytes() for p in source.rglob("*.bin")}
    assert len(wanted) == 1000
    found = {
        p.relative_to(here / "out"): p.read_bytes()
        for p in (here / "out").rglob("*")
        if p.is_file()
    }
    assert found == wanted
