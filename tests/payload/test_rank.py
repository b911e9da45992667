"""rank.sh beside a real program: signals arrive once, the end is recorded, nothing lives on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from jobgen import payload
from jobgen.model.events import Event, read_events
from jobgen.resolve.program import read
from tests.payload.rank_script import build_rank_script
from tests.shellcheck import shellcheck
from tests.waiting import HANG, until

SCRIPT = Path(__file__).parents[2] / "jobgen" / "payload" / "rank.sh"
TOOLS = ("bash", "cat", "cut", "date", "env", "grep", "ln", "mkdir", "python3", "sed", "setsid")
TOOLS += ("sh", "sleep", "touch")

SAVES = """
import os, signal, sys, time
from pathlib import Path
here = Path(os.environ["JOBGEN_RUN_DIR"])
came = []
def note(number, _):
    came.append(signal.Signals(number).name)
    (here / "came").write_text(" ".join(came))
for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), note)
(here / "up").write_text(str(os.getpid()))
while not (here / "end").exists():
    time.sleep(0.02)
(here / "saved").touch()
sys.exit(int((here / "end").read_text() or 0))
"""
"""Writes down the signals that come, and ends when it is told to: a save of any length."""

SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")


class Rank:
    """One rank in a run directory, started as a launcher starts it: in a session of its own."""

    def __init__(self, folder: Path, run: str, script: Path | None = None) -> None:
        self.folder, self.script = folder, script or folder / "bundle" / "rank.sh"
        (folder / "src").mkdir(parents=True)
        (folder / "bundle").mkdir()
        if script is None:
            self.script.write_text(build_rank_script())
        (folder / "src" / "saves.py").write_text(SAVES)
        (folder / "bundle" / "program.sh").write_text(read(run).text)
        self.env: dict[str, str] = {}

    def environment(self) -> Mapping[str, str]:
        state, logs = self.folder / "state" / "0", self.folder / "logs" / "0" / "0"
        return {
            "PATH": os.environ["PATH"],
            "SLURMD_NODENAME": "n1",
            "JOBGEN_RUN_DIR": str(self.folder),
            "JOBGEN_STATE_DIR": str(state),
            "JOBGEN_LOG_DIR": str(logs),
            "JOBGEN_RESTART": "0",
            "JOBGEN_WORLD_SIZE": "4",
            "JOBGEN_RANKS_PER_NODE": "2",
            "JOBGEN_STEP": "train",
            "RANK": "3",
            "LOCAL_RANK": "1",
            "WORLD_SIZE": "4",
            **self.env,
        }

    def start(self, *before: str) -> subprocess.Popen[bytes]:
        program = ["bash", str(self.folder / "bundle" / "program.sh")]
        with self.path("complaints").open("ab") as complaints:
            return subprocess.Popen(
                # a background job's children inherit that SIGINT is ignored; a launcher's do not
                ["env", "--default-signal", *before, "bash", str(self.script), *program],
                cwd=self.folder / "src",
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stderr=complaints,
                start_new_session=True,
            )

    def run(self) -> tuple[int, str]:
        """Its exit code and what rank.sh itself complained of."""
        return self.start().wait(HANG), self.path("complaints").read_text()

    def events(self) -> tuple[Event, ...]:
        texts = [path.read_text() for path in (self.folder / "state/0/events").glob("0.n1.*")]
        return read_events("".join(texts))

    def end(self) -> Mapping[str, str]:
        """The fields of the end that was recorded; there is one."""
        (found,) = (event for event in self.events() if event.kind == "exit")
        return found.fields

    def path(self, name: str) -> Path:
        return self.folder / name

    def finish(self, code: int = 0) -> None:
        """Let the program end."""
        self.path("end.new").write_text(str(code))
        self.path("end.new").rename(self.path("end"))

    def carriers(self) -> list[int]:
        """Every process that was started with this run directory in its environment."""
        mark = f"JOBGEN_RUN_DIR={self.folder}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in place.read_bytes().split(b"\0"):
                    found.append(int(place.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture
def make_rank(tmp_path: Path) -> Iterator[Callable[..., Rank]]:
    """Makes ranks; what is left of them is killed at the end."""
    made: list[Rank] = []

    def make(run: str, script: Path | None = None) -> Rank:
        made.append(Rank(tmp_path / f"run{len(made)}", run, script))
        return made[-1]

    yield make
    for each in made:
        for pid in each.carriers():
            os.kill(pid, signal.SIGKILL)


# its end


@pytest.mark.parametrize("code", [0, 1, 42, 127])
def test_the_end_is_recorded_and_the_exit_code_is_the_programs(
    make_rank: Callable[..., Rank], code: int
) -> None:
    rank = make_rank(f"bash -c 'exit {code}'")
    before = time.time()
    assert rank.run() == (code, "")
    start, end = rank.events()
    assert (start.kind, start.node, start.rank) == ("start", "n1", 3)
    assert (start.fields["local"], start.fields["world"]) == ("1", "4")
    assert (end.kind, end.fields["code"], end.fields["signal"]) == ("exit", str(code), "0")
    assert before <= start.time <= end.time <= time.time()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
@pytest.mark.parametrize("run", ["sh -c 'kill -{0} $$'", "true\nsh -c 'kill -{0} $$'"])
def test_a_program_that_was_killed_ends_with_128_and_its_signal(
    make_rank: Callable[..., Rank], run: str, number: signal.Signals
) -> None:
    rank = make_rank(run.format(int(number)))
    assert rank.run() == (128 + number, "")
    assert rank.end() == {**rank.end(), "code": str(128 + number), "signal": str(int(number))}


def test_a_rank_that_cannot_start_records_why(make_rank: Callable[..., Rank]) -> None:
    rank = make_rank("true")
    rank.env["WORLD_SIZE"] = "1"
    code, err = rank.run()
    assert (code, rank.end()["code"]) == (97, "97")
    why = "world size is 1, but the job has 4 ranks"
    assert why in err
    assert rank.end()["why"] == why


def test_a_second_start_of_a_rank_is_recorded_in_the_same_file(
    make_rank: Callable[..., Rank],
) -> None:
    rank = make_rank('bash -c "exit $CODE"')
    for code in ("1", "0"):
        rank.env["CODE"] = code
        rank.run()
    assert [event.kind for event in rank.events()] == ["start", "exit"] * 2
    assert [event.fields.get("code") for event in rank.events()] == [None, "1", None, "0"]


def test_the_program_gets_no_file_of_rank_sh(make_rank: Callable[..., Rank]) -> None:
    rank = make_rank("bash -c 'ls -l /proc/$$/fd >../fds'")
    assert rank.run() == (0, "")
    fds = [line.split()[8] for line in rank.path("fds").read_text().splitlines()[1:]]
    assert set(fds) <= {"0", "1", "2", "255"}


# signals


@pytest.mark.parametrize("run", ["saves.py", "true\nsaves.py"])
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_arrives_once_and_the_rank_leaves_after_its_program(
    make_rank: Callable[..., Rank], run: str, name: str
) -> None:
    """The group gets it, as from torchrun; DeepSpeed and Slurm signal every process below."""
    rank = make_rank(run)
    process = rank.start()
    until(rank.path("up").exists, "the program")
    os.killpg(process.pid, getattr(signal, f"SIG{name}"))
    until(rank.path("came").exists, "the signal")
    pid = int(rank.path("up").read_text())
    assert process.poll() is None
    assert pid in rank.carriers()
    rank.finish(5)
    # of several commands no further one starts after a SIGTERM, which the code says
    assert process.wait(HANG) == (143 if name == "TERM" and "\n" in run else 5)
    assert rank.path("saved").exists()
    assert rank.path("came").read_text() == f"SIG{name}"
    assert rank.end()["code"] == str(process.returncode)


def test_a_later_command_does_not_start_after_the_job_was_told_to_end(
    make_rank: Callable[..., Rank],
) -> None:
    rank = make_rank("saves.py\ntouch ../second")
    process = rank.start()
    until(rank.path("up").exists, "the program")
    os.killpg(process.pid, signal.SIGTERM)
    until(rank.path("came").exists, "the signal")
    rank.finish(0)
    assert process.wait(HANG) == 143
    assert rank.path("saved").exists()
    assert not rank.path("second").exists()


@pytest.mark.parametrize("init", [False, True], ids=["itself", "its init"])
@pytest.mark.parametrize("run", ["saves.py", "true\nsaves.py"])
def test_the_first_process_of_a_container_passes_signals_on(
    make_rank: Callable[..., Rank], run: str, init: bool
) -> None:
    """Nobody else does there: docker signals one process, and its init that one's child."""
    rank = make_rank(run)
    words = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    process = rank.start(*words, *(["sh", "-c", '"$@"; exit $?', "init"] if init else []))
    until(rank.path("up").exists, "the program")
    shell = rank_shell(rank)
    os.kill(shell, signal.SIGINT)
    until(rank.path("came").exists, "the signal")
    os.kill(shell, signal.SIGTERM)
    until(lambda: "TERM" in rank.path("came").read_text(), "the second signal")
    rank.finish(5)
    assert process.wait(HANG) == (5 if run == "saves.py" else 143)
    assert rank.path("came").read_text() == "SIGINT SIGTERM"


