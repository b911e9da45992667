"""The notebook: what was written is there, whoever writes at the same time and whatever breaks."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import jobgen
from jobgen.errors import JobgenError, Missing, Usage
from jobgen.ledger import Ledger
from jobgen.ledger.leases import name_process
from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def token(number: int) -> str:
    digits = [ALPHABET[number // 32**place % 32] for place in range(26)]
    return "".join(digits)


def record(number: int = 0, **values: Any) -> RunRecord:
    site = values.pop("site", None) or Site(
        values.pop("cluster", "a100"), "slurm", Login("paramiko", "hpc"), "/s/$USER"
    )
    base = RunRecord(token(number), "", "llama", site, "d1", created=1000.0 + number)
    return base._replace(**values)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "ledger.sqlite3", now=lambda: 5000.0)


def test_a_run_is_numbered_by_its_name(ledger: Ledger) -> None:
    names = [ledger.begin(record(n, name=name)).alias for n, name in enumerate(["a", "b", "a"])]
    assert names == ["a-1", "b-1", "a-2"]


def test_what_was_written_is_read_again_by_another_process(ledger: Ledger) -> None:
    written = ledger.begin(record(shape={"nodes": 2}, submission={"state": {"phase": "PLANNED"}}))
    changed = ledger.update(written.token, job=JobId(7, cluster="c"), state=JobState.RUNNING)
    assert Ledger(ledger.path).get("llama-1") == changed
    assert changed.job == JobId(7, cluster="c")


class Interrupted(sqlite3.Connection):
    """Ctrl-C comes right after the beginning of a transaction."""

    def execute(self, sql: str, /, *values: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *values)
        if sql.startswith("BEGIN"):
            raise KeyboardInterrupt
        return cursor


def test_an_interrupt_right_after_the_beginning_of_a_change_leaves_no_lock(ledger: Ledger) -> None:
    first = ledger.begin(record())
    ledger.close()
    ledger._open = sqlite3.connect(ledger.path, isolation_level=None, factory=Interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.update(first.token, state=JobState.RUNNING)
    other = sqlite3.connect(ledger.path, timeout=0, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_reading_a_ledger_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state" / "ledger.sqlite3")
    assert ledger.list_runs() == ()
    assert ledger.find_last() is None
    assert ledger.list_events("x") == ()
    assert ledger.get_bundle("x") == {}
    with pytest.raises(Missing):
        ledger.get("@last")
    assert list(tmp_path.iterdir()) == []


def test_it_is_for_its_owner_s_eyes_only(ledger: Ledger) -> None:
    old = os.umask(0)
    try:
        ledger.begin(record())
    finally:
        os.umask(old)
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["ledger.sqlite3", "."])
def test_one_that_others_can_write_is_refused(ledger: Ledger, what: str) -> None:
    ledger.begin(record())
    path = ledger.path.parent / what
    path.chmod(path.stat().st_mode | 0o020)
    with pytest.raises(JobgenError, match="other users can write") as caught:
        Ledger(ledger.path).list_runs()
    assert "chmod go-w" in caught.value.problems[0].hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_one_of_another_user_is_refused(ledger: Ledger) -> None:
    ledger.begin(record())
    os.chown(ledger.path, 12345, 12345)
    with pytest.raises(JobgenError, match="another user"):
        Ledger(ledger.path).list_runs()


def test_a_link_in_its_place_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    ledger.path.parent.mkdir(mode=0o700)
    target = tmp_path / "elsewhere"
    target.touch(0o600)
    ledger.path.symlink_to(target)
    with pytest.raises(JobgenError, match="symbolic link"):
        ledger.begin(record())
    assert target.read_bytes() == b""


# finding


def test_a_run_is_found_by_alias_token_head_and_id(ledger: Ledger) -> None:
    first = ledger.begin(record(1))
    second = ledger.begin(record(2, job=JobId(812)))
    assert ledger.get("llama-1") == first
    assert ledger.get("@last") == second
    assert ledger.get("812") == second
    assert ledger.get(second.token[:8]) == second
    assert ledger.get(second.token[:8].upper()) == second


def test_an_id_of_two_clusters_is_asked_back(ledger: Ledger) -> None:
    ledger.begin(record(1, job=JobId(812)))
    ledger.begin(record(2, job=JobId(812), cluster="dgx"))
    with pytest.raises(Usage, match="llama-2 on dgx"):
        ledger.get("812")


def test_an_id_that_was_given_out_twice_is_the_job_that_lives(ledger: Ledger) -> None:
    ledger.begin(record(1, job=JobId(812), ended=True))
    lives = ledger.begin(record(2, job=JobId(812)))
    assert ledger.get("812") == lives


def test_a_name_is_its_newest_run_unless_the_run_is_to_be_changed(ledger: Ledger) -> None:
    ledger.begin(record(1))
    newest = ledger.begin(record(2))
    assert ledger.get("llama") == newest
    with pytest.raises(Missing) as caught:
        ledger.get("llama", exact=True)
    assert newest.alias in caught.value.problems[0].hint
    assert ledger.get(newest.alias, exact=True) == newest


def test_an_unknown_run_has_the_nearest_one(ledger: Ledger) -> None:
    ledger.begin(record())
    with pytest.raises(Missing) as caught:
        ledger.get("lama-1")
    assert "did you mean llama-1?" in caught.value.problems[0].hint


def test_a_few_letters_are_no_name_of_a_run(ledger: Ledger) -> None:
    ledger.begin(record())
    with pytest.raises(Missing):
        ledger.get(token(0)[:5])


def test_runs_come_newest_first_and_live_ones_before_the_limit_cuts(ledger: Ledger) -> None:
    for number in range(6):
        ledger.begin(record(number, ended=number > 1, name="a" if number % 2 else "b"))
    assert [r.created for r in ledger.list_runs()] == [
        1005.0,
        1004.0,
        1003.0,
        1002.0,
        1001.0,
        1000.0,
    ]
    assert [r.created for r in ledger.list_runs(limit=3)] == [1005.0, 1001.0, 1000.0]
    assert [r.created for r in ledger.list_runs(live_only=True)] == [1001.0, 1000.0]
    assert {r.name for r in ledger.list_runs(name="a")} == {"a"}
    assert ledger.list_runs(cluster="dgx") == ()
    newest = ledger.find_last("b")
    assert newest is not None
    assert newest.created == 1004.0


# what happened, and what it was made of


def test_events_are_added_and_stay_in_order(ledger: Ledger) -> None:
    run = ledger.begin(record())
    ledger.update(run.token, state=JobState.RUNNING, event=("running", "RUNNING on n1"))
    ledger.note(run.token, "signal", "USR1 sent", {"signal": "USR1"})
    told = ledger.list_events(run.token)
    assert [event.kind for event in told] == ["planned", "running", "signal"]
    assert told[1].text == "RUNNING on n1"
    assert told[2].data == {"signal": "USR1"}
    assert told[0].time == 5000.0


def test_the_rendered_files_are_kept_for_comparison(ledger: Ledger) -> None:
    files = (BundleFile("job.sbatch", b"#!/bin/bash\n" * 500, 0o755), BundleFile("x", b"\0\xff"))
    run = ledger.begin(record(), Bundle(files))
    assert Ledger(ledger.path).get_bundle(run.token) == {f.path: f.content for f in files}
    assert ledger.path.stat().st_size < 100_000


def test_many_changes_are_one_commit_or_none(ledger: Ledger) -> None:
    runs = [ledger.begin(record(number)) for number in range(3)]
    with pytest.raises(Missing):
        ledger.update_all([(runs[0].token, {"nodes": "n1"}, None), ("gone", {}, None)])
    assert ledger.get("llama-1").nodes == ""
    ledger.update_all([(run.token, {"nodes": "n1"}, ("seen", "")) for run in runs])
    assert {run.nodes for run in ledger.list_runs()} == {"n1"}


def test_fields_and_states_of_a_later_version_do_not_stop_this_one(ledger: Ledger) -> None:
    run = ledger.begin(record())
    with sqlite3.connect(ledger.path) as db:
        text = '{"state":"FROBNICATED","later":1,'
        db.execute("UPDATE runs SET data = ? || substr(data, 2)", (text,))
        db.execute("""UPDATE runs SET data = replace(data, '"state":"PLANNED",', '')""")
    db.close()
    assert Ledger(ledger.path).get(run.alias).state is JobState.UNKNOWN


# together


def test_aliases_are_unique_when_many_begin_at_once(ledger: Ledger) -> None:
    aliases: list[str] = []

    def begin(number: int) -> None:
        mine = Ledger(ledger.path)
        aliases.append(mine.begin(record(number)).alias)
        mine.close()

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(aliases) == sorted(f"llama-{n + 1}" for n in range(12))


def test_a_lease_keeps_others_away_while_its_process_lives(ledger: Ledger) -> None:
    run = ledger.begin(record())
    assert ledger.lease(run.token, 60)
    assert ledger.lease(run.token, 60)
    _owned_by(ledger, f"{os.uname().nodename}:{os.getppid()}")
    assert not ledger.lease(run.token, 60)
    _owned_by(ledger, "another-host:1")
    assert not ledger.lease(run.token, 60)
    ledger.release(run.token)
    assert not ledger.lease(run.token, 60), "only its owner gives it back"


def test_a_lease_of_a_dead_process_is_void(ledger: Ledger) -> None:
    run = ledger.begin(record())
    ledger.lease(run.token, 60)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    _owned_by(ledger, f"{os.uname().nodename}:{child.pid}")
    assert ledger.lease(run.token, 60)


def test_a_lease_runs_out(ledger: Ledger) -> None:
    run = ledger.begin(record())
    ledger.lease(run.token, 60)
    _owned_by(ledger, "another-host:1")
    assert Ledger(ledger.path, now=lambda: 5061.0).lease(run.token, 60)


def _owned_by(ledger: Ledger, owner: str) -> None:
    with sqlite3.connect(ledger.path) as db:
        db.execute("UPDATE runs SET owner = ?", (owner,))
    db.close()
    assert owner != name_process()


# what can go wrong


def test_a_damaged_file_is_named_with_the_way_out(ledger: Ledger) -> None:
    ledger.begin(record())
    ledger.close()
    ledger.path.write_bytes(b"no database" * 1000)
    with pytest.raises(JobgenError, match="damaged") as caught:
        Ledger(ledger.path).list_runs()
    assert f"mv {ledger.path}" in caught.value.problems[0].hint


def test_pages_that_were_overwritten_are_an_error_and_no_traceback(ledger: Ledger) -> None:
    for number in range(50):
        ledger.begin(record(number))
    ledger.close()
    data = bytearray(ledger.path.read_bytes())
    data[4096 : 4096 * 6] = os.urandom(4096 * 5)
    ledger.path.write_bytes(data)
    with pytest.raises(JobgenError, match="damaged"):
        Ledger(ledger.path).list_runs()


def test_a_ledger_of_a_newer_version_is_left_alone(ledger: Ledger) -> None:
    ledger.begin(record())
    ledger.close()
    with sqlite3.connect(ledger.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(JobgenError, match="newer jobgen"):
        Ledger(ledger.path).list_runs()


READ_ONLY = """
import pathlib
from jobgen.ledger import Ledger
mine = Ledger(pathlib.Path("ledger.sqlite3"))
print(mine.list_runs()[0].alias)
try:
    mine.note("x", "y")
