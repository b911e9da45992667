"""The scripts over there, run by a real shell in a real folder."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import signal
import struct
import subprocess
import tarfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from jobgen.model.record import JobId
from jobgen.model.sweep_arrays import SweepArray
from jobgen.scheduler import Attempt
from jobgen.scheduler.refusals import is_definite
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.shell import Command
from jobgen.submission import scripts
from jobgen.submission.markers import read_markers
from jobgen.submission.wire import index, split, split_frames
from tests.shellcheck import shellcheck
from tests.waiting import until

TOKEN = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(26))
"""This process's own: what still runs is looked for in all of the machine, other workers too."""
OTHER = "zyxwvutsrqponmlkjihgfedcba"
FOLDER = "demo-abcdefgh"
FACTS = Path(__file__).parents[1] / "facts" / "slurm"
FILES = {
    "TOKEN": TOKEN.encode() + b"\n",
    "bundle/job.sbatch": b"#!/bin/bash\n",
    "src/odd 'name'.py": b"print()\n",
    "secrets.env": b"export A='b'\n",
    "submit/submit.sh": scripts.list_files()["submit/submit.sh"].encode(),
}


def tar(files: Mapping[str, bytes] = FILES, *, sums: bool = True) -> bytes:
    """The tar of a run directory, as it is sent."""
    lines = [
        f"{sha256(content).hexdigest()}  {name}\n"
        for name, content in files.items()
        if name.startswith(("bundle/", "src/"))
    ]
    manifest = {"MANIFEST.sha256": "".join(lines).encode()} if sums else {}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in {**files, **manifest}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600 if name == "secrets.env" else 0o644
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def sh(script: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run a script as a transport does; its frames by key."""
    words = {**os.environ, **(env or {})}
    done = subprocess.run(["sh", "-c", script], input=stdin, capture_output=True, env=words)
    assert not done.stderr, done.stderr.decode()
    return index(split_frames(done.stdout))


def stage(root: object, content: bytes | None = None, nonce: str = "n1") -> dict[str, str]:
    return sh(scripts.stage(str(root), FOLDER, TOKEN, nonce), tar() if content is None else content)


def left_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory that is staged."""
    stage(tmp_path)
    return tmp_path / FOLDER


# the upload


def test_the_directory_appears_whole_under_its_name(tmp_path: Path) -> None:
    root = tmp_path / "a b" / "it's"
    told = stage(root)
    assert told["staged"] == "new"
    assert told["directory"] == str(root / FOLDER)
    assert (root / FOLDER / "src" / "odd 'name'.py").read_bytes() == b"print()\n"
    assert left_in(root) == [FOLDER]


def test_nobody_else_can_read_it(run: Path) -> None:
    modes = {path: path.stat().st_mode & 0o077 for path in [run, *run.rglob("*")]}
    assert set(modes.values()) == {0}


def test_the_real_path_is_told_even_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert stage(tmp_path / "link")["directory"] == str(tmp_path / "real" / FOLDER)


def test_a_second_upload_of_the_same_run_changes_nothing(run: Path) -> None:
    (run / "state" / "mark").write_text("")
    assert stage(run.parent, nonce="n2")["staged"] == "again"
    assert (run / "state" / "mark").exists()
    assert left_in(run.parent) == [FOLDER]


def test_two_uploads_at_once_make_one_directory(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda n: stage(tmp_path, nonce=f"n{n}"), range(4)))
    assert all("staged" in each for each in told)
    assert left_in(tmp_path) == [FOLDER]


@pytest.mark.parametrize("place", [".", "above", "above/below"])
def test_a_root_that_everyone_can_replace_is_refused(tmp_path: Path, place: str) -> None:
    root = tmp_path / "above" / "below"
    root.mkdir(parents=True)
    (tmp_path / place).chmod(0o777)
    told = stage(root)
    assert f"everyone may write to {(tmp_path / place).resolve()}" in told["failed"]
    assert left_in(root) == []
    (tmp_path / place).chmod(0o1777)
    assert stage(root)["staged"] == "new"


