"""Programs that run together on a real cluster: a server and clients, a head and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SERVER = """\
import http.server, os, signal, sys, time
from pathlib import Path
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os._exit(7)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"answer")
    def log_message(self, *words): pass
def save(*_):
    Path("saved").write_text("cleanly")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
http.server.HTTPServer(("", int(os.environ["JOBGEN_PORT_SERVE"])), Handler).serve_forever()
"""
CLIENT = """\
import os, sys, time, urllib.request
address = f"http://{os.environ['JOBGEN_HOST_SERVE']}:{os.environ['JOBGEN_PORT_SERVE']}/"
print(os.environ["SLURM_PROCID"], urllib.request.urlopen(address).read().decode(), flush=True)
if "fails" in sys.argv:
    sys.exit(5)
if "crashes" in sys.argv and os.environ["SLURM_PROCID"] == "0":
    try:
        urllib.request.urlopen(address + "crash")
    except Exception:
        time.sleep(1000)
"""


def start(cluster: Cluster, folder: Path, argument: str = "", **keys: Any) -> Run:
    """A server on one node, and clients on two; a shell around the server, as people write it."""
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    (folder / "client.py").write_text(CLIENT)
    serve = {"nodes": 1, "launcher": "plain", "run": "python server.py\necho not reached"}
    serve |= {"ready": {"port": "auto"}, "until": "train"}
    train = {"nodes": 2, "launcher": "srun", "run": f"client.py {argument}", "procs_per_node": 2}
    job = {"name": "groups", "time": "1h", "groups": {"train": train, "serve": serve}}
    return submit(cluster, write(folder, {**job, **keys}))


def read_logs(run: Run, group: str) -> list[str]:
    folder = run.directory / "logs" / "0" / "0" / group
    paths = [path for path in folder.glob("n*.out") if not path.is_symlink()]
    return sorted(line for path in paths for line in path.read_text().splitlines())


def list_groups(run: Run) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in answer(run.jobgen("show", "--json"))["job"]["groups"]}


def test_clients_start_when_the_server_is_ready_and_it_is_stopped_cleanly(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = start(cluster, tmp_path / "job")
    assert run.wait() == 0, run.story()
    assert read_logs(run, "train") == [f"{rank} answer" for rank in range(4)]
    assert (run.directory / "src" / "saved").read_text() == "cleanly"
    groups = list_groups(run)
    assert groups["serve"]["stopped"]
    assert groups["train"]["code"] == 0
    assert "group serve: stopped after" in run.jobgen("show").stdout
    assert len(run.jobgen("logs", "--group", "train").stdout.splitlines()) >= 1
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.parametrize(
    ("argument", "code", "group"),
    [("crashes", 7, "serve"), pytest.param("fails", 5, "train", marks=pytest.mark.exhaustive)],
)
def test_a_crash_of_either_side_ends_the_job(
    cluster: Cluster, tmp_path: Path, argument: str, code: int, group: str
) -> None:
    run = start(cluster, tmp_path / "job", argument)
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == f"{code}:0", run.story()
    assert list_groups(run)[group]["code"] == code
    assert f"group {group}: failed with exit code {code}" in run.jobgen("show").stdout
    assert f"group {group}" in " ".join(run.jobgen("diagnose").stdout.split())
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


def test_a_failing_finally_is_the_cause_where_all_groups_ended_well(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    plain = {"nodes": 1, "launcher": "plain"}
    groups = {
        "train": {**plain, "run": "true"},
        "serve": {**plain, "run": "sleep 1000", "until": "train"},
    }
    job = {"name": "ends", "time": "1h", "groups": groups, "finally": "exit 3"}
    run = submit(cluster, write(folder, job))
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "3:0"
    why = " ".join(run.jobgen("diagnose").stdout.split())
    assert "finally failed with exit code 3" in why
    assert "Followed" not in why, why
    assert "signal" not in why, why


APPTAINER = """\
#!/bin/bash
# a stand-in of apptainer, which the cluster has not: it names the image to what runs "inside"
while [[ $1 != *.sif ]]; do shift; done
IMAGE=$(<"$1") exec "${@:2}"
"""


def test_each_group_runs_in_its_own_image_which_is_recorded(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "apptainer").write_text(APPTAINER)
    (folder / "bin" / "apptainer").chmod(0o755)
    for name in ("a", "b"):
        (folder / f"{name}.sif").write_text(f"image {name}")
    plain = {"nodes": 1, "launcher": "plain", "run": 'echo "$IMAGE"'}
    image, other = (f"$JOBGEN_WORK_DIR/{name}.sif" for name in ("a", "b"))
    job = {
        "name": "images",
        "time": "1h",
        "setup": {"outside": 'export PATH="$JOBGEN_WORK_DIR/bin:$PATH"'},
        "container": {"image": image, "runtime": "apptainer"},
        "groups": {"train": plain, "serve": {**plain, "container": other}},
    }
    run = submit(cluster, write(folder, job))
    assert run.wait() == 0, run.story()
    assert read_logs(run, "train") == ["image a"]
    assert read_logs(run, "serve") == ["image b"]
    images = answer(run.jobgen("show", "-v", "--json"))["provenance"]["images"]
    assert {Path(each["name"]).name for each in images} == {"a.sif", "b.sif"}


BESIDE = """\
import os, time
from pathlib import Path
name = os.environ["JOBGEN_STEP"]
print("waits", flush=True)
Path(f"{name}.{os.environ['SLURM_PROCID']}").touch()
time.sleep(1000)
"""


def test_ranks_with_one_number_are_told_apart_by_their_group(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "main.py").write_text(BESIDE)
    train = {"nodes": 2, "procs_per_node": 2, "launcher": "srun", "run": "main.py"}
    serve = {"on": "train", "nodes": 1, "launcher": "plain", "run": "main.py", "until": "train"}
    job = {"name": "beside", "time": "1h", "groups": {"train": train, "serve": serve}}
    run = submit(cluster, write(folder, job))
    names = {"serve.0", *(f"train.{rank}" for rank in range(4))}
    source = run.directory / "src"
    until(lambda: names <= {path.name for path in source.iterdir()}, run.story)
    logs = run.jobgen("logs", "--rank", "0").stdout
    assert all(f" {name} r0 |" in logs for name in ("train", "serve")), logs
    refused = run.jobgen("sh", "--rank", "0", "--", "true")
    assert refused.returncode == 2
    assert "is in several groups: serve, train" in refused.stderr
    for name in ("train", "serve"):
        words = ("--group", name, "--rank", "0", "--", "sh", "-c", "echo $JOBGEN_STEP")
        assert run.jobgen("sh", *words).stdout == f"{name}\n"
    assert run.jobgen("cancel").returncode == 0
    run.wait()


HEAD = """\
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = socket.create_server(("", int(os.environ["JOBGEN_PORT_HEAD"])))
tasks, workers = [], []
while True:
    peer = server.accept()[0].makefile("rw")
    line = peer.readline().split()
    if line[:1] == ["worker"]:
        workers.append(peer)
    elif line[:1] == ["driver"]:
        while len(workers) < int(line[1]):
            peer2 = server.accept()[0].makefile("rw")
            if peer2.readline().startswith("worker"):
                workers.append(peer2)
        results = []
        for number, worker in enumerate(workers):
            worker.write(f"{number}\\n")
            worker.flush()
            results.append(worker.readline().strip())
        peer.write(" ".join(sorted(results)) + "\\n")
        peer.flush()
