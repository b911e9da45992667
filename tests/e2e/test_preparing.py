"""What a real cluster's nodes do before a program: ``stage:``, and ``setup:`` by scope."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import LAUNCHERS, Run, submit, write

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def start(cluster: Cluster, folder: Path, stage: dict[str, str], run: str = "true") -> Run:
    folder.mkdir()
    job = {"name": "staged", "run": run, "nodes": 2, "procs_per_node": 2, "time": "1h"}
    return submit(cluster, write(folder, {**job, "launcher": "srun", "stage": stage}))


def test_data_is_there_before_any_rank_and_is_not_brought_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    source = cluster.scratch / "staged"
    (source / "plain").mkdir(parents=True)
    (source / "plain/b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    with tarfile.open(source / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "inner/a.txt")
    there = "/tmp/staged"
    stage = {str(source / "x.tar.gz"): there, str(source / "plain"): there}
    read = f'cat "{there}/inner/a.txt" "{there}/b.txt"'
    for number, word in enumerate(["", " already"]):
        run = start(cluster, tmp_path / str(number), stage, f"bash -c '{read}'")
        assert run.wait() == 0, run.story()
        assert run.ranks() == dict.fromkeys(range(4), b"ab")
        log = (run.directory / f"logs/job-{run.job}.out").read_text()
        brought = [line for line in log.splitlines() if "jobgen: " in line and " is in /" in line]
        assert [line.endswith(f" on n{n}{word}") for n in (1, 2) for line in brought].count(
            True
        ) == 4


def test_what_cannot_be_staged_ends_the_job_before_its_ranks(
    cluster: Cluster, tmp_path: Path
) -> None:
    large = cluster.scratch / "large.bin"
    large.write_bytes(bytes(3 << 20))
    small = cluster.layout.small / "data"
    reasons = {
        (str(cluster.scratch / "nothing.tar"), "/tmp/x"): "does not exist, or cannot be read",
        (str(large), str(small)): f"needs at least 3 MiB in {small}, which has 1 MiB free",
    }
    for number, ((source, folder), reason) in enumerate(reasons.items()):
        run = start(cluster, tmp_path / str(number), {source: folder})
        assert run.wait() == 1
        shown = run.show()
        assert shown["cause"]["text"] == f"stage failed: {source} {reason}", shown["cause"]
        assert (shown["exit"], {f["node"] for f in shown["failures"]}) == ("96:0", {"n1", "n2"})
        assert not run.ranks(), "no rank was started"
    cluster.run("login", f"rm -rf {small}")


SETUP = "echo x >>setup.$SLURMD_NODENAME"


def build_scoped(launcher: str, setup: object) -> dict[str, object]:
    keys = {"name": "scoped", "nodes": 2, "procs_per_node": 2, "time": "1h", "setup": setup}
    return {**keys, "launcher": LAUNCHERS[launcher], "run": "cat setup.$SLURMD_NODENAME"}


def count_lines(run: Run, name: str) -> list[int]:
    """The lines of the files that the nodes wrote."""
    return [len(p.read_text().split()) for p in (run.directory / "src").glob(f"{name}.n*")]


@pytest.mark.parametrize(
    "launcher", ["srun", pytest.param("torchrun c10d", marks=pytest.mark.exhaustive)]
)
def test_setup_by_scope_runs_once_a_node_and_once_a_rank(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """With any launcher, and the lines of a node before any of its ranks goes on."""
    scopes = {"node": [SETUP, "sleep 1", SETUP], "rank": "echo $RANK >>rank.$SLURMD_NODENAME"}
    run = submit(cluster, write(tmp_path, build_scoped(launcher, scopes)))
    assert run.wait() == 0, run.story()
    assert count_lines(run, "setup") == [2, 2]
    assert count_lines(run, "rank") == [2, 2]
    assert run.ranks() == dict.fromkeys(range(4), b"x\nx\n")


def test_a_line_of_a_node_that_fails_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    run = submit(cluster, write(tmp_path, build_scoped("srun", {"node": "(exit 9)"})))
    assert run.wait() == 1
    shown = run.show()
    assert (shown["exit"], shown["cause"]["text"]) == ("9:0", "setup failed: ( exit 9 )")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["steps", "packed", "elastic"])
def test_other_kinds_of_jobs_prepare_their_nodes_too(
    cluster: Cluster, tmp_path: Path, kind: str
) -> None:
    source, there = cluster.scratch / f"{kind}.txt", f"/tmp/staged-{kind}"
    source.write_text("data")
    read = f"cat {there}/{kind}.txt setup.$SLURMD_NODENAME"
    setup = {"node": "echo n >setup.$SLURMD_NODENAME", "rank": "test -f setup.$SLURMD_NODENAME"}
    keys = {"name": kind, "time": "1h", "setup": setup, "stage": {str(source): there}}
    shapes = {
        "steps": {"nodes": 2, "procs_per_node": 1, "steps": [{"run": read}, {"run": read}]},
        "packed": {
            "nodes": 1,
            "procs_per_node": 2,
            "run": read,
            "cpus_per_task": 1,
            "sweep": {"pack": {"gpus": 1}, "grid": {"X": [1, 2, 3]}},
        },
        "elastic": {"nodes": "1:2", "procs_per_node": 1, "run": read, "launcher": "torchrun"},
    }
    path = write(tmp_path, {"launcher": "srun", **keys, **shapes[kind]})
    run = submit(cluster, path)
    assert run.wait() == 0, run.story()
    logs = [p for p in (run.directory / "logs").rglob("n*.out") if not p.is_symlink()]
    assert {p.read_text() for p in logs} == {"datan\n"}
    assert len(logs) == {"steps": 4, "packed": 3, "elastic": 2}[kind]