@pytest.mark.skipif(bool(os.geteuid()), reason="only root can give files away")
def test_a_root_below_a_directory_of_another_user_is_told(tmp_path: Path) -> None:
    root = tmp_path / "theirs" / "ann"
    root.mkdir(parents=True)
    os.chown(tmp_path / "theirs", 12345, -1)
    (tmp_path / "theirs").chmod(0o1777)
    assert stage(root)["shared"] == str(tmp_path / "theirs")


def test_a_root_that_a_group_can_replace_is_told(tmp_path: Path) -> None:
    root = tmp_path / "project" / "ann"
    root.mkdir(parents=True)
    assert "shared" not in stage(root, nonce="n1")
    (tmp_path / "project").chmod(0o2770)
    told = stage(root, nonce="n2")
    assert (told["shared"], told["staged"]) == (str(tmp_path / "project"), "again")
    (tmp_path / "project").chmod(0o3770)
    assert "shared" not in stage(root, nonce="n3")


def test_a_default_acl_of_the_root_opens_nothing(tmp_path: Path) -> None:
    """Where a directory has one, the kernel sets umask aside."""
    nobody = 0xFFFFFFFF
    entries = ((1, 7, nobody), (2, 7, 4003), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody))
    acl = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(tmp_path, "system.posix_acl_default", struct.pack("<I", 2) + acl)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    stage(tmp_path)
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700


