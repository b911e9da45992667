"""render --standalone -o DIR: the files run by hand on a real cluster, without jobgen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import write

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PROGRAM = """\
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
sys.exit(7 if os.environ["RANK"] == os.environ.get("FAILS") else 0)
"""


@pytest.mark.train("torch")
@pytest.mark.parametrize(("fails", "code"), [("", "0:0"), ("1", "7:0")])
def test_the_files_run_by_hand(cluster: Cluster, tmp_path: Path, fails: str, code: str) -> None:
    keys = {"name": "kept", "nodes": 2, "procs_per_node": 1, "time": "5m", "run": "main.py"}
    job = write(tmp_path, {**keys, "env": {"FAILS": fails}})
    (tmp_path / "main.py").write_text(PROGRAM)
    folder = cluster.scratch / f"kept-{code[0]}"
    made = cluster.client.jobgen(
        *("render", str(job), "-c", str(cluster.profile()), "--standalone", "-o", str(folder))
    )
    assert made.returncode == 0, made.stderr
    (folder / "main.py").write_text(PROGRAM)
    cluster.run("login", ["chown", "-R", "tester", str(folder)], user="root")
    words = f"cd {folder} && mkdir -p logs && sbatch --parsable job.sbatch"
    number = cluster.run("login", words).stdout.strip()
    cluster.wait_state(number)
    log = (folder / "logs" / f"job-{number}.out").read_text()
    assert cluster.job(number)["ExitCode"] == code, log
    assert "jobgen: preflight: 2 of 2 nodes answered" in log
    assert "rank 0 of 2" in log, "rank 0 is shown in the job's log"
    shown = {path.read_text() for path in (folder / "logs" / number / "0").glob("*.1.out")}
    assert shown == {"rank 1 of 2\n"}
    assert not list((folder / "state" / number).glob("exit.*"))
    assert ("rank 1 on" in log) == bool(fails)
