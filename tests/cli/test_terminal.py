"""A person at a terminal: following, leaving, coming back. Real jobs on this machine."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pexpect
import pyte
import pytest

from tests.cli.conftest import ROOT, home_of, process
from tests.terminals import spawn_on_terminal
from tests.waiting import HANG

JOB = """\
name: talk
nodes: 2
procs_per_node: 1
time: 1h
launcher: srun
run: bash talk.sh
"""
TALK = """\
printf 'common\\nmine %s\\n\\033]0;evil\\007[rank1] 100%% [/]\\n' "$SLURM_PROCID"
for i in $(seq 1 9000); do echo "step $i of rank $SLURM_PROCID"; sleep 0.2; done
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "talk.sh").write_text(TALK)
    return tmp_path


class Terminal:
    """The program on a terminal of its own, and what is on its screen."""

    def __init__(self, folder: Path, *words: str, columns: int = 100, **environ: str) -> None:
        self.screen = pyte.Screen(columns, 40)
        self._stream = pyte.ByteStream(self.screen)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home_of(folder)),
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            **environ,
        }
        self.child = spawn_on_terminal(
            sys.executable,
            ["-m", "jobgen", *words],
            cwd=str(folder),
            env=env,
            dimensions=(40, columns),
            timeout=HANG,
        )
        self.child.logfile_read = self

    def write(self, data: bytes) -> None:
        self._stream.feed(data)

    def flush(self) -> None:
        pass

    def ended(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.wait()
        self.child.close()
        return int(self.child.exitstatus)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).strip()


@pytest.mark.slow
def test_a_job_is_followed_left_found_again_and_cancelled(folder: Path) -> None:
    submit = Terminal(folder, "submit", "job.yaml", "-c", "local", "--follow")
    submit.child.expect(rb"Ctrl-C detaches")
    submit.child.expect(rb"step 3 of rank 1")
    submit.child.sendintr()
    assert submit.ended() == 130
    assert "Detached. talk-1 keeps running (RUNNING)." in submit.text
    assert "follow  jobgen logs talk-1 -f" in submit.text
    assert "cancel  jobgen cancel talk-1" in submit.text
    assert "[rank1] 100% [/]" in submit.text
    assert submit.screen.title == ""

    # equal lines that are read at once are shown as one; as they come, they may be too far apart
    shown = Terminal(folder, "logs", "@last", "--grep", "common")
    assert shown.ended() == 0
    assert re.search(r"^\* +r\* \| common$", shown.text, re.M), shown.text

    logs = Terminal(folder, "logs", "@last", "-f", "--rank", "1", columns=60)
    logs.child.expect(rb"step 4 of rank 1")
    logs.child.sendintr()
    assert logs.ended() == 0
    assert "follow  jobgen logs talk-1 -f" in logs.text
    assert "of rank 0" not in logs.text

    assert process("wait", "talk-1", "--timeout", "1s", cwd=folder).returncode == 124
    cancelled = process("cancel", "talk-1", cwd=folder)
    assert (cancelled.returncode, cancelled.stdout) == (0, "talk-1  CANCELLED\n")
    assert process("wait", "@last", cwd=folder).returncode == 1
    assert process("logs", "@last", "--exit-status", cwd=folder).returncode == 1


@pytest.mark.slow
def test_data_and_talk_are_kept_apart_without_a_terminal(folder: Path) -> None:
    (folder / "talk.sh").write_text("echo hello from $SLURM_PROCID; echo oops >&2; sleep 1")
    submitted = process("submit", "job.yaml", "-c", "local", "-q", cwd=folder, FORCE_COLOR="1")
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.strip()
    assert job.isdigit()
    assert submitted.stderr == ""
    assert process("wait", job, cwd=folder).returncode == 0
    logs = process("logs", job, cwd=folder)
    assert "r0 | hello from 0" in logs.stdout
    assert "r* ! oops" in logs.stdout
    assert logs.stderr == ""
    raw = process("logs", job, "--rank", "1", "--stdout", "--raw", cwd=folder)
    assert raw.stdout == "hello from 1\n"