def test_the_directory_of_another_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "TOKEN").write_text(OTHER)
    assert "another run" in stage(tmp_path)["failed"]
    assert left_in(tmp_path / FOLDER) == ["TOKEN"]
    assert left_in(tmp_path) == [FOLDER]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tar()[:1500], "incomplete"),
        (tar(sums=False), "incomplete"),
        (tar({"bundle/job.sbatch": b"x"}), "incomplete"),
        (tar().replace(b"#!/bin/bash", b"#!/bin/evil"), "damaged"),
        (b"", "tar archive"),
    ],
)
def test_a_broken_upload_leaves_nothing(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in stage(tmp_path, content)["failed"]
    assert left_in(tmp_path) == []


def test_leftovers_of_cut_uploads_go_after_a_day(tmp_path: Path) -> None:
    for name, age in (("demo-abcdefgh.part-x", 90_000), ("demo-abcdefgh.part-y", 100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    (tmp_path / "mine.part").mkdir()
    os.utime(tmp_path / "mine.part", (1, 1))
    stage(tmp_path)
    assert left_in(tmp_path) == [FOLDER, "demo-abcdefgh.part-y", "mine.part"]


def test_names_in_the_root_expand_over_there(tmp_path: Path) -> None:
    script = scripts.stage("$SOME_WHERE/a $(b)", FOLDER, TOKEN, "n")
    told = sh(script, tar(), {"SOME_WHERE": str(tmp_path)})
    assert told["directory"] == f"{tmp_path}/a $(b)/{FOLDER}"


def test_a_name_that_is_not_set_there_is_said(tmp_path: Path) -> None:
    told = sh(scripts.stage("$NOT_SET_HERE/runs", FOLDER, TOKEN, "n"), b"")
    assert told["failed"] == "$NOT_SET_HERE is not set there"


def test_a_root_that_is_no_absolute_path_is_refused(tmp_path: Path) -> None:
    assert "not an absolute path" in stage("runs")["failed"]


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in stage(tmp_path / "file" / "runs")["failed"]


# one attempt


def start(run: Path, attempt: int, program: str, *, env: Mapping[str, str] | None = None,
          forget: JobId | None = None, token: str = TOKEN) -> dict[str, str]:  # fmt: skip
    command = Command.of("sh", "-c", program, f"jobgen:{TOKEN}:{attempt}")
    return sh(scripts.start(str(run), token, attempt, command, forget), env=env)


def test_an_attempt_tells_its_id_code_and_mark(run: Path) -> None:
    told = start(run, 1, "echo 42; echo careful >&2")
    assert (told["jobid"], told["err"]) == ("42", "careful")
    until((run / "submit" / "rc.1").exists)  # the id is enough for an answer
    assert (run / "submit" / "rc.1").read_text() == "0\n"
    assert told["out"].splitlines()[-1] == "42"
    host, pid, at = told["attempt"].rsplit(".", 2)
    assert host == os.uname().nodename
    assert pid.isdigit()
    assert abs(int(at) - time.time()) < 60


def test_one_attempt_number_runs_once_however_often_it_is_started(run: Path) -> None:
    program = "echo ran >>ran; sleep 0.3; echo 42"
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: start(run, 1, program), range(8)))
    assert (run / "ran").read_text() == "ran\n"
    assert {each["jobid"] for each in told} == {"42"}


def test_no_further_attempt_runs_once_an_id_is_known(run: Path) -> None:
    start(run, 1, "echo 42")
    start(run, 2, "echo 43; touch ran")
    assert not (run / "ran").exists()


def test_an_id_that_is_void_is_put_aside(run: Path) -> None:
    start(run, 1, "echo 42")
    told = start(run, 2, "echo 43", forget=JobId(42))
    assert told["jobid"] == "43"
    assert (run / "submit" / "lost.42").exists()
    assert start(run, 3, "echo 44", forget=JobId(42))["jobid"] == "43", "only that one"


def test_nothing_starts_after_the_tombstone(run: Path) -> None:
    assert sh(scripts.bury(str(run), TOKEN)) == {"buried": "yes"}
    told = start(run, 1, "touch ran")
    assert told["cancel"] == "yes"
    assert "attempt" not in told
    assert not (run / "ran").exists()


def test_an_id_with_a_cluster_and_words_around_it_is_found(run: Path) -> None:
    program = "echo 'your project has 12 hours'; echo '42;alpha'; echo 'see you'; exit 1"
    told = start(run, 1, program)
    assert told["jobid"] == "42;alpha"
    until((run / "submit" / "rc.1").exists)
    assert (run / "submit" / "rc.1").read_text() == "1\n"


def test_without_an_id_there_is_only_the_code(run: Path) -> None:
    told = start(run, 1, "echo 'Submitted 12'; echo no >&2; exit 1")
    assert "jobid" not in told
    assert (told["rc"], told["err"]) == ("1", "no")


def test_a_profile_s_defaults_do_not_reach_sbatch(run: Path) -> None:
    env = {
        "SBATCH_TIMELIMIT": "3",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_CONF": "/etc/kept",
        "SLURM_JWT": "kept",
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
    }
    start(run, 1, "env >told", env=env)
    told = (run / "told").read_text().splitlines()
    seen = {line.partition("=")[0] for line in told}
    assert seen >= {"SLURM_CONF", "SLURM_JWT"}
    assert "LC_ALL=C.UTF-8" in told
    assert not seen & {"SBATCH_TIMELIMIT", "SLURM_TIME_FORMAT"}


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o027])
def test_sbatch_has_the_user_s_own_umask_and_our_files_are_private(run: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        start(run, 1, "umask >told; echo 42")
    finally:
        os.umask(before)
    assert int((run / "told").read_text(), 8) == mask
    until((run / "submit" / "rc.1").exists)
    ours = [path for path in (run / "submit").iterdir() if not path.is_symlink()]
    assert {path.stat().st_mode & 0o077 for path in ours} == {0}


def test_an_attempt_outlives_the_connection_that_started_it(run: Path) -> None:
    command = Command.of("sh", "-c", "sleep 0.7; echo 42", f"jobgen:{TOKEN}:1")
    script = scripts.start(str(run), TOKEN, 1, command)
    child = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.DEVNULL, start_new_session=True
    )
    until((run / "submit" / "attempt.1").is_symlink)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    until((run / "submit" / "rc.1").exists)
    assert (run / "submit" / "jobid").read_text() == "42\n"