except Exception as error:
    print(error)
"""


def test_a_file_that_cannot_be_written_can_still_be_read(ledger: Ledger) -> None:
    folder = ledger.path.parent
    ledger.begin(record())
    ledger.close()
    ledger.path.chmod(0o400)
    folder.chmod(0o500)
    # root may write everything, unless it gives up its capabilities
    become = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    words = [*become, sys.executable, "-c", READ_ONLY]
    package = Path(jobgen.__file__).parents[1]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package)}
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=env)
    folder.chmod(0o700)
    assert done.stdout.startswith("llama-1\n"), done.stderr
    assert "is not writable" in done.stdout


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobgenError, match="cannot create"):
        Ledger(tmp_path / "file" / "ledger.sqlite3").begin(record())


def test_a_process_killed_in_the_middle_leaves_one_of_two_neighbours(ledger: Ledger) -> None:
    run = ledger.begin(record())
    ledger.close()
    program = (
        "import sys, pathlib; from jobgen.ledger import Ledger\n"
        "mine = Ledger(pathlib.Path(sys.argv[1])); print('ready', flush=True)\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1; mine.update(sys.argv[2], restarts=n, event=('n', str(n)))\n"
    )
    for trial in range(8):
        words = [sys.executable, "-c", program, str(ledger.path), run.token]
        child = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.01 + trial * 0.007)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        after = Ledger(ledger.path)
        assert after.check() == "ok"
        events = [event.text for event in after.list_events(run.token) if event.kind == "n"]
        assert events[-1:] == ([str(after.get(run.alias).restarts)] if events else [])
        after.close()


@pytest.mark.slow
def test_a_list_of_the_latest_runs_does_not_read_ten_thousand(ledger: Ledger) -> None:
    with ledger.write() as db:
        for number in range(10_000):
            mine = record(number, ended=number % 100 != 0, alias=f"r-{number}")
            db.execute(
                "INSERT INTO runs (token, alias, name, number, cluster, job, ended, created, data)"
                " VALUES (?, ?, 'r', ?, 'a100', ?, ?, ?, ?)",
                (mine.token, mine.alias, number, number, mine.ended, mine.created, _data(mine)),
            )
    ledger.close()
    begun = time.process_time()
    fresh = Ledger(ledger.path)
    assert len(fresh.list_runs(limit=25)) == 25
    assert fresh.get("r-9999").created == 10_999.0
    assert fresh.get("5000").alias == "r-5000"
    between = time.process_time()
    assert len(fresh.list_runs()) == 10_000
    assert between - begun < (time.process_time() - between) / 10


def _data(mine: RunRecord) -> str:
    import json

    return json.dumps(mine.data())


def test_what_runs_hold_is_summed_by_cluster(ledger: Ledger) -> None:
    assert ledger.sum_held() == {}, "and nothing is made by reading"
    ledger.set_held("a100", {token(1): 5, token(2): 7})
    ledger.set_held("h100", {token(3): 1})
    ledger.set_held("a100", {token(2): 0})
    assert ledger.sum_held() == {"a100": (1, 5), "h100": (1, 1)}
