"""Kinds of faults that strike a submit on a real cluster, and what came of each trial.

``make faults`` makes every trial of the table, ``make test`` some of each kind.
"""

from __future__ import annotations

import json
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from base64 import b32encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jobgen.model.observation import format_mark
from tests.cluster import Cluster, Options
from tests.waiting import HANG, until

TTL = 20
OPTIONS = Options(nodes=2, message_timeout=5, munge_ttl=TTL, small_disk="1m")

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
DENIALS = ("nothing was", "not submitted")
"""What a client says that is sure that no job was accepted."""
POINTS = 19
"""Points of a submit at which its process can die: see ``tests.e2e.submitter``."""
UP, DOWN = (3_000, 36_000), (2_500, 3_500)
"""Bytes of a submit from the login on, in each direction; a cut beyond the end cuts nothing."""


@contextmanager
def raise_cluster() -> Iterator[Cluster]:
    """A cluster to be frozen and killed, whose credentials live shortly."""
    with Cluster.up(OPTIONS) as cluster:
        home = cluster.client.home
        with (home / ".ssh" / "config").open("a") as config:
            config.write(CUT.format(home=home))
        yield cluster


class Came(NamedTuple):
    """What came of one trial."""

    executed: int
    """How often the program wrote its line."""
    accepted: int
    """Jobs that the controller knows of the run."""
    wrong: str
    """The first false word of a client, or what else is not as it must be; empty if nothing is."""
    traceback: bool
    seconds: float
    """From the first client's start until one knew the id, or that there is none."""


@dataclass
class Trial:
    """One run that is submitted by clients that die, until its id is known."""

    cluster: Cluster
    folder: Path
    root: Path | None = None
    """Where run directories go, if not to the cluster's scratch."""
    token: str = field(default_factory=lambda: b32encode(secrets.token_bytes(16)).decode()[:26])
    wrong: str = ""
    traceback: bool = False
    crashed: bool = False
    """Whether the controller was killed: it kills the jobs whose start it had not saved yet."""
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.token = self.token.lower()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = self.folder / f"state-{self.token[:8]}"
        (self.folder / "src").mkdir(exist_ok=True)
        self.job = self.folder / "src" / "job.yaml"
        self.job.write_text(JOB)
        self.use(self.cluster.scratch)

    def use(self, root: Path) -> None:
        """Run directories go here."""
        self.root = root
        self.profile = self.cluster.profile(procs_per_node=1, paths={"root": str(root)})

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
        done = subprocess.run(self.words(**what), capture_output=True, timeout=HANG)
        return self.hear(done.stdout, done.stderr)

    def hear(self, out: bytes, err: bytes) -> dict[str, Any]:
        """What a client said; a false word of it is kept."""
        self.traceback |= b"Traceback" in err
        told: dict[str, Any] = json.loads(out) if out else {}
        text = told.get("text", "")
        if any(denial in text for denial in DENIALS) and self.ids():
            self.wrong = self.wrong or f"a job was accepted, and a client said: {text}"
        return told

    def settled(self, tries: int = 4) -> dict[str, Any]:
        """Clients without faults, until one knows the id."""
        told: dict[str, Any] = {}
        for _ in range(tries):
            told = self.client()
            if told.get("job", "None") != "None" or told.get("state") == "REJECTED":
                return told
        self.wrong = self.wrong or f"no id after {tries} clients: {told}"
        return told

    def executed(self) -> list[str]:
        path = f"{self.root}/executed.{self.token}"
        return self.cluster.run("login", f"cat {path}", check=False).stdout.split()

    def ids(self) -> list[str]:
        """All jobs that the controller accepted for this run."""
        told = self.cluster.slurm("squeue", "-h", "-t", "all", "-o", "%i %k")
        return [line.split()[0] for line in told.splitlines() if format_mark(self.token) in line]

    def judge(self, told: dict[str, Any], copies: int = 0) -> Came:
        """What came of it, once the job has ended that the last client knew."""
        seconds = time.monotonic() - self.begun
        end = self.client(end=True) if told.get("job", "None") != "None" else told
        executed, accepted = self.executed(), self.ids()
        state = end.get("state", "")
        expected = {"COMPLETED": [end.get("job")], "REJECTED": []}.get(state)
        if self.crashed and state in ("FAILED", "LOST") and "killed" in end["reason"]:
            expected = executed[:1]
        if executed != expected or len(accepted) > len(executed) + copies:
            self.wrong = self.wrong or f"{end}; {executed} ran, {accepted} were accepted"
        return Came(len(executed), len(accepted), self.wrong, self.traceback, seconds)