IN_CGROUP = """
grep() { [[ ${*: -1} == /proc/self/cgroup ]] || command grep "$@"; }
"""
"""As if Slurm tracked this rank by cgroups, which a machine may not have."""


@pytest.mark.parametrize("run", ["saves.py", "true\nsaves.py"])
@pytest.mark.parametrize("name", SIGNALS)
def test_a_rank_that_slurm_itself_started_passes_signals_on(
    make_rank: Callable[..., Rank], run: str, name: str
) -> None:
    """proctrack/cgroup signals the children of slurmstepd only (proctrack_cgroup.c,
    ``_slurm_cgroup_is_pid_a_slurm_task``)."""
    rank = make_rank(run)
    step = rank.path("slurmstepd")
    shutil.copy(shutil.which("bash") or "bash", step)
    rank.path("cgroup").write_text(IN_CGROUP)
    rank.env["BASH_ENV"] = str(rank.path("cgroup"))
    process = rank.start(str(step), "-c", '"$@"; exit $?', "slurmstepd")
    until(rank.path("up").exists, "the program")
    os.kill(rank_shell(rank), getattr(signal, f"SIG{name}"))
    until(rank.path("came").exists, "the signal")
    rank.finish(5)
    assert process.wait(HANG) == (143 if name == "TERM" and "\n" in run else 5)
    assert rank.path("came").read_text() == f"SIG{name}"
    assert rank.end()["code"] == str(process.returncode)