def test_a_rendered_file_cannot_act_on_a_terminal(folder: Path) -> None:
    own = folder / "templates" / "slurm"
    own.mkdir(parents=True)
    (own / "node.sh.j2").write_text("\x1b]0;owned\x07# \x1b[8mhidden")
    words = ("render", "job.yaml", "-c", "a100x16", "--file", "node.sh")
    terminal = Terminal(folder, *words)
    assert terminal.ended() == 0
    assert r"\x1b]0;owned\x07# \x1b[8mhidden" in terminal.text
    assert terminal.screen.title == ""
    assert process(*words, cwd=folder).stdout == "\x1b]0;owned\x07# \x1b[8mhidden"


def test_a_template_that_fails_cannot_act_on_a_terminal(folder: Path) -> None:
    own = folder / "templates" / "slurm"
    own.mkdir(parents=True)
    (own / "node.sh.j2").write_text("{{ '\x1b]0;owned\x07' + 1 }}")
    terminal = Terminal(folder, "render", "job.yaml", "-c", "a100x16")
    assert terminal.ended() == 3
    assert terminal.screen.title == ""
    assert "node.sh.j2" in terminal.text


def test_raw_logs_do_not_reach_a_terminal(folder: Path) -> None:
    terminal = Terminal(folder, "logs", "x", "--raw")
    assert terminal.ended() == 2
    assert "jobgen logs ID --raw > FILE" in terminal.text


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_that_may_be_folded_fit_the_terminal(folder: Path, columns: int) -> None:
    terminal = Terminal(folder, "ls", columns=columns)
    assert terminal.ended() == 0
    assert "jobgen submit job.yaml" in terminal.text


def test_no_color_is_heeded_on_a_terminal(folder: Path) -> None:
    terminal = Terminal(folder, "show", "x", NO_COLOR="1")
    raw = terminal.child.read()
    terminal.ended()
    assert b"\x1b[1" not in raw


SLOW_GOODBYE = """\
import sys, time
from jobgen.cli.call import Call
from jobgen.cli.following import Detachable
from jobgen.cli.output import Output
with Detachable(Call(Output()), code=130):
    try:
        print("ready", flush=True)
        time.sleep(3600)
    finally:
        print("leaving", flush=True)
        time.sleep(3600)
"""


def test_a_second_interrupt_leaves_at_once(folder: Path) -> None:
    child = spawn_on_terminal(
        sys.executable, ["-c", SLOW_GOODBYE], env={"PYTHONPATH": str(ROOT)}, timeout=HANG
    )
    child.expect("ready")
    child.sendintr()
    child.expect("leaving")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 130


@pytest.mark.slow
def test_following_in_json_is_one_event_a_line(folder: Path) -> None:
    (folder / "talk.sh").write_text("echo one; sleep 2; exit 3\n")
    done = process("submit", "job.yaml", "-c", "local", "-f", "--json", cwd=folder)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [e["event"] for e in events[:1] + events[-2:]] == ["submitted", "end", "ended"]
    assert {"line", "state"} <= {e["event"] for e in events}
    assert [e["n"] for e in events if e.get("line") == "one"] in ([2], [1, 1])
    assert events[-1]["jobs"][0]["state"] == "FAILED"
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_log_that_cannot_be_read_fails_logs_and_not_the_job(folder: Path) -> None:
    (folder / "talk.sh").write_text("echo one\n")
    (folder / "dd").write_text(
        "#!/bin/sh\n"
        "case $1 in if=*.1.out) echo broken >&2; exit 1 ;; esac\n"
        f'exec {shutil.which("dd")} "$@"\n'
    )
    (folder / "perl").write_text("#!/bin/sh\nexit 1\n")  # dd reads logs where there is no perl
    for tool in ("dd", "perl"):
        (folder / tool).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = process("submit", "job.yaml", "-c", "local", "-f", cwd=folder, PATH=path)
    assert done.returncode == 0
    assert "not all logs could be read" in done.stderr
    read = process("logs", "@last", "--stdout", "--raw", cwd=folder, PATH=path)
    assert (read.returncode, read.stdout) == (1, "one\n")
    assert re.search(r"error\[J410\].*\.1\.out: broken", read.stderr)