class Fault(NamedTuple):
    """A kind of fault."""

    what: str
    strike: Callable[[Trial, int], Came]
    """Makes trial number so and so."""
    trials: int
    """How many ``make faults`` makes."""
    few: Callable[[int], range] = lambda times: range(times)
    """The trials of ``make test`` with ``--faults TIMES``."""


def _die(trial: Trial, number: int) -> Came:
    trial.client(die=1 + number % POINTS)
    return _go_on(trial)


def _go_on(trial: Trial, told: dict[str, Any] | None = None) -> Came:
    """Further clients after the fault, unless one knew the id through it."""
    return trial.judge(told if told and "job" in told else trial.settled())


def _cut(way: str, then: str, first: int, last: int, places: int) -> Callable[[Trial, int], Came]:
    def strike(trial: Trial, number: int) -> Came:
        at = first + (last - first) * (number % places) // places
        trial.client(**{way: at, "then": then})
        return _go_on(trial)

    return strike


def _clients(trial: Trial, number: int) -> Came:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: trial.client(), range(3 + number % 6)))
    return _go_on(trial)


def _freeze(trial: Trial, number: int) -> Came:
    """sbatch fails with a time-out from five seconds on, and the job is in the queue."""
    trial.cluster.freeze()
    thaw = threading.Timer((3, 7, 10)[number % 3], trial.cluster.thaw)
    thaw.start()
    told = trial.client()
    thaw.join()
    return _go_on(trial, told)


def _freeze_long(trial: Trial, number: int) -> Came:
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
    if "job" in told and not (Path(told["directory"]) / "submit" / "attempt.2").is_symlink():
        trial.wrong = "the second attempt was not made"
    return _go_on(trial, told)


def _in_flight(trial: Trial, strike: Callable[[], None], mend: Callable[[], None]) -> Came:
    """The fault strikes while sbatch waits for the frozen controller."""
    cluster = trial.cluster
    cluster.freeze()
    client = subprocess.Popen(trial.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: cluster.processes("login", "sbatch"), "sbatch")
        time.sleep(0.3)
        strike()
    finally:
        mend()
    told = trial.hear(*client.communicate(timeout=HANG))
    return _go_on(trial, told)


def _kill_sbatch(trial: Trial, number: int) -> Came:
    """Its request waits at the frozen controller, and is accepted after the thaw."""
    cluster = trial.cluster
    return _in_flight(
        trial, lambda: cluster.signal("login", "sbatch", signal.SIGKILL), cluster.thaw
    )


def _crash(trial: Trial, number: int) -> Came:
    """The controller dies with the request, and comes back with what it had saved."""
    cluster, trial.crashed = trial.cluster, True
    try:
        return _in_flight(trial, cluster.crash_controller, cluster.restart_controller)
    finally:
        # what ended while the controller was away is running for it
        cluster.empty()


def _crash_after(trial: Trial, number: int) -> Came:
    """The controller gives an id, and dies before it has saved it."""
    cluster, trial.crashed = trial.cluster, True
    told = trial.client(options=["--begin=now+5"])
    cluster.crash_controller()
    cluster.restart_controller()
    try:
        return _go_on(trial, told)
    finally:
        cluster.empty()


def _full(trial: Trial, number: int) -> Came:
    """Nothing is asked that could not be written down; with room again it goes on."""
    cluster, small = trial.cluster, trial.cluster.layout.small
    trial.use(small)
    trial.client(die=12)
    made = cluster.run("login", f"ls {small}/once-{trial.token[:8]}/submit").stdout
    if made.split() != ["environment.sh", "program_environment.py", "submit.sh"]:
        trial.wrong = f"it was killed at another moment: {made}"
    cluster.run("login", f"cat /dev/zero >{small}/filler", check=False)
    told = trial.client()
    if "is not submitted yet: the remote disk is full" not in told.get("text", ""):
        trial.wrong = trial.wrong or f"of the full disk it said {told}"
    cluster.run("login", f"rm {small}/filler")
    came = _go_on(trial)
    cluster.run("login", f"rm -r {small}/*")
    return came


def _full_here(trial: Trial, number: int) -> Came:
    """The disk of the run database is full from one moment of the submit on."""
    cluster, small = trial.cluster, trial.cluster.layout.small
    trial.state = small / f"state-{trial.token[:8]}"
    trial.client(fill=1 + number % POINTS, filler=str(small / "filler"))
    cluster.run("client", f"rm -f {small}/filler", user="root")
    came = _go_on(trial)
    cluster.run("client", f"rm -rf {small}/*", user="root")
    return came