def test_a_signal_during_the_handling_of_another_ends_no_wait(
    make_rank: Callable[..., Rank],
) -> None:
    """bash remembers it, and ends the next wait with its number."""
    rank = make_rank("saves.py")
    rank.path("slow").mkdir()
    grep = rank.path("slow/grep")
    held = f"touch {rank.path('held')}; until [[ -e {rank.path('go')} ]]; do sleep 0.05; done"
    held = f"if [[ $1 == -lsF ]]; then {held}; fi"  # of the handler; another looks for CPUs
    grep.write_text(f'#!/bin/bash\n{held}\nexec {shutil.which("grep")} "$@"\n')
    grep.chmod(0o755)
    rank.env["PATH"] = f"{grep.parent}:{os.environ['PATH']}"
    process = rank.start("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    until(rank.path("up").exists, "the program")
    shell = rank_shell(rank)
    os.kill(shell, signal.SIGINT)
    until(rank.path("held").exists, "the handler")
    os.kill(shell, signal.SIGTERM)
    rank.path("go").touch()
    until(lambda: both(rank), "both signals")
    rank.finish(5)
    assert process.wait(HANG) == 5


HOLDS = """
[[ $0 == */rank.sh ]] || return 0
hold() {
    [[ $BASH_COMMAND == $HELD_COMMAND* && ! -e $JOBGEN_RUN_DIR/held ]] || return 0
    touch "$JOBGEN_RUN_DIR/held"
    until [[ -e $JOBGEN_RUN_DIR/go ]]; do sleep 0.05; done
}
set -o functrace
trap hold DEBUG
"""
"""What bash runs before each command of rank.sh: one waits until the file ``go`` is there."""
BEFORE_START, AFTER_FORK = "run_program", "local child="


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize(
    ("command", "inside"), [(BEFORE_START, False), (BEFORE_START, True), (AFTER_FORK, True)]
)
def test_a_signal_that_comes_before_the_program_ends_it(
    make_rank: Callable[..., Rank], name: str, command: str, inside: bool
) -> None:
    """The launcher's grace ends with SIGKILL: a program that never got the signal cannot save."""
    rank = make_rank("saves.py")
    rank.path("holds").write_text(HOLDS)
    rank.env |= {"BASH_ENV": str(rank.path("holds")), "HELD_COMMAND": command}
    words = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    process = rank.start(*(words if inside else ()))
    until(rank.path("held").exists, "rank.sh before the program")
    if command == AFTER_FORK:  # the program may be there, and only rank.sh gets the signal
        until(rank.path("up").exists, "the program")
    number = getattr(signal, f"SIG{name}")
    os.kill(rank_shell(rank), number)
    rank.path("go").touch()
    if command == AFTER_FORK:
        until(rank.path("came").exists, "the signal")
        assert rank.path("came").read_text() == f"SIG{name}"
        rank.finish(5)
        assert process.wait(HANG) == 5
    else:
        assert process.wait(HANG) == 128 + number
        assert not rank.path("up").exists()
    assert rank.end()["code"] == str(process.returncode)


def both(rank: Rank) -> bool:
    came = rank.path("came")
    return came.exists() and sorted(came.read_text().split()) == ["SIGINT", "SIGTERM"]


def rank_shell(rank: Rank) -> int:
    """The shell that runs rank.sh itself, as seen from outside of the container."""
    shells = {pid for pid in rank.carriers() if runs(pid, rank.script)}
    (shell,) = (pid for pid in shells if parent(pid) not in shells)
    return shell


def runs(pid: int, script: Path) -> bool:
    return cmdline(pid).startswith(b"bash\0%b\0" % bytes(script))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


# nothing lives on

ONE = "sleep 1000"
SEVERAL = "true\nsleep 1000"
DETACHED = "setsid sleep 1001 &\nsleep 1000"


@pytest.mark.parametrize("run", [ONE, SEVERAL, DETACHED], ids=["one", "several", "detached"])
@pytest.mark.parametrize("setpriv", [True, False], ids=["setpriv", "no setpriv"])
def test_no_program_outlives_its_rank_sh(
    make_rank: Callable[..., Rank], tmp_path: Path, run: str, setpriv: bool
) -> None:
    rank = make_rank(run)
    if not setpriv:
        rank.env["PATH"] = str(few_tools(tmp_path / "bin"))
    rank.script = tmp_path / "rank.sh"
    rank.script.write_text(payload.select_blocks(SCRIPT.read_text(), {"unguarded"}))
    process = rank.start()
    until(lambda: sleepers(rank) == run.count("sleep"), "the program")
    process.kill()
    process.wait()
    until(lambda: not rank.carriers(), "the end of all that the rank started")


def test_setpriv_ends_the_program_where_all_of_rank_sh_is_killed(
    make_rank: Callable[..., Rank],
) -> None:
    """As ``pkill -9 -f rank.sh`` does."""
    rank = make_rank(ONE)
    process = rank.start()
    until(lambda: sleepers(rank) == 1, "the program")
    shells = [pid for pid in rank.carriers() if runs(pid, rank.script)]
    assert len(shells) == 2
    for pid in sorted(shells, reverse=True):  # the keeper first
        os.kill(pid, signal.SIGKILL)
    process.wait()
    until(lambda: not rank.carriers(), "the end of the program")


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", [ONE, SEVERAL], ids=["one", "several"])
@pytest.mark.parametrize("setpriv", [True, False], ids=["setpriv", "no setpriv"])
def test_whenever_rank_sh_is_killed_nothing_lives_on(
    make_rank: Callable[..., Rank], tmp_path: Path, run: str, setpriv: bool
) -> None:
    """At any moment of its start: 0 to 60 ms, and longer on a busy machine."""
    path = str(few_tools(tmp_path / "bin"))
    for wait in range(60):
        rank = make_rank(run)
        if not setpriv:
            rank.env["PATH"] = path
        process = rank.start()
        time.sleep(wait / 1000)
        process.kill()
        process.wait()
        until(lambda rank=rank: not rank.carriers(), f"the end, {wait} ms after the start")


def test_a_program_that_ends_well_may_leave_something_behind(
    make_rank: Callable[..., Rank],
) -> None:
    """A tracker that uploads the last values, say. It ends with the job, not with the rank."""
    rank = make_rank("setsid sleep 1000 &\ntrue")
    assert rank.run() == (0, "")
    time.sleep(0.5)
    assert sleepers(rank) == 1


# a rank that Slurm cannot end


def test_a_guarded_rank_is_asked_to_end_once_and_then_killed(
    make_rank: Callable[..., Rank], tmp_path: Path
) -> None:
    script = tmp_path / "rank.sh"
    text = payload.select_blocks(SCRIPT.read_text(), {"guard"})
    script.write_text(text.replace("read -r -t 30", "read -r -t 4"))
    assert script.read_text() != text
    rank = make_rank("true\nsaves.py", script)
    rank.env["JOBGEN_GUARD"] = "1"
    process = rank.start()
    until(rank.path("up").exists, "the program")
    rank.path("cancel").touch()
    until(rank.path("came").exists, "the signal")
    assert process.wait(HANG) == 137
    assert rank.path("came").read_text() == "SIGTERM"
    assert not rank.path("saved").exists()
    until(lambda: not rank.carriers(), "the end of all that the rank started")


def test_a_guarded_rank_that_torchrun_starts_again_ends_no_other(
    make_rank: Callable[..., Rank],
) -> None:
    """In docker: torchrun itself ends the ranks beside it, and all of them start anew."""
    rank = make_rank("false")
    rank.env |= {"JOBGEN_GUARD": "1", "TORCHELASTIC_MAX_RESTARTS": "2"}
    assert rank.run()[0] == 1
    assert not rank.path("state/0/failed.0").exists()
    rank.env["TORCHELASTIC_MAX_RESTARTS"] = "0"
    assert rank.run()[0] == 1
    assert rank.path("state/0/failed.0").exists()


NAME = "org/a.model-1"
HUB = {"JOBGEN_HUB_MODEL": NAME, "HF_HUB_OFFLINE": "1", "LOCAL_RANK": "0"}


def fill_cache(cache: Path) -> None:
    """A model as the Hub's library keeps it, and finds it again."""
    hub = pytest.importorskip("huggingface_hub")
    names = pytest.importorskip("huggingface_hub.file_download")
    folder = cache / names.repo_folder_name(repo_id=NAME, repo_type="model")
    blob, snapshot = folder / "blobs" / "b10b", folder / "snapshots" / ("c0" * 20)
    for each in (blob.parent, snapshot, folder / "refs"):
        each.mkdir(parents=True)
    blob.write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/b10b")
    (folder / "refs" / "main").write_text("c0" * 20)
    assert hub.try_to_load_from_cache(NAME, "config.json", cache_dir=cache) is not None


@pytest.mark.parametrize("where", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"])
def test_a_model_is_found_where_the_hub_s_library_keeps_it(
    make_rank: Callable[..., Rank], tmp_path: Path, where: str
) -> None:
    below = {"HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub"}
    below |= {"HF_HUB_CACHE": "", "HOME": ".cache/huggingface/hub"}
    rank = make_rank("true")
    rank.env |= {"HOME": str(tmp_path), **HUB, "JOBGEN_HUB_REQUIRED": "1", where: f"{tmp_path}/a b"}
    code, complaint = rank.run()
    cache = tmp_path / "a b" / below[where]
    assert code == 97
    assert f"{NAME} is not in the Hugging Face cache" in complaint
    command = complaint.split("on a login node: ")[1].strip()
    shows = f'hf() {{ printf \'%s|\' "$HF_HUB_CACHE" "$@"; }}; {command}'
    done = subprocess.run(["bash", "-c", shows], capture_output=True, text=True)
    assert done.stdout == f"{cache}|download|{NAME}|"
    assert "Hugging Face cache" in rank.end()["why"]
    fill_cache(cache)
    assert rank.run()[0] == 0


def test_a_model_that_may_be_elsewhere_is_a_warning_of_one_rank(
    make_rank: Callable[..., Rank], tmp_path: Path
) -> None:
    rank = make_rank("true")
    rank.env |= {"HOME": str(tmp_path), **HUB, "LOCAL_RANK": "1"}
    assert rank.run() == (0, "")
    rank.env |= {"LOCAL_RANK": "0", "HF_HUB_OFFLINE": "0"}
    assert rank.run() == (0, "")
    (rank.folder / "src" / NAME).mkdir(parents=True)
    rank.env |= {"HF_HUB_OFFLINE": "1"}
    assert rank.run() == (0, "")
    (rank.folder / "src" / NAME).rmdir()
    code, complaint = rank.run()
    assert code == 0
    assert f"warning: {NAME} is not in the Hugging Face cache" in complaint


def test_the_script_is_clean() -> None:
    """What a job gets of it is counted in tests/golden; here all of its blocks stand."""
    done = subprocess.run([shellcheck(), str(SCRIPT)], capture_output=True, text=True)
    assert not done.stdout, done.stdout


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def sleepers(rank: Rank) -> int:
    """How many of its processes are the sleeps of these programs."""
    return sum(cmdline(pid).startswith(b"sleep\x00100") for pid in rank.carriers())


def few_tools(folder: Path) -> Path:
    """A PATH without setpriv, as in a container or on an older release of util-linux."""
    folder.mkdir()
    for name in TOOLS:
        where = shutil.which(name)
        assert where, name
        (folder / name).symlink_to(where)
    return folder
