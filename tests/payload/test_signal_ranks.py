"""signal_ranks.sh beside real processes: which of a rank's processes get the signal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.shellcheck import shellcheck
from tests.waiting import until

SCRIPT = Path(__file__).parents[2] / "jobgen" / "payload" / "signal_ranks.sh"

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
name = sys.argv[1]
def note(number, _):
    with open(f"came.{name}", "a") as file:
        file.write(f"{os.getpid() == me} {signal.Signals(number).name}\\n")
me = os.getpid()
if "handles" in sys.argv:
    signal.signal(signal.SIGUSR1, note)
if os.fork() == 0 and "busy" in sys.argv:
    any(os.fork() == 0 for _ in range(40))
    Path(f"up.{name}.busy").touch()
    while not Path("end").exists():
        [time.sleep(0.0001) for _ in range(100)]
    os._exit(0)
Path(f"up.{name}.{os.getpid()}").touch()
while not Path("end").exists():
    time.sleep(0.02)
if os.getpid() == me:
    os.wait()
"""
"""A rank with one worker, which inherits the handler."""


@contextmanager
def processes(
    folder: Path, programs: Mapping[str, tuple[str, str, bool]], *, busy: bool = False
) -> Iterator[None]:
    """Programs by name: of which run directory, as which start of a rank, and whether they handle
    the signal. All end well. Busy ones have 40 workers that sleep and wake all the time."""
    (folder / "program.py").write_text(PROGRAM)
    started = []
    for number, (name, (state, rank_id, handles)) in enumerate(programs.items()):
        ours = {"JOBGEN_STATE_DIR": str(folder / state), "RANK": str(number)}
        if name.startswith("on "):
            ours["SLURMD_NODENAME"] = name.removeprefix("on ")
        words = [sys.executable, "program.py", name, *["handles"] * handles, *["busy"] * busy]
        env = {**os.environ, **ours, **({"JOBGEN_RANK_ID": rank_id} if rank_id else {})}
        started.append(subprocess.Popen(words, cwd=folder, env=env))
    try:
        until(lambda: len([*folder.glob("up.*")]) == 2 * len(started), "all programs")
        yield
    finally:
        (folder / "end").touch()
        assert [process.wait() for process in started] == [0] * len(started)


def send(folder: Path, state: str, seconds: int = 600) -> subprocess.CompletedProcess[str]:
    (folder / state).mkdir(exist_ok=True)
    ours = {"JOBGEN_STATE_DIR": str(folder / state), "JOBGEN_RESTART": "0"}
    return subprocess.run(
        ["bash", str(SCRIPT), "USR1", str(seconds)],
        env={**os.environ, **ours, "SLURMD_NODENAME": "n1"},
        capture_output=True,
        text=True,
        check=True,
    )


def came(folder: Path, name: str) -> str:
    file = folder / f"came.{name}"
    until(lambda: file.exists() and file.stat().st_size, f"the signal at {name}")
    return file.read_text()


def test_the_script_is_clean() -> None:
    subprocess.run([shellcheck(), "-s", "bash", str(SCRIPT)], check=True)


def test_the_program_gets_it_once_and_its_worker_never(tmp_path: Path) -> None:
    programs = {
        "one": ("state", "1.1.", True),
        "two": ("state", "2.1.", True),
        "other job": ("elsewhere", "3.1.", True),
        "no rank": ("state", "", True),
        "on n1": ("state", "4.1.", True),
        "on n2": ("state", "5.1.", True),
    }
    with processes(tmp_path, programs):
        done = send(tmp_path, "state")
        assert came(tmp_path, "one") == came(tmp_path, "two") == "True SIGUSR1\n"
        assert came(tmp_path, "on n1") == "True SIGUSR1\n"
        assert done.stderr == ""
    names = {file.name.removeprefix("came.") for file in tmp_path.glob("came.*")}
    assert names == {"one", "two", "on n1"}, "n2 may be this machine too"


def test_a_program_without_a_handler_lives_on_and_is_named(tmp_path: Path) -> None:
    with processes(tmp_path, {"one": ("state", "1.1.", True), "two": ("state", "2.1.", False)}):
        done = send(tmp_path, "state", seconds=5)
        assert "n1: no process of rank 1 handles SIGUSR1 yet: not sent" in done.stderr
        assert came(tmp_path, "one") == "True SIGUSR1\n"


def test_no_worker_gets_it_whose_status_changes_while_it_is_read(tmp_path: Path) -> None:
    with processes(tmp_path, {"one": ("state", "1.1.", True)}, busy=True):
        send(tmp_path, "state")
        assert came(tmp_path, "one") == "True SIGUSR1\n"