def _copies(trial: Trial, number: int) -> Came:
    """Two more jobs of the same run directory, past every lock: the fence in the job holds."""
    told = trial.client(options=["--begin=now+3"])
    copy = (
        f"cd {told['directory']} && sbatch --parsable --comment=jobgen:{format_mark(trial.token)}:1"
        f" --chdir={told['directory']} bundle/job.sbatch {told['digest']}"
    )
    copies = [trial.cluster.run("login", copy).stdout.strip() for _ in range(2)]
    for job in (*copies, told["job"]):
        trial.cluster.wait_state(job)
    return trial.judge(told, copies=2)


def _any(trial: Trial, number: int) -> Came:
    """One to three faults, of kinds, moments and lengths that the dice say."""
    dice = random.Random(number)  # noqa: S311 - weather, no secret
    cluster, small = trial.cluster, trial.cluster.layout.small
    if full := dice.random() < 0.2:
        trial.state = small / f"state-{trial.token[:8]}"
    for _ in range(dice.randint(1, 3)):
        what: dict[str, Any] = {}
        kind = dice.choice(["die", "up", "down", "clients"])
        if kind == "clients":
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda _: trial.client(), range(3)))
            continue
        first, last = {"die": (1, POINTS), "up": UP, "down": DOWN}[kind]
        what[kind] = dice.randint(first, last)
        if full:
            what |= {"fill": dice.randint(1, POINTS), "filler": str(small / "filler")}
        slurm = dice.choice(["well", "well", "frozen", "killed", "crashed"])
        _with_slurm(trial, slurm, dice.uniform(0.0, 12.0), what)
        cluster.run("client", f"rm -f {small}/filler", user="root")
    try:
        return _go_on(trial)
    finally:
        cluster.empty()
        cluster.run("client", f"rm -rf {small}/*", user="root")


def _with_slurm(trial: Trial, how: str, seconds: float, what: dict[str, Any]) -> None:
    """One client, while Slurm is well, stands still, loses its sbatch, or crashes."""
    cluster = trial.cluster
    if how == "well":
        trial.client(**what)
        return
    cluster.freeze()
    client = subprocess.Popen(trial.words(**what), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        time.sleep(seconds)
        if how == "killed" and cluster.processes("login", "sbatch"):
            cluster.signal("login", "sbatch", signal.SIGKILL)
        if how == "crashed":
            trial.crashed = True
            cluster.crash_controller()
    finally:
        cluster.restart_controller() if how == "crashed" else cluster.thaw()
    trial.hear(*client.communicate(timeout=HANG))


def _places(count: int) -> Callable[[int], range]:
    """So many of the full count, times as many as asked for, evenly spread."""
    return lambda times: range(0, 60, max(1, 60 // (count * times)))


FAULTS = (
    Fault(
        "the client is killed at one of 19 points",
        _die,
        30 * POINTS,
        lambda times: range(0, POINTS, 1 if times > 1 else 3),
    ),
    Fault("cut on the way up", _cut("up", "cut", *UP, 60), 180, _places(4)),
    Fault("cut on the way down", _cut("down", "cut", *DOWN, 60), 180, _places(4)),
    Fault("the link stands still, up", _cut("up", "stall", *UP, 30), 30, lambda _: range(0)),
    Fault("the link stands still, down", _cut("down", "stall", *DOWN, 30), 30, lambda _: range(0)),
    Fault("3 to 8 clients of one run at once", _clients, 60),
    Fault("slurmctld stands still 3, 7, 10 s", _freeze, 60, lambda times: range(3 * times)),
    Fault("slurmctld stands still for longer", _freeze_long, 20, lambda times: range(times // 2)),
    Fault("sbatch is killed in flight", _kill_sbatch, 60),
    Fault("slurmctld is killed in flight", _crash, 30, lambda times: range(times // 2)),
    Fault("slurmctld is killed once it gave an id", _crash_after, 30),
    Fault("the cluster's disk is full at sbatch", _full, 20),
    Fault("the run database's disk is full", _full_here, 200, lambda times: range(8, 9 + times)),
    Fault("two more copies are accepted", _copies, 60),
    Fault("any of these, one to three times", _any, 1000),
)
"""All kinds, with the counts of a full run."""
