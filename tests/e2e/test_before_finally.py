"""``before`` and ``finally`` on a real cluster: after a success, a failure and a cancel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = """\
import os, sys, time
from pathlib import Path
assert Path("prepared").read_text().split() == ["on", "n1"], "before has run before every rank"
Path(f"up.{os.environ['RANK']}").touch()
if sys.argv[1] == "waits":
    time.sleep(3600)
sys.exit(int(sys.argv[1]) if os.environ["RANK"] == "3" else 0)
"""


def start(cluster: Cluster, folder: Path, argument: str, **keys: object) -> Run:
    """A job of four ranks on two nodes whose last rank exits with this code, or that waits."""
    folder.mkdir()
    (folder / "main.py").write_text(PROGRAM)
    job = {
        "name": "around",
        "run": f"main.py {argument}",
        "nodes": 2,
        "time": "1h",
        "procs_per_node": 2,
        "launcher": "srun",
        "setup": "export STATE=on",
        "before": 'echo "$STATE $SLURMD_NODENAME" >>prepared',
        "finally": 'echo "$STATE $JOBGEN_EXIT_CODE $SLURMD_NODENAME" >>ended',
    }
    return submit(cluster, write(folder, {**job, **keys}))


def read(run: Run, name: str) -> list[str]:
    path = run.directory / "src" / name
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("code", [0, 3])
def test_finally_runs_once_after_the_program(cluster: Cluster, tmp_path: Path, code: int) -> None:
    run = start(cluster, tmp_path / "job", str(code))
    assert run.wait() == bool(code), run.story()
    shown = run.show()
    assert (shown["state"], shown["exit"]) == (("FAILED", "3:0") if code else ("COMPLETED", "0:0"))
    assert len(read(run, "prepared")) == 1
    assert read(run, "ended") == [f"on {code} n1"]


def test_finally_runs_after_a_cancel(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path / "job", "waits")
    until(lambda: len([*(run.directory / "src").glob("up.*")]) == 4, run.story)
    assert run.jobgen("cancel").returncode == 0
    assert run.wait() == 1
    assert run.show()["state"] == "CANCELLED"
    until(lambda: read(run, "ended") == ["on 143 n1"], run.story)
    until(lambda: not cluster.processes_with_env(run.token), "the end of every process")


def test_a_failing_before_ends_the_job_and_is_named(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path / "job", "0", before="(exit 9)")
    assert run.wait() == 1
    shown = run.show()
    assert (shown["state"], shown["exit"]) == ("FAILED", "9:0")
    assert "before failed: ( exit 9 )" in shown["cause"]["text"], shown["cause"]
    assert read(run, "ended") == ["on 9 n1"]
    assert not run.ranks(), "no rank was started"
