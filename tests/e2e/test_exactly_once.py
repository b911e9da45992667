"""Real faults on a real cluster: a run executes exactly once and its id is known.

``pytest --faults N`` makes N times as many trials of each kind.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import threading
import time
from base64 import b32encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobgen.model.observation import mark_of
from tests.cluster import Cluster, Options
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TTL = 20

JOB = """\
name: once
run: echo "$SLURM_JOB_ID" >>"$JOBGEN_RUN_DIR/../executed.$JOBGEN_TOKEN"
nodes: 1
time: 1h
launcher: plain
"""
CUT = """
Host cut
  HostName 127.0.0.1
  HostKeyAlias login
  User tester
  IdentityFile {home}/.ssh/id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {home}/.ssh/known_hosts
"""


@pytest.fixture(scope="module")
def testbed() -> Iterator[Cluster]:
    """A cluster of its own: its controller is frozen and killed, its credentials live shortly."""
    options = Options(nodes=2, message_timeout=5, munge_ttl=TTL)
    with Cluster.up(options) as cluster:
        home = cluster.client.home
        with (home / ".ssh" / "config").open("a") as config:
            config.write(CUT.format(home=home))
        yield cluster


@dataclass
class Trial:
    """One run that is submitted by clients that die, until its id is known."""

    cluster: Cluster
    folder: Path
    token: str = field(default_factory=lambda: b32encode(secrets.token_bytes(16)).decode()[:26])

    def __post_init__(self) -> None:
        self.token = self.token.lower()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = self.folder / f"state-{self.token[:8]}"
        (self.folder / "src").mkdir(exist_ok=True)
        self.job = self.folder / "src" / "job.yaml"
        self.job.write_text(JOB)
        self.profile = self.cluster.profile(procs_per_node=1)

    def words(self, **what: Any) -> list[str]:
        data = {
            "state": str(self.state),
            "token": self.token,
            "job": str(self.job),
            "profile": str(self.profile),
            **what,
        }
        program = [sys.executable, "-m", "tests.e2e.submitter", json.dumps(data)]
        return self.cluster.client.words(program)

    def client(self, **what: Any) -> dict[str, Any]:
        """One client; what it said, nothing where it died."""
        done = subprocess.run(self.words(**what), capture_output=True, text=True, timeout=HANG)
        assert "Traceback" not in done.stderr, done.stderr
        return json.loads(done.stdout) if done.stdout else {}

    def settled(self, tries: int = 4) -> dict[str, Any]:
        """Clients without faults, until one knows the id."""
        told: dict[str, Any] = {}
        for _ in range(tries):
            told = self.client()
            if told.get("job", "None") != "None" or told.get("state") == "REJECTED":
                return told
        raise AssertionError(f"no id after {tries} clients: {told}")

    def executed(self) -> list[str]:
        path = self.cluster.scratch / f"executed.{self.token}"
        return path.read_text().split() if path.exists() else []

    def ids(self) -> list[str]:
        """All jobs that the controller accepted for this run."""
        told = self.cluster.slurm("squeue", "-h", "-t", "all", "-o", "%i %k")
        return [line.split()[0] for line in told.splitlines() if mark_of(self.token) in line]

    def accepted_once(self, told: dict[str, Any]) -> None:
        """Not even a copy was accepted."""
        if told["state"] != "REJECTED":
            assert self.ids() == [told["job"]]

    def proven(self, told: dict[str, Any]) -> None:
        """It was executed once, and by the job whose id is known; or never, and said to be so."""
        if told["state"] == "REJECTED":
            time.sleep(1)
            assert (self.ids(), self.executed()) == ([], [])
            return
        until(lambda: len(self.executed()) > 0, f"job {told} to run; accepted: {self.ids()}")
        until(lambda: self.cluster.state(told["job"]) == "COMPLETED", "its end")
        assert self.executed() == [told["job"]]


@pytest.fixture
def trial(testbed: Cluster, tmp_path: Path) -> Trial:
    return Trial(testbed, tmp_path)


@pytest.mark.trials("point", lambda times: range(1, 20, 1 if times > 1 else 3))
@pytest.mark.trials("round_", range)
def test_a_client_killed_at_any_point(trial: Trial, point: int, round_: int) -> None:
    trial.client(die=point)
    told = trial.settled()
    trial.proven(told)
    trial.accepted_once(told)


@pytest.mark.trials("round_", range)
def test_three_clients_of_one_run_at_once(trial: Trial, round_: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: trial.client(), range(3)))
    told = trial.settled()
    trial.proven(told)
    trial.accepted_once(told)


UP, DOWN = (3_000, 36_000), (2_500, 3_500)
"""Bytes of a submit from the login on, in each direction; a cut beyond the end cuts nothing."""


def places(way: tuple[int, int], count: int) -> list[int]:
    """So many places in a way, evenly."""
    return [way[0] + (way[1] - way[0]) * n // count for n in range(count)]


@pytest.mark.trials("at", lambda times: places(UP, 4 * times))
def test_a_connection_cut_on_the_way_up(trial: Trial, at: int) -> None:
    trial.client(up=at)
    told = trial.settled()
    trial.proven(told)
    trial.accepted_once(told)


@pytest.mark.trials("at", lambda times: places(DOWN, 4 * times))
def test_a_connection_cut_on_the_way_down(trial: Trial, at: int) -> None:
    trial.client(down=at)
    told = trial.settled()
    trial.proven(told)
    trial.accepted_once(told)


@pytest.mark.trials("seconds", lambda times: [3, 7, 10] * times)
def test_a_controller_that_stands_still_for_less_than_the_credential_lives(
    trial: Trial, seconds: float
) -> None:
    """sbatch fails with a time-out from five seconds on, and the job is in the queue."""
    trial.cluster.freeze()
    thaw = threading.Timer(seconds, trial.cluster.thaw)
    thaw.start()
    told = trial.client()
    thaw.join()
    if "job" not in told:
        told = trial.settled()
    trial.proven(told)
    trial.accepted_once(told)


@pytest.mark.trials("round_", lambda times: range(times // 2))  # two minutes each
def test_a_controller_that_stands_still_for_longer(trial: Trial, round_: int) -> None:
    """The first attempt is refused after the thaw, and the second is accepted once."""
    cluster = trial.cluster

    def thaw() -> None:
        until(lambda: cluster.processes("login", "sbatch"), "sbatch")
        time.sleep(TTL + 7)
        cluster.thaw()

    cluster.freeze()
    with ThreadPoolExecutor(1) as pool:
        thawed = pool.submit(thaw)
        told = trial.client(patience=HANG)
        thawed.result()
    assert "job" in told, told
    trial.proven(told)
    assert (Path(told["directory"]) / "submit" / "attempt.2").is_symlink()
    assert trial.ids() == [told["job"]]


@pytest.mark.trials("round_", range)
def test_an_sbatch_killed_in_flight(trial: Trial, round_: int) -> None:
    """Its request waits at the frozen controller, and is accepted after the thaw."""
    cluster = trial.cluster
    cluster.freeze()
    client = subprocess.Popen(trial.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: cluster.processes("login", "sbatch"), "sbatch")
        time.sleep(0.3)
        cluster.signal("login", "sbatch", signal.SIGKILL)
    finally:
        cluster.thaw()
    out, err = client.communicate(timeout=HANG)
    told = json.loads(out)
    assert b"Traceback" not in err
    if "job" not in told:
        told = trial.settled()
    trial.proven(told)
    trial.accepted_once(told)


@pytest.mark.trials("round_", range)
def test_a_disk_that_is_full_when_sbatch_is_to_be_run(trial: Trial, round_: int) -> None:
    """Nothing is asked that could not be written down; with room again it goes on."""
    cluster, small = trial.cluster, trial.cluster.layout.small
    profile = str(cluster.profile(procs_per_node=1, paths={"root": str(small)}))
    trial.client(die=12, profile=profile)
    made = cluster.run("login", f"ls {small}/once-{trial.token[:8]}/submit").stdout
    assert made.split() == ["submit.sh"], "it was killed at another moment"
    cluster.run("login", f"cat /dev/zero >{small}/filler", check=False)
    told = trial.client(profile=profile)
    assert "is not submitted yet: the remote disk is full" in told["text"], told
    cluster.run("login", f"rm {small}/filler")
    told = trial.client(profile=profile)
    cluster.wait_state(told["job"])
    executed = cluster.run("login", f"cat {small}/executed.{trial.token}").stdout
    assert executed.split() == [told["job"]]
    cluster.run("login", f"rm -r {small}/*")
    trial.accepted_once(told)


@pytest.mark.trials("round_", range)
def test_copies_that_were_accepted_do_not_execute(trial: Trial, round_: int) -> None:
    """Two more jobs of the same run directory, past every lock: the fence in the job holds."""
    told = trial.client(options=["--begin=now+3"])
    copy = (
        f"cd {told['directory']} && sbatch --parsable --comment=jobgen:{mark_of(trial.token)}:1"
        f" --chdir={told['directory']} bundle/job.sbatch {told['digest']}"
    )
    copies = [trial.cluster.run("login", copy).stdout.strip() for _ in range(2)]
    for job in (*copies, told["job"]):
        trial.cluster.wait_state(job)
    assert len(trial.executed()) == 1
    assert set(trial.executed()) <= {*copies, told["job"]}