"""
WORKER = """\
import os, socket
address = (os.environ["JOBGEN_HOST_HEAD"], int(os.environ["JOBGEN_PORT_HEAD"]))
head = socket.create_connection(address).makefile("rw")
head.write("worker\\n")
head.flush()
for line in head:
    head.write(f"{socket.gethostname()}:{int(line) + 100}\\n")
    head.flush()
"""
DRIVER = """\
import os, socket
address = (os.environ["JOBGEN_HOST_HEAD"], int(os.environ["JOBGEN_PORT_HEAD"]))
head = socket.create_connection(address).makefile("rw")
head.write(f"driver {len(os.environ['JOBGEN_HOSTS_WORKERS'].split())}\\n")
head.flush()
print(socket.gethostname(), os.environ["JOBGEN_HOST_HEAD"], head.readline().strip(), flush=True)
"""


def test_a_driver_beside_the_head_uses_all_workers(cluster: Cluster, tmp_path: Path) -> None:
    programs = {"head.py": HEAD, "worker.py": WORKER, "driver.py": DRIVER}
    folder = tmp_path / "job"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
    plain = {"launcher": "plain"}
    groups = {
        "head": {"nodes": 1, "run": "head.py", "until": "driver", "ready": {"port": "auto"}},
        "workers": {"nodes": 2, "run": "worker.py", "until": "driver"},
        "driver": {"on": "head", "run": "driver.py"},
    }
    groups = {name: {**plain, **group} for name, group in groups.items()}
    job = {"name": "ray-like", "time": "1h", "groups": groups}
    run = submit(cluster, write(folder, job))
    assert run.wait() == 0, run.story()
    (line,) = read_logs(run, "driver")
    here, head, *results = line.split()
    assert here == head
    assert sorted(result.split(":")[1] for result in results) == ["100", "101"]
    assert len({result.split(":")[0] for result in results} | {head}) == 3
    assert {name: each["stopped"] for name, each in list_groups(run).items()} == {
        "head": True,
        "workers": True,
        "driver": False,
    }
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.exhaustive
def test_a_group_that_is_never_ready_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    serve = {"nodes": 1, "launcher": "plain", "run": "sleep 1000", "until": "train"}
    groups = {
        "train": {"nodes": 1, "launcher": "plain", "run": "touch trained"},
        "serve": {**serve, "ready": {"file": "never", "timeout": "2s"}},
    }
    run = submit(cluster, write(folder, {"name": "never", "time": "1h", "groups": groups}))
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "124:0"
    assert not (run.directory / "src" / "trained").exists()
    assert "group serve is not ready after 2 s: file never" in run.jobgen("logs").stdout
    why = " ".join(run.jobgen("diagnose").stdout.split())
    assert "ended too early: jobgen: group serve is not ready after 2 s: file never" in why


@pytest.mark.exhaustive
def test_a_requeue_starts_all_groups_again(cluster: Cluster, tmp_path: Path) -> None:
    program = """\
