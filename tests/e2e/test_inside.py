"""Into a running job on a real Slurm through a real sshd: commands, a terminal, and ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cluster import Cluster
from tests.cluster.client import JOBGEN
from tests.cluster.texts import profile
from tests.e2e.runs import Run, submit, write
from tests.terminals import spawn_on_terminal, spawn_sized
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

BACKENDS = ("paramiko", "openssh")
SERVES = """\
import http.server, os, pathlib
number = os.environ["JOBGEN_NODE_RANK"]
pathlib.Path(f"page.{number}").write_text(f"rank {number}")
server = http.server.ThreadingHTTPServer(("", 6006), http.server.SimpleHTTPRequestHandler)
pathlib.Path(os.environ["JOBGEN_RUN_DIR"], f"up.{number}").touch()
server.serve_forever()
"""
JOB: dict[str, Any] = {
    "name": "serves",
    "run": "python3 serves.py",
    "nodes": 2,
    "procs_per_node": 1,
    "time": "10m",
    "launcher": "plain",
    "preflight": "off",
    "env": {"TUNED": "it's 50 % $$"},
}


def start(cluster: Cluster, folder: Path, backend: str = "paramiko", **keys: Any) -> Run:
    """A job over this backend, submitted."""
    folder.mkdir()
    (folder / "serves.py").write_text(SERVES)
    ssh = {**profile(cluster.layout)["ssh"], "backend": backend}
    return submit(cluster, write(folder, {**JOB, **keys}), cluster.profile(ssh=ssh))


def await_ranks(run: Run, count: int = 2) -> None:
    until(lambda: len([*run.directory.glob("up.*")]) == count, run.story)


@pytest.fixture(scope="module", params=BACKENDS)
def run(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Run]:
    """A web server on each of two nodes."""
    run = start(cluster, tmp_path_factory.mktemp("inside") / "job", request.param)
    await_ranks(run)
    yield run
    run.jobgen("cancel")


def find_nodes(run: Run) -> list[str]:
    """The nodes of the run, in the order of its ranks."""
    files = sorted((run.directory / "state" / "0" / "pids").iterdir(), key=lambda p: p.suffix)
    return [path.stem for path in files]


def test_a_command_runs_beside_a_rank_as_the_rank_does(run: Run) -> None:
    first, second = find_nodes(run)
    shows = 'hostname; pwd; echo "$JOBGEN_NODE_RANK $MASTER_ADDR $SLURM_JOB_ID $TUNED"; exit 7'
    for choice, node, rank in (
        ([], first, 0),
        (["--node", second], second, 1),
        (["--rank", "1"], second, 1),
    ):
        done = run.jobgen("sh", *choice, "--", "bash", "-c", shows)
        lines = [node, f"{run.directory}/src", f"{rank} {first} {run.job} it's 50 % $"]
        assert done.stdout.split("\n")[:-1] == lines
        assert done.returncode == 7


def test_words_and_bytes_arrive_as_they_are(run: Run) -> None:
    words = ["a b", "it's", "$HOME", "`id`", "", "*", "é\n!"]
    done = run.jobgen("sh", "--", "printf", "<%s>", *words)
    assert done.stdout == "".join(f"<{word}>" for word in words)
    data = bytes(range(256)) * 4000
    command = run.cluster.client.words([*JOBGEN, "sh", run.id, "--rank", "1", "--", "cat"])
    copied = subprocess.run(command, input=data, capture_output=True, timeout=HANG)
    assert copied.stdout == data


def test_json_holds_what_a_command_printed_and_how_it_ended(run: Run) -> None:
    done = run.jobgen("sh", "--rank", "1", "--json", "--", "sh", "-c", "echo out; exit 3")
    data = json.loads(done.stdout)["data"]
    assert done.returncode == data["exit"] == 3
    assert (data["rank"], data["node"]) == (1, find_nodes(run)[1])
    assert data["stdout"] == "out\n"


def test_a_shell_has_the_person_s_terminal(run: Run) -> None:
    words = run.cluster.client.words([*JOBGEN, "sh", run.id, "--rank", "1"])
    child = spawn_sized(words[0], words[1:], 30, 100, timeout=HANG)
    child.expect_exact("beside rank 1")
    prompt = f"({run.id} {find_nodes(run)[1]}) "
    child.expect_exact(prompt)
    child.sendline("echo $JOBGEN_NODE_RANK-$(stty size)-$TUNED")
    child.expect_exact("1-30 100-it's 50 % $")
    # the size arrives some time after it has changed; so does the interrupt
    child.setwinsize(41, 123)
    child.sendline("until [ \"$(stty size)\" = '41 123' ]; do sleep 0.1; done; echo resiz''ed")
    child.expect_exact("resized")
    # it prints when it is in the foreground: an earlier Ctrl-C would be the shell's alone
    child.sendline("sh -c 'echo wai\"\"ting; exec sleep 1000'")
    child.expect_exact("waiting")
    child.sendintr()
    child.expect_exact(prompt)
    child.sendline("echo ended with $?")
    child.expect_exact("ended with 130")
    child.sendline("sleep 3003 &")
    child.expect_exact(prompt)
    child.sendline("exit 9")
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 9


def test_what_nobody_waits_for_any_more_ends(run: Run) -> None:
    words = [*JOBGEN, "sh", run.id, "--", "bash", "-c", "touch ../begun; exec sleep 3003"]
    command = run.cluster.client.words(words)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until((run.directory / "begun").exists, "the command to run")
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=HANG)
    assert child.returncode == 130, said
    (run.directory / "begun").unlink()
    node = find_nodes(run)[0]
    until(lambda: not sleepers(run, node), "the command to end")


def sleepers(run: Run, node: str) -> list[str]:
    return [p.command for p in run.cluster.processes(node, "sleep") if "3003" in p.command]


def fetch(run: Run, url: str, path: str) -> str:
    """A page, as the client host sees it; empty where the connection is closed."""
    program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    words = ["python3", "-c", program, f"{url}/{path}"]
    return run.cluster.client.run(words).stdout.strip()


def forward(run: Run, *words: str) -> pexpect.spawn:
    command = run.cluster.client.words([*JOBGEN, "port", run.id, *words])
    return spawn_on_terminal(command[0], command[1:], encoding="utf-8", timeout=HANG)


def test_a_port_of_a_node_is_here_until_ctrl_c(run: Run) -> None:
    child = forward(run, "6006", "--rank", "1")
    child.expect(r"(http://127\.0\.0\.1:\d+) ")
    assert child.match is not None
    url = child.match[1]
    for _ in range(3):
        assert fetch(run, url, "page.1") == "rank 1"
    child.sendintr()
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 0
    assert fetch(run, url, "page.1") == ""


def test_a_port_that_is_taken_here_gets_another_number(run: Run) -> None:
    child = forward(run, "6006:7007")
    child.expect_exact("http://127.0.0.1:7007 ")
    other = forward(run, "6006:7007", "--rank", "1")
    other.expect(r"(http://127\.0\.0\.1:\d+) ")
    assert other.match is not None
    url = other.match[1]
    assert not url.endswith(":7007")
    other.expect_exact("port 7007 of this machine is taken")
    assert fetch(run, "http://127.0.0.1:7007", "page.0") == "rank 0"
    assert fetch(run, url, "page.1") == "rank 1"
    for each in (child, other):
        each.sendintr()
        each.expect(pexpect.EOF)
        each.close()


def test_a_server_on_the_loopback_of_a_node_is_reached(run: Run) -> None:
    child = forward(run, "6007")
    child.expect_exact("nothing listens on port 6007 of ")
    child.expect_exact(" yet")
    assert fetch(run, "http://127.0.0.1:6007", "") == ""
    child.expect_exact("cannot connect to port 6007 of ")
    words = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "6007"]
    command = run.cluster.client.words([*JOBGEN, "sh", run.id, "--", *words])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("Serving HTTP on 127.0.0.1")
        assert fetch(run, "http://127.0.0.1:6007", "page.0") == "rank 0"
        local = forward(run, "6007:7008")
        local.expect_exact("accepts only connections from the node itself")
        for _ in range(2):
            assert fetch(run, "http://127.0.0.1:7008", "page.0") == "rank 0"
        for each in (local, child):
            each.sendintr()
            each.expect(pexpect.EOF)
            each.close()
        server.send_signal(signal.SIGINT)


def test_json_names_the_url_before_the_port_is_closed(run: Run) -> None:
    command = run.cluster.client.words([*JOBGEN, "port", run.id, "6006", "--json"])
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    data = json.loads(child.stdout.readline())["data"]
    assert fetch(run, data["url"], "page.0") == "rank 0"
    assert (data["listening"], data["port"]) == ("network", 6006)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=HANG)
    assert child.returncode == 0


def test_a_port_outlives_the_connection(run: Run) -> None:
    child = forward(run, "6006", "--rank", "1")
    child.expect(r"(http://127\.0\.0\.1:\d+) ")
    assert child.match is not None
    url = child.match[1]
    assert fetch(run, url, "page.1") == "rank 1"
    for process in run.cluster.processes("login", "sshd"):
        if "@" in process.command:  # a session, not the one that listens
            os.kill(process.pid, signal.SIGKILL)
    child.expect_exact("connecting again")
    until(lambda: fetch(run, url, "page.1") == "rank 1", "the port to work again")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 0


def test_a_run_that_waits_or_has_ended_is_refused_and_an_open_port_ends_with_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    waits = start(cluster, tmp_path / "waits", slurm={"begin": "now+1hour"})
    for words in (["sh", "--", "true"], ["port", "6006"]):
        done = waits.jobgen(*words)
        assert done.returncode == 1
        assert "does not run: PENDING" in done.stderr
    waits.jobgen("cancel")
    ends = start(cluster, tmp_path / "ends", name="ends")
    await_ranks(ends)
    child = forward(ends, "6006")
    child.expect_exact("http://127.0.0.1:")
    ends.jobgen("cancel")
    child.expect_exact("CANCELLED")
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 0
    done = ends.jobgen("sh", "--", "true")
    assert done.returncode == 1
    assert "has ended: CANCELLED" in done.stderr


def test_an_element_of_an_array_is_entered_by_its_index(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path / "job", nodes=1, array="3-4", name="arr")
    await_ranks(run, 1)
    pids = run.directory / "state"
    until(lambda: all([*(pids / str(n) / "pids").glob("*")] for n in (3, 4)), run.story)
    for index in (3, 4):
        words = ["--", "sh", "-c", "echo $SLURM_ARRAY_TASK_ID"]
        done = cluster.client.jobgen("sh", f"{run.id}[{index}]", *words)
        assert done.stdout == f"{index}\n", done.stderr
    refused = run.jobgen("sh", "--", "true")
    assert refused.returncode == 2
    assert "name one element" in refused.stderr
    run.jobgen("cancel")
