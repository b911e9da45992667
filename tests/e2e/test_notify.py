"""Messages of a real job to a real web server: a failure, a requeue, a server that is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, submit, write
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

folder = Path(sys.argv[2])

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with (folder / "messages").open("ab") as file:
            file.write(body + b"\\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = HTTPServer((sys.argv[1], 0), Handler)
(folder / "port.new").write_text(str(server.server_address[1]))
(folder / "port.new").rename(folder / "port")
server.serve_forever()
"""
SAVES = """
import os, time
from pathlib import Path
print("begins", flush=True)
while os.environ["JOBGEN_RESTART"] == "0" and not Path(os.environ["JOBGEN_STOP_FILE"]).exists():
    time.sleep(0.05)
if os.environ["JOBGEN_RESTART"] == "0":
    Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()
"""
ON = ["start", "fail", "end"]


class Server:
    """A web server on the client host, which the nodes reach."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def messages(self) -> list[dict[str, Any]]:
        path = self.folder / "messages"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    address = cluster.layout.address("client")
    words = [sys.executable, str(folder / "server.py"), address, str(folder)]
    process = subprocess.Popen([*cluster.enter("client", user="root"), *words])
    try:
        until((folder / "port").exists, "the server's port")
        port = (folder / "port").read_text()
        yield Server(f"http://{address}:{port}/s3cr3t", folder)
    finally:
        process.kill()
        process.wait(timeout=HANG)


def notified(
    cluster: Cluster, folder: Path, url: str, program: str, on: list[str], **keys: Any
) -> Run:
    """A job of two nodes whose webhook is a secret."""
    (folder / "job").mkdir()
    (folder / "job" / "main.py").write_text(program)
    (folder / "hook").write_text(url)
    job = {
        "name": "notified",
        "run": "main.py",
        "nodes": 2,
        "procs_per_node": 1,
        "time": "1h",
        "launcher": "srun",
        "secrets": {"HOOK": {"file": str(folder / "hook")}},
        "notify": {"webhook": "$HOOK", "on": on},
    }
    path = write(folder / "job", {**job, **keys})
    return submit(cluster, path, None, "--allow-outside")


def test_a_failure_is_posted_with_the_first_rank_and_the_url_stays_secret(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    fails = "import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n"
    run = notified(cluster, tmp_path, server.url, fails, ON)
    assert run.wait() == 1, run.story()
    until(lambda: len(server.messages()) == 2, run.story)
    start, last = server.messages()
    assert (start["event"], start["job_id"]) == ("start", run.job)
    assert (last["event"], last["exit_code"], last["name"]) == ("fail", 3, "notified")
    assert last["first_failure"]["rank"] == 1
    assert last["first_failure"]["node"] != last["node"], "rank 1 is on the second node"
    until(lambda: cluster.state(run.job) == "FAILED", run.story)
    kept = [path for path in run.directory.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"s3cr3t" in path.read_bytes()]


def test_a_requeued_job_posts_each_of_its_starts(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    stop = {"grace": "30m", "requeue": True}
    run = notified(
        cluster, tmp_path, server.url, SAVES, [*ON, "requeue", "time_limit"], checkpoint=stop
    )
    until(lambda: b"begins" in run.ranks(0).get(0, b""), run.story)
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    until(lambda: cluster.job(run.job).get("Restarts") == "1", run.story)
    cluster.start_now(run.job)
    assert run.wait() == 0, run.story()
    until(lambda: len(server.messages()) == 5, run.story)
    events = [(message["event"], message["restart"]) for message in server.messages()]
    first = [("start", 0), ("time_limit", 0), ("requeue", 0)]
    assert events == [*first, ("start", 1), ("end", 1)]


def test_a_job_whose_server_is_gone_ends_well(cluster: Cluster, tmp_path: Path) -> None:
    """No host has this address, so that no answer comes at all."""
    run = notified(cluster, tmp_path, "http://198.51.100.250:9/s3cr3t", "print('done')\n", ON)
    assert run.wait() == 0, run.story()
    assert run.show()["state"] == "COMPLETED"
    log = run.directory / "logs" / f"job-{run.job}.out"
    until(lambda: log.read_text().count("the webhook failed with exit code") == 2, run.story)
    assert "198.51" not in log.read_text()