import os, time
from pathlib import Path
restart = os.environ["JOBGEN_RESTART"]
Path(f"{os.environ['JOBGEN_STEP']}.{restart}").touch()
while os.environ["JOBGEN_STEP"] == "serve":
    time.sleep(1)
while restart == "0":
    if Path(os.environ["JOBGEN_STOP_FILE"]).exists():
        Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()
        break
    time.sleep(0.1)
"""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "main.py").write_text(program)
    plain = {"nodes": 1, "launcher": "plain", "run": "main.py"}
    ready = {"command": "test -e serve.$JOBGEN_RESTART"}
    groups = {"train": plain, "serve": {**plain, "until": "train", "ready": ready}}
    job = {"name": "requeued", "time": "1h", "groups": groups}
    job["checkpoint"] = {"grace": "5m", "requeue": True}
    run = submit(cluster, write(folder, job))
    source = run.directory / "src"
    until(lambda: (source / "train.0").exists(), run.story)
    cluster.slurm("scancel", "--batch", "--signal=USR1", run.job)
    assert run.wait() == 0, run.story()
    assert {path.name for path in source.glob("*.[01]")} == {
        *("train.0", "serve.0"),
        *("train.1", "serve.1"),
    }
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


SAVER = """\
import os, signal, sys, time
from pathlib import Path
name = os.environ["JOBGEN_STEP"]
def save(*_):
    Path(f"{name}.signaled").touch()
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
Path(f"{name}.runs").touch()
time.sleep(1000)
"""


def start_savers(cluster: Cluster, folder: Path, **keys: Any) -> Run:
    """Two programs that save on SIGUSR1, one of which only serves the other."""
    folder.mkdir()
    (folder / "main.py").write_text(SAVER)
    plain = {"nodes": 1, "launcher": "plain", "run": "main.py"}
    groups = {"train": plain, "serve": {**plain, "until": "train", "ready": {"file": "serve.runs"}}}
    run = submit(cluster, write(folder, {"name": "savers", "time": "1h", "groups": groups, **keys}))
    until(lambda: (run.directory / "src" / "train.runs").exists(), run.story)
    return run


@pytest.mark.exhaustive
def test_the_signal_reaches_the_ranks_of_the_group_that_saves(
    cluster: Cluster, tmp_path: Path
) -> None:
    checkpoint = {"grace": "5m", "to": "ranks"}
    run = start_savers(cluster, tmp_path / "job", checkpoint=checkpoint)
    cluster.slurm("scancel", "--batch", "--signal=USR1", run.job)
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "98:0", run.story()
    assert (run.directory / "src" / "train.signaled").exists()
    assert not (run.directory / "src" / "serve.signaled").exists()
    assert list_groups(run)["serve"]["stopped"]


@pytest.mark.exhaustive
def test_cancel_ends_all_groups(cluster: Cluster, tmp_path: Path) -> None:
    run = start_savers(cluster, tmp_path / "job")
    assert run.jobgen("cancel").returncode == 0
    run.wait()
    assert run.show()["state"] == "CANCELLED", run.story()
    shown = run.jobgen("show").stdout
    assert "failed" not in shown, shown
    assert "group train: ended with the job" in shown
    assert "Terminated" not in run.jobgen("logs").stdout
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.exhaustive
def test_a_server_that_leaves_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    plain = {"nodes": 1, "launcher": "plain"}
    groups = {
        "train": {**plain, "run": "sleep 1000"},
        "serve": {**plain, "run": "true", "until": "train"},
    }
    run = submit(cluster, write(folder, {"name": "leaves", "time": "1h", "groups": groups}))
    assert run.wait() == 1, run.story()
    assert run.show()["exit"] == "1:0"
    assert "group serve ended before train, with exit code 0" in run.jobgen("logs").stdout
    why = " ".join(run.jobgen("diagnose").stdout.split())
    assert "ended too early: jobgen: group serve ended before train" in why
    assert list_groups(run)["train"]["stopped"]
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.exhaustive
def test_a_port_that_another_program_has_makes_no_group_ready(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    ready = {"port": 8765, "timeout": "60s"}
    serve = {"launcher": "plain", "run": "python3 -m http.server 8765", "until": "train"}
    groups = {
        "one": {**serve, "nodes": 1, "ready": {**ready}},
        "two": {**serve, "on": "one", "ready": {**ready}},
        "train": {"nodes": 1, "launcher": "plain", "run": "touch trained"},
    }
    run = submit(cluster, write(folder, {"name": "taken", "time": "1h", "groups": groups}))
    assert run.wait() == 1, run.story()
    assert not (run.directory / "src" / "trained").exists()
    assert "group two does not start: port 8765 on n" in run.jobgen("logs").stdout
    advice = " ".join(run.jobgen("diagnose").stdout.split())
    assert "jobgen explain J562" in advice
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")