def test_a_directory_of_another_run_starts_nothing(run: Path) -> None:
    assert start(run, 1, "touch ran", token=OTHER) == {"missing": str(run)}
    assert not (run / "ran").exists()


def test_a_job_inherits_nothing_to_read_from(run: Path) -> None:
    start(run, 1, "cat >told; echo 42")
    assert (run / "told").read_text() == ""


# looking into it


def resolve(run: Path, attempt: int = 1) -> dict[str, str]:
    asked = {"find": Command.of("printf", "%s", "it's 42"), "config": Command.of("false")}
    return sh(scripts.resolve(str(run), TOKEN, attempt, asked))


def test_what_was_never_run_left_nothing(run: Path) -> None:
    told = resolve(run)
    assert (told["alive"], told["find.out"], told["config.code"]) == ("no", "it's 42", "1")
    assert not {"attempt", "rc", "jobid"} & set(told)


def test_an_sbatch_that_still_runs_is_seen_even_without_its_parent(run: Path) -> None:
    # as words of a program that does not end; start would wait for it
    # and that stays itself: a shell becomes the last command of its words
    program = "touch begun; sleep 3600; true"
    sbatch = SlurmScheduler().submit(Attempt(("x",), "/", TOKEN, 1))
    (comment,) = (word for word in sbatch.words if str(word).startswith("--comment="))
    command = Command.of("sh", "-c", program, str(comment))
    words = ["sh", str(run / "submit" / "submit.sh"), "1", *(str(w) for w in command.words)]
    parent = subprocess.Popen(words, start_new_session=True)
    try:
        until((run / "begun").exists)
        assert resolve(run)["alive"] == "yes"
        parent.kill()
        parent.wait()
        assert resolve(run)["alive"] == "yes", "the child may still send its request"
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    until(lambda: resolve(run)["alive"] == "no")
    assert "rc" not in resolve(run)


# the further jobs of a run


SAID = [json.loads(path.read_text()) for path in FACTS.glob("*.json")]
REFUSALS = [fact for fact in SAID if fact["method"] == "is_refusal"]


@pytest.mark.parametrize("fact", REFUSALS, ids=lambda fact: fact["title"])
def test_a_script_takes_the_same_answers_for_refusals(run: Path, fact: Mapping[str, Any]) -> None:
    race = scripts.list_race_files([["--qos=a"], ["--qos=b"]], TOKEN)
    (run / "submit" / "refusals").write_text(race["submit/refusals"])
    (run / "submit" / "refusals.sh").write_text(race["submit/refusals.sh"])
    (run / "said").write_text(fact["err"])
    program = f". submit/refusals.sh; is_refused {fact['code']} said"
    done = subprocess.run(["sh", "-c", program], cwd=run, check=False)
    assert (done.returncode == 0) is is_definite(fact["code"], fact["err"])


REFUSED = "sbatch: error: Batch job submission failed: Invalid qos specification"
SBATCH = f"""\
#!/bin/sh
echo "$@" >>calls
case "$*" in
*--qos=good*) echo 42 ;;
*--qos=odd*) echo 'sbatch: error: Unexpected message received' >&2; exit 1 ;;
*) echo '{REFUSED}' >&2; exit 1 ;;
esac
"""


def race(run: Path, *entries: str, shape: str = "") -> dict[str, str]:
    """Submit a race of entries to an sbatch of this folder; the later ones may have a shape."""
    first, *others = [f"--qos={name}" for name in entries]
    words = [[first], *([each, shape] if shape else [each] for each in others)]
    for path, text in scripts.list_race_files(words, TOKEN).items():
        (run / path).write_text(text)
    (run / "sbatch").write_text(SBATCH)
    command = Command.of("sh", "./sbatch", "--parsable", *words[0], "bundle/job.sbatch", "digest")
    return sh(scripts.start(str(run), TOKEN, 1, command))


