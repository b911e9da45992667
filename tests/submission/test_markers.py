"""What is read of a run directory's markers, and of the events and preflights in it."""

from __future__ import annotations

from jobgen.model.events import StepRecord
from jobgen.model.record import JobId
from jobgen.submission.markers import read_markers


def test_what_preflights_found_is_read_line_by_line() -> None:
    first = "0 0 bad\tn2\t7 of 8 GPUs are there\thave it drained\nwrong\tn1\tport 20007\tagain"
    again = ["0 1 bad\tn3\tits clock is off by 9 s\tset it", "0 2 warn\tn4\thot\tcool", "0 x bad"]
    assert read_markers({"preflight": [first, *again]}).unfit == (
        (1, "n1", "port 20007"),
        (1, "n2", "7 of 8 GPUs are there"),
        (2, "n3", "its clock is off by 9 s"),
    )


def test_ranks_that_failed_are_read_of_every_start() -> None:
    first = "0 0 v=1 time=5 kind=failed node=n2 rank=1 code=7 signal=0"
    second = "0 1 v=1 time=9 kind=silent node=n1 rank=0 seconds=600\nv=1 time=x kind=failed"
    seen = read_markers({"events": [first, second, "0 x", ""]})
    assert seen.failures == ((1, "n2", 1, 7, 0, "0"),)
    assert seen.silences == ((2, "n1", 0, 600, "0"),)


def test_a_failure_names_its_element() -> None:
    event = "v=1 time=9.5 kind=failed node=n1 rank=1 code=7 signal=0"
    assert read_markers({"events": [f"12 0 {event}"]}).failures[0].task == "12"


def test_a_claim_is_read_whatever_the_quotes() -> None:
    for text in ("9 'state/0/claim' -> '42'", "9 state/0/claim -> 42", "9 `state/0/claim' -> `42'"):
        assert read_markers({"marks": [text]}).claim == JobId(42)
    assert read_markers({"marks": ["9 'state/0/claim' -> 'rm -rf'"]}).claim is None


def test_steps_are_read_of_every_start() -> None:
    begun = "v=1 time=100.5 kind=step step=train nodes=2 world=4"
    ended = "v=1 time=160.0 kind=step step=train code=0"
    second = "v=1 time=161.0 kind=step step=eval nodes=1 world=2"
    again = "v=1 time=300.0 kind=step step=eval nodes=1 world=2"
    texts = [f"0 0 {begun}\n{ended}\n{second}\n", f"0 1 {again}\nv=1 kind=step step=x\n"]
    assert read_markers({"events": texts}).steps == (
        StepRecord(1, "train", 100.5, 160.0, 0, "0"),
        StepRecord(1, "eval", 161.0, None, None, "0"),
        StepRecord(2, "eval", 300.0, None, None, "0"),
    )


def test_code_that_stays_on_the_cluster_is_read_of_every_start() -> None:
    first = "0 0 v=1 time=5 kind=code at=/a%20b commit=3f2a changed=2 diff=77"
    second = "0 1 v=1 time=9 kind=code at=/a%20b commit= changed=? diff="
    assert read_markers({"events": [first, second]}).codes == (
        (1, "/a b", "3f2a", 2, "77", "0"),
        (2, "/a b", "", None, "", "0"),
    )
