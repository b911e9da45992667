"""The script of the questions, run by a real shell: deadlines hold, and what hangs is named."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from jobgen.app.doctor.remote import ask
from jobgen.survey.health import Answer
from jobgen.survey.health.questions import (
    Question,
    ask_disk,
    ask_shell,
    ask_slurm,
    build_script,
    parse_answers,
)
from jobgen.transport.this_machine import LocalTransport
from tests.waiting import HANG


def told(*questions: Question, deadline: float = HANG) -> dict[str, Answer]:
    with LocalTransport() as transport:
        return ask(transport, build_script(questions), deadline)[0]


def run(
    key: str, text: str, *, group: str = "", seconds: int = 300, gate: bool = False
) -> Question:
    return Question(key, group, seconds, ("sh", "-c", text), gate)


def test_an_answer_is_what_the_command_said() -> None:
    found = told(run("one", "echo a; echo b >&2; exit 3"), run("two", "printf '%s' 'x y'"))
    assert found["one"].code == 3
    assert (found["one"].out, found["one"].err.strip()) == ("a", "b")
    assert found["one"].seconds is not None
    assert (found["two"].code, found["two"].out, found["two"].summarize) == (0, "x y", "x y")


def test_a_program_that_is_not_there() -> None:
    assert told(Question("gone", "", 5, ("no-such-program",)))["gone"].code == 127


def test_what_hangs_costs_its_deadline_once_and_the_rest_is_asked() -> None:
    stuck = "trap '' TERM; echo began; while :; do sleep 0.1; done"
    found = told(
        run("first", stuck, group="disk", seconds=5),
        run("second", "echo never", group="disk"),
        run("third", "echo asked", group="slurm"),
    )
    assert found["first"].late
    assert found["first"].out == "began", "what it said before is kept"
    assert "second" not in found
    assert found["third"].out == "asked"


def test_a_gate_that_fails_leaves_out_its_group_alone() -> None:
    found = told(
        run("gate", "exit 1", group="controller", gate=True),
        run("other", "echo never", group="controller"),
        run("free", "echo asked"),
    )
    assert "other" not in found
    assert found["free"].ok


def test_what_no_deadline_can_end_is_named_too(tmp_path: Path) -> None:
    """A child that left its group keeps the answer open, as a dead file system does."""
    pid = tmp_path / "pid"
    escape = f"setsid sh -c 'echo $$ >{pid}; exec sleep 3600' & sleep 0.2"
    with LocalTransport() as transport:
        text = build_script([run("well", "echo yes"), run("stuck", escape, seconds=1)])
        found, lost = ask(transport, text, 8.0)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert lost is not None
    assert "no answer within 8 s" in lost.message
    assert found["well"].ok
    assert found["stuck"].late


def test_the_disk_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "demo-abcdefgh").mkdir()
    (tmp_path / "demo-ABCDEFGH").mkdir()
    found = told(*ask_disk(str(tmp_path)))["disk"].out.splitlines()
    assert f"at {tmp_path}" in found
    assert "runs 1" in found
    assert found[-1] == "doing nothing"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo-ABCDEFGH", "demo-abcdefgh"]


def test_a_root_with_everything_in_its_name(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s $(touch pwned) "here"'
    found = told(*ask_disk(str(odd).replace("$", "$$")))["disk"].out
    assert f"root {odd}\n" in found
    assert f"at {tmp_path}\n" in found
    assert not list(tmp_path.iterdir())


def test_the_shell_of_this_machine() -> None:
    found = told(ask_shell())["shell"].out
    assert "bash 5" in found or "bash 4" in found
    assert "missing tar" not in found


def test_every_question_has_a_key_of_its_own() -> None:
    keys = [q.key for q in (ask_shell(), *ask_slurm("#!/bin/bash\n"), *ask_disk("/x"))]
    assert len(set(keys)) == len(keys)
    assert "test" not in {q.key for q in ask_slurm("")}, "without a script nothing is tried"


def test_frames_that_make_no_sense() -> None:
    found = parse_answers([("x.code", "no"), ("asking", "y"), ("y.ms", "-1"), ("z", "")])
    assert found["x"].code == -1
    assert found["y"].late
    assert found["z"] == Answer()
