"""The digits job on two nodes of two ranks, over ssh, under every launcher."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import LAUNCHERS, Run, digits, submit
from tests.products import one_of_each

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.train("torch", "sklearn", "deepspeed", "accelerate"),
    pytest.mark.slow,
]


PRINTS = """\
import os, re, secrets, socket, time
from pathlib import Path
rank = "rank {RANK}/{WORLD_SIZE}".format_map(os.environ)
node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
print(f"{rank} on {node} cpu nonce {secrets.token_hex(16)}", flush=True)
folder = Path(os.environ["JOBGEN_RUN_DIR"], "state/0/monitor.0")
def sampled():
    texts = [path.read_text() for path in folder.glob("*.csv")]
    return len(texts) == 2 and all(len(re.findall(r"^\\d+,host,", t, re.M)) > 2 for t in texts)
while not sampled():
    time.sleep(0.1)
"""
"""Says what the digits example says of a rank, and ends when both monitors have seen it.

``make test`` trains under no launcher here: test_same_job.py does so under torchrun, and
test_strategies.py under all. To import torch is most of what a short training costs."""
_runs: dict[str, Run] = {}


@pytest.fixture
def run(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Run:
    """The finished run under a launcher; each is run once, by the first test that needs it."""
    name: str = request.param
    if name not in _runs:
        keys = {"run": "train.py --epochs 3", "launcher": LAUNCHERS[name], "monitor": "1s"}
        job = digits(tmp_path / "job", **keys)
        if not request.config.getoption("--full"):
            job.with_name("train.py").write_text(PRINTS)
        _runs[name] = submit(cluster, job)
        assert _runs[name].wait() == 0, _runs[name].story()
    return _runs[name]


every_launcher = pytest.mark.parametrize(
    "run", one_of_each(LAUNCHERS, ["torchrun c10d", "srun", "deepspeed pdsh"]), indirect=True
)
"""The others have their case in test_strategies.py."""


@pytest.mark.parametrize("run", one_of_each(LAUNCHERS, []), indirect=True)
def test_it_trains_to_the_same_accuracy(run: Run) -> None:
    assert run.show()["state"] == "COMPLETED"
    assert accuracy(run) >= 96.0
    first = next(iter(_runs.values()))
    assert accuracy(run) == accuracy(first), f"{run.id} against {first.id}"


@every_launcher
def test_two_ranks_run_on_each_of_two_nodes(run: Run) -> None:
    said = sorted(
        re.findall(r"^rank (\d)/(\d) on (\w+) cpu", out.decode(), re.MULTILINE)[0]
        for out in run.ranks().values()
    )
    nodes = [node for _, _, node in said]
    assert [(rank, size) for rank, size, _ in said] == [(str(i), "4") for i in range(4)]
    assert len(set(nodes)) == 2
    assert all(nodes.count(node) == 2 for node in nodes)


@every_launcher
def test_each_node_has_one_monitor_and_it_is_gone_with_the_job(run: Run) -> None:
    files = [*(run.directory / "state/0/monitor.0").glob("*.csv")]
    assert len(files) == 2
    for file in files:
        times = [*map(int, re.findall(r"^(\d+),host,", file.read_text(), re.MULTILINE))]
        # a sample a second, and two may fall into the same whole second
        assert times == sorted(times)
        assert 1 < len(times) <= times[-1] - times[0] + 2, times
    assert not run.cluster.processes_with_env(run.token)


@every_launcher
def test_logs_shows_every_nonce_that_was_printed(run: Run) -> None:
    printed = {n for out in run.ranks().values() for n in nonces(out)}
    shown = run.jobgen("logs")
    assert len(printed) == 4
    assert shown.returncode == 0, shown.stderr
    assert set(nonces(shown.stdout.encode())) == printed


@every_launcher
def test_the_logs_of_a_rank_are_its_file_byte_for_byte(run: Run) -> None:
    for rank, wanted in run.ranks().items():
        got = run.jobgen("logs", "--rank", str(rank), "--stdout", "--raw")
        assert got.returncode == 0, got.stderr
        assert got.stdout.encode() == wanted, f"rank {rank}"


def nonces(text: bytes) -> list[bytes]:
    return re.findall(rb"nonce ([0-9a-f]{32})", text)


def accuracy(run: Run) -> float:
    """The test accuracy after the last epoch, in percent."""
    found = re.findall(rb"test accuracy ([\d.]+)%", run.ranks()[0])
    return float(found[-1])
