"""Into a running job on this machine, as a person does it from a terminal and from a script."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Jobgen, home_of, process
from tests.cli.test_terminal import Terminal
from tests.waiting import HANG, until

JOB = """\
name: serves
nodes: 2
procs_per_node: 1
time: 1h
launcher: plain
run: python3 serves.py
"""
SERVES = """\
import http.server, os, pathlib
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
file = pathlib.Path(os.environ["JOBGEN_RUN_DIR"], "port." + os.environ["JOBGEN_NODE_RANK"])
file.with_suffix(".new").write_text(str(server.server_port))
file.with_suffix(".new").rename(file)
pathlib.Path("page").write_text("a page")
server.serve_forever()
"""


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Submits the job, with more lines; gives its run directory, and cancels it in the end."""
    submitted = []

    def run(*lines: str) -> Path:
        (tmp_path / "job.yaml").write_text("\n".join([JOB, *lines, ""]))
        (tmp_path / "serves.py").write_text(SERVES)
        done = process("submit", "-c", "local", "--json", cwd=tmp_path)
        data = json.loads(done.stdout)["data"]["job"]
        submitted.append(data["id"])
        return Path(data["dir"])

    yield run
    for name in submitted:
        process("cancel", name, cwd=tmp_path)


@pytest.fixture
def run(submit: Callable[..., Path]) -> Path:
    """The directory of a job whose two ranks are up."""
    folder = submit()
    until(lambda: [*folder.glob("port.0")] and [*folder.glob("port.1")], "the ranks")
    return folder


@pytest.mark.slow
def test_a_command_and_a_shell_run_beside_a_rank(run: Path, tmp_path: Path) -> None:
    shows = 'echo "$JOBGEN_NODE_RANK $PWD"; tr "\\0" " " </proc/$JOBGEN_RANK_PID/cmdline; exit 7'
    done = process("sh", "@last", "--rank", "1", "--", "sh", "-c", shows, cwd=tmp_path)
    assert done.returncode == 7
    assert done.stdout.startswith(f"1 {run}/src\n")
    assert "serves.py" in done.stdout
    done = process("sh", "@last", "--node", "local2", "--json", "--", "pwd", cwd=tmp_path)
    data = json.loads(done.stdout)["data"]
    assert (data["node"], data["rank"], data["exit"]) == ("local2", 1, 0)
    assert data["stdout"] == f"{run}/src\n"
    shell = Terminal(tmp_path, "sh", "@last", "--rank", "1")
    shell.child.expect_exact(b"serves-1 on local2, beside rank 1")
    shell.child.expect_exact(b"(serves-1 local2) ")
    shell.child.sendline(b"echo rank=$JOBGEN_NODE_RANK; exit 5")
    shell.child.expect_exact(b"rank=1")
    assert shell.ended() == 5


@pytest.mark.slow
def test_ctrl_c_is_for_the_command_and_jobgen_waits_for_it(run: Path, tmp_path: Path) -> None:
    words = "trap 'sleep 0.3; echo caught; exit 6' INT; echo ready; while :; do sleep 0.05; done"
    terminal = Terminal(tmp_path, "sh", "@last", "--", "bash", "-c", words)
    terminal.child.expect_exact(b"ready")
    terminal.child.sendintr()
    terminal.child.expect_exact(b"caught")
    assert terminal.ended() == 6
    assert run.exists()


@pytest.mark.slow
def test_a_port_of_this_machine_is_named_or_forwarded(run: Path, tmp_path: Path) -> None:
    port = int((run / "port.1").read_text())
    done = process("port", "@last", str(port), "--rank", "1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"http://127.0.0.1:{port}  (serves-1: port {port} of local2)\n"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["port", "@last", f"{port}:{taken.getsockname()[1]}", "--json"]
        env = {"PATH": os.environ["PATH"], "HOME": str(home_of(tmp_path)), "PYTHONPATH": str(ROOT)}
        child = subprocess.Popen(
            [sys.executable, "-m", "jobgen", *words],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        data = json.loads(child.stdout.readline())["data"]
        assert data["local_port"] not in (port, taken.getsockname()[1])
    with socket.create_connection(("127.0.0.1", data["local_port"]), HANG) as plug:
        plug.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        assert b"".join(iter(lambda: plug.recv(4096), b"")).endswith(b"a page")
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=HANG)
    assert child.returncode == 0
    assert re.search(r"port \d+ of this machine is taken: using", said)


@pytest.mark.slow
def test_a_port_is_closed_when_the_job_ends(run: Path, tmp_path: Path) -> None:
    port = int((run / "port.0").read_text())
    terminal = Terminal(tmp_path, "port", "@last", f"{port}:{port ^ 1}")
    terminal.child.expect_exact(b"http://127.0.0.1:")
    process("cancel", "@last", cwd=tmp_path)
    assert terminal.ended() == 0
    assert "serves-1 is CANCELLED" in terminal.text
    done = process("sh", "@last", "--", "true", cwd=tmp_path)
    assert done.returncode == 1
    assert "serves-1 has ended: CANCELLED" in done.stderr
    assert "jobgen logs serves-1" in done.stderr


@pytest.mark.slow
def test_what_does_not_fit_is_refused(submit: Callable[..., Path], tmp_path: Path) -> None:
    submit("slurm: {begin: now+1hour}")
    for words in (["sh", "@last", "--", "true"], ["port", "@last", "6006"]):
        done = process(*words, cwd=tmp_path)
        assert done.returncode == 1
        assert "serves-1 does not run: PENDING" in done.stderr
    no_command = process("sh", "@last", cwd=tmp_path)
    assert no_command.returncode == 2
    assert "a shell needs a terminal" in no_command.stderr
    no_json = process("sh", "@last", "--json", cwd=tmp_path)
    assert (no_json.returncode, json.loads(no_json.stdout)["ok"]) == (2, False)


@pytest.mark.parametrize("value", ["0", "65536", "6006:", "6006:0", ":1", "http", "-1", "6006:7:8"])
def test_what_is_no_port_is_refused(jobgen: Jobgen, value: str) -> None:
    done = jobgen("port", "--", "@last", value)
    assert done.code == 2
    assert "expected a port such as 6006" in done.err


def test_a_run_that_is_unknown_is_missing(jobgen: Jobgen) -> None:
    assert jobgen("sh", "nothing", "--", "true").code == 7
    assert jobgen("port", "nothing", "6006").code == 7