def test_an_entry_that_is_refused_is_followed_by_the_next(run: Path) -> None:
    told = race(run, "bad", "good", "worse")
    assert told["jobid"] == "42"
    assert (run / "calls").read_text().splitlines() == [
        "--parsable --qos=bad bundle/job.sbatch digest",
        "--parsable --qos=good bundle/job.sbatch digest",
    ]
    assert (run / "submit" / "entry").read_text() == "1\n"
    assert (run / "submit" / ".failed").read_text() == f"0 {REFUSED} \n"


def test_the_entry_that_stands_in_has_the_script_of_its_shape(run: Path) -> None:
    (run / "bundle" / "race.1").mkdir()
    (run / "bundle" / "race.1" / "job.sbatch").touch()
    told = race(run, "bad", "good", shape="nodes=2")
    assert told["jobid"] == "42"
    last = (run / "calls").read_text().splitlines()[-1]
    assert last == "--parsable --qos=good bundle/race.1/job.sbatch digest"


def test_an_unclear_answer_is_followed_by_no_other_entry(run: Path) -> None:
    told = race(run, "bad", "odd", "good")
    assert len((run / "calls").read_text().splitlines()) == 2
    assert "jobid" not in told
    assert not is_definite(int(told["rc"]), told["err"])


def test_entries_that_are_all_refused_are_told_with_each_reason(run: Path) -> None:
    told = race(run, "bad", "worse")
    assert is_definite(int(told["rc"]), told["err"])
    assert told["err"] == f"qos=bad: {REFUSED} \nqos=worse: {REFUSED} "


