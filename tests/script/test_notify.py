"""What a job sends when it starts, fails, ends and is requeued, and that it never fails by it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.receiver import Receiver, receive
from tests.script.job import Job
from tests.script.test_ends import DEAF, POLLS, REQUEUE, requeued, warn
from tests.waiting import HANG, until

ALL = "[start, fail, end]"
SECRET = {"secrets": "[HOOK]", "notify": f"{{webhook: $HOOK, on: {ALL}}}"}
KEEPS = "{command: [sh, -c, 'cat >>told'], on: [start, fail, end]}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receive() as server:
        yield server


def notified(folder: Path, program: str, port: int, **keys: str) -> Job:
    """A job that posts to this port, at a path that is as good as a password."""
    job = Job.make(folder / "run", program, **{**SECRET, **keys})
    (job.folder / "secrets.env").write_text(
        f"export HOOK='http://127.0.0.1:{port}/s3cr3t?a=\"b\"'\n"
    )
    return job


def test_a_job_posts_its_start_and_end(tmp_path: Path, receiver: Receiver) -> None:
    done = notified(tmp_path, "true\n", receiver.port).run()
    assert done.returncode == 0
    assert receiver.events() == ["start", "end"]
    first, last = receiver.messages
    assert first["state"] == "running"
    assert last == {
        **last,
        "state": "succeeded",
        "name": "demo",
        "job_id": "7",
        "node": "n1",
        "exit_code": 0,
        "restart": 0,
        "first_failure": None,
    }
    assert last["text"].startswith("demo (job 7 on n1): succeeded after 0h 0m ")
    assert isinstance(last["elapsed_seconds"], int)
    assert set(receiver.types) == {"application/json"}
    assert set(receiver.paths) == {'/s3cr3t?a="b"'}, "quotes of the URL arrive as they are"


def test_a_failure_is_posted_once_and_names_the_first_rank(
    tmp_path: Path, receiver: Receiver
) -> None:
    job = notified(tmp_path, "[[ $RANK != 1 ]] || exit 3\n", receiver.port)
    assert job.run().returncode == 3
    assert receiver.events() == ["start", "fail"]
    last = receiver.messages[-1]
    assert (last["state"], last["exit_code"]) == ("failed", 3)
    assert last["first_failure"] == {"rank": 1, "node": "n2"}
    assert last["text"].endswith(", rank 1 on n2 failed first")


@pytest.mark.parametrize(("on", "code", "events"), [("end", 3, ["end"]), ("fail", 0, [])])
def test_only_what_is_asked_for_is_sent(
    tmp_path: Path, receiver: Receiver, on: str, code: int, events: list[str]
) -> None:
    keys = {"notify": f"{{webhook: $HOOK, on: {on}}}"}
    assert notified(tmp_path, f"exit {code}\n", receiver.port, **keys).run().returncode == code
    assert receiver.events() == events


def test_a_killed_job_says_so(tmp_path: Path, receiver: Receiver) -> None:
    job = notified(tmp_path, DEAF, receiver.port)
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=HANG)
    assert receiver.events() == ["start", "fail"]
    assert receiver.messages[-1]["state"] == "killed"


def test_a_requeue_is_posted_and_the_next_start_counts(tmp_path: Path, receiver: Receiver) -> None:
    on = "[start, end, requeue, time_limit]"
    keys = {"notify": f"{{webhook: $HOOK, on: {on}}}", "checkpoint": REQUEUE}
    job = notified(tmp_path, POLLS, receiver.port, **keys)
    warn(job, job.start())
    assert requeued(job) == ["7"]
    assert receiver.events() == ["start", "time_limit", "requeue"]
    (job.folder / "src" / "program").write_text("#!/bin/bash\ntrue\n")
    assert job.run(restart=1).returncode == 0
    assert receiver.events()[3:] == ["start", "end"]
    assert [message["restart"] for message in receiver.messages] == [0, 0, 0, 1, 1]


def test_the_url_is_in_no_log_and_no_command_line(tmp_path: Path, receiver: Receiver) -> None:
    job = notified(tmp_path, "true\n", receiver.port)
    curl = job.folder / "fake" / "curl"
    curl.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$*" >>"$FAKE_DIR/words"; env >>"$FAKE_DIR/words"\n'
        f'PATH={os.environ["PATH"]} exec curl "$@"\n'
    )
    curl.chmod(0o755)
    done = job.run()
    assert receiver.events() == ["start", "end"]
    assert "--config -" in (job.folder / "words").read_text()
    kept = [path for path in job.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"s3cr3t" in path.read_bytes()]
    assert "s3cr3t" not in done.stdout + done.stderr


def test_a_server_that_refuses_is_named_without_its_address(tmp_path: Path) -> None:
    with receive(status=500) as receiver:
        done = notified(tmp_path, "true\n", receiver.port).run()
    assert done.returncode == 0
    assert "jobgen: notify: the webhook failed with exit code 22" in done.stderr
    assert "127.0.0.1" not in done.stderr


def test_a_server_that_never_answers_neither_fails_the_job_nor_keeps_it(tmp_path: Path) -> None:
    """Connections are accepted by the kernel, and no one ever reads them."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        job = notified(tmp_path, "true\n", silent.getsockname()[1])
        done = job.run()
    assert done.returncode == 0
    assert job.marker()["rc"] == "0"
    assert done.stderr.count("the webhook failed with exit code 28") == 2


def test_without_the_secret_the_job_runs_as_far_as_without_notify(tmp_path: Path) -> None:
    done = Job.make(tmp_path / "run", "true\n", **SECRET).run()
    assert done.returncode == 97, "as any job whose secret is missing"
    assert "notify" not in done.stderr


def test_a_command_gets_the_message_once_for_the_job(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n", notify=KEEPS)
    done = job.run()
    assert done.returncode == 0, done.stderr
    lines = (job.folder / "src" / "told").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["start", "end"]


def alive(group: int) -> list[str]:
    """The processes of a group that have not ended; nobody may have waited for those that have."""
    states = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            states.append(path.read_text().rpartition(")")[2].split()[:3])
    return [state for state, _, leader in states if leader == str(group) and state not in "ZX"]


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    hangs = "{command: [sh, -c, 'echo $$$$ >pid; sleep 3600; true'], on: end}"
    job = Job.make(tmp_path / "run", "true\n", notify=hangs)
    done = job.run()
    assert done.returncode == 0
    assert "jobgen: notify: the command took more than 10 seconds" in done.stderr
    pid = int((job.folder / "src" / "pid").read_text())
    until(lambda: not alive(pid), "the end of its process group")


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n", notify="{command: no-such-program}")
    done = job.run()
    assert done.returncode == 0
    assert "jobgen: notify: the command failed with exit code 127" in done.stderr


def test_words_of_the_command_are_not_shell_text(tmp_path: Path) -> None:
    words = "[sh, -c, 'printf %s \"$$1\" >told', x, '; touch gone `id` $USER']"
    job = Job.make(tmp_path / "run", "true\n", notify=f"{{command: {words}}}")
    assert job.run().returncode == 0
    assert (job.folder / "src" / "told").read_text() == "; touch gone `id` ann"