def test_an_array_that_is_refused_is_not_asked_for_again(run: Path) -> None:
    arrays = [SweepArray(0, "0-4"), SweepArray(5, "0-4")]
    for path, text in scripts.list_files(arrays).items():
        (run / path).write_text(text)
    (run / "submit" / "jobid").write_text("41\n")
    (run / "sbatch").write_text(SBATCH.replace(REFUSED, "sbatch: unrecognized option '--x'"))
    told = sh(scripts.start_arrays(str(run), TOKEN, ["digest", "mark", "", "sh", "./sbatch"]))
    assert told["arrays-failed"].startswith("sbatch: unrecognized option")
    assert len((run / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize("why", ["", "nobody knows them"])
def test_arrays_that_were_lost_are_missing_again(run: Path, why: str) -> None:
    submit = run / "submit"
    for number, job in (("1", "42"), ("2", "43")):
        (submit / f"array.{number}").write_text(f"{job}\n")
    (submit / "arrays.done").touch()
    sh(scripts.lose_arrays(str(run), OTHER, why, ["1=42"]))
    assert (submit / "array.1").exists(), "another run's"
    sh(scripts.lose_arrays(str(run), TOKEN, why, ["1=42", "2=44"]))
    assert not (submit / "array.1").exists()
    assert (submit / "array.2").read_text() == "43\n", "that one has another id by now"
    assert not (submit / "arrays.done").exists()
    failed = submit / "arrays.failed"
    assert (failed.read_text().strip() if failed.exists() else "") == why


def test_the_claim_is_told(run: Path) -> None:
    (run / "state" / "0").mkdir()
    (run / "state" / "0" / "claim").symlink_to("42")
    assert resolve(run)["claim"] == "42"


def test_an_id_that_was_found_is_written_once(run: Path) -> None:
    sh(scripts.record(str(run), TOKEN, JobId(42)))
    sh(scripts.record(str(run), TOKEN, JobId(43)))
    assert (run / "submit" / "jobid").read_text() == "42\n"


# looking at many, and cleaning up


def test_the_markers_of_many_runs_come_in_one_answer(run: Path) -> None:
    state = run / "state" / "0"
    state.mkdir()
    (state / "claim").symlink_to("42")
    (state / "started.0").symlink_to("42.99")
    (state / "exit.0").write_text("rc=3\nnode=n1\ntime=5\njob=42\nend=done\n")
    (state / "requeued.0").write_text("")
    (state / "report").write_text('{"peak": 7}')
    (state / "events").mkdir()
    (state / "events" / "0.n1.0").write_text("v=1 time=5 kind=exit node=n1 rank=0 code=3\n")
    line = "v=1 time=5 kind=failed node=n1 rank=0 code=3 signal=0\n"
    (state / "events" / "0.n1.job").write_text(line)
    script = scripts.observe(
        [str(run), str(run.parent / "it's gone")], {"queue": Command.of("printf", "%s", "42")}
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    told = split_frames(done.stdout)
    assert index(told)["queue.out"] == "42"
    first, second = dict(split(told, "run")).values()
    seen = read_markers(first)
    assert seen.claim == JobId(42)
    assert abs(seen.started["0", 0] - time.time()) < 60
    assert seen.requeued == {("0", 0)}
    assert seen.report == {"peak": 7}
    assert seen.failures == ((1, "n1", 0, 3, 0, "0"),)
    assert (seen.exits["0", 0].code, seen.exits["0", 0].time) == (3, 5.0)
    assert "secrets" in first
    assert "missing" in second


def test_an_end_without_a_word_is_seen(run: Path) -> None:
    state = run / "state" / "0"
    state.mkdir()
    (state / "started.0").symlink_to("42.99")
    script = scripts.observe([str(run)], {})
    assert not read_markers(dict(split(split_frames(shell(script)), "run"))[str(run)]).full
    (state / ".exit").touch()
    seen = read_markers(dict(split(split_frames(shell(script)), "run"))[str(run)])
    assert seen.full
    assert seen.complete


BREAKS = {
    "no process for stat": ("stat", "kill -9 $$"),
    "stat sees half of the marks": ("stat", '"$real" "$@" | head -n 1; exit 1'),
    "no process for grep": ("cut", "kill -9 $$"),
    "the report cannot be read": ("head", "exit 1"),
}


@pytest.mark.parametrize("tool", BREAKS.values(), ids=BREAKS)
def test_a_look_that_was_broken_off_is_not_whole(run: Path, tool: tuple[str, str]) -> None:
    state = run / "state" / "0"
    (state / "preflight.0").mkdir(parents=True)
    (state / "preflight.0" / "findings").write_text("bad n1 GPU 3 is gone\n")
    (state / "claim").symlink_to("42")
    (state / "started.0").symlink_to("42.99")
    (state / "exit.0").write_text("rc=3\nnode=n1\ntime=5\njob=42\nend=done\n")
    (state / "report").write_text('{"peak": 7}')
    script = scripts.observe([str(run)], {})
    assert read_markers(dict(split(split_frames(shell(script)), "run"))[str(run)]).complete
    name, body = tool
    (run / "bin").mkdir()
    (run / "bin" / name).write_text(f"#!/bin/sh\nreal={shutil.which(name)}\n{body}\n")
    (run / "bin" / name).chmod(0o755)
    path = f"{run / 'bin'}:{os.environ['PATH']}"
    assert not read_markers(
        dict(split(split_frames(shell(script, path)), "run"))[str(run)]
    ).complete


def shell(script: str, path: str = os.environ["PATH"]) -> bytes:
    env = {**os.environ, "PATH": path}
    return subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, env=env).stdout


def test_secrets_of_runs_that_ended_are_removed_and_no_others(run: Path) -> None:
    sh(scripts.sweep([(str(run), OTHER)]))
    assert (run / "secrets.env").exists()
    sh(scripts.sweep([(str(run.parent / "gone"), TOKEN), (str(run), TOKEN)]))
    assert not (run / "secrets.env").exists()
    assert (run / "bundle" / "job.sbatch").exists()


def test_a_refused_run_is_removed_and_no_other(run: Path) -> None:
    sh(scripts.discard(str(run), OTHER))
    assert run.exists()
    sh(scripts.discard(str(run), TOKEN))
    assert left_in(run.parent) == []


@pytest.mark.parametrize(
    "path", sorted(Path(scripts.__file__).parents[1].glob("payload/*.sh")), ids=lambda p: p.name
)
def test_what_runs_over_there_is_clean_shell(path: Path) -> None:
    done = subprocess.run([shellcheck(), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
