"""The event record: what is read of any line, and what is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.events import (
    find_decisive_step,
    list_failures,
    list_silences,
    list_step_runs,
    read_events,
)
from jobgen.payload import text as payload

GOOD = "v=1 time=1795268400.25 kind=exit node=n2 rank=1 code=7 signal=0"


def test_a_line_holds_its_time_its_kind_and_fields() -> None:
    (event,) = read_events(GOOD + "\n")
    assert (event.time, event.kind, event.node, event.rank) == (1795268400.25, "exit", "n2", 1)
    assert (event.read_number("code"), event.read_number("none")) == (7, None)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "v=2 time=1 kind=exit",
        "time=1 kind=exit",
        "v=1 kind=exit",
        "v=1 time=soon kind=exit",
        "v=1 time=1",
        "v=1 time=1 kind=",
        "v=1 time=1 kind=exit code",
        "v=1 time=179526840",
        GOOD.replace(" rank", "  rank"),
    ],
)
def test_lines_of_later_versions_and_damaged_ones_are_left_out(line: str) -> None:
    whole = read_events(f"{GOOD}\n{line}\n{GOOD}\n")
    assert whole == read_events(f"{GOOD}\n{GOOD}\n")
    assert len(whole) == 2


@given(st.text(st.characters(blacklist_characters="\n\0", blacklist_categories=["Cs"])))
def test_a_value_of_any_text_comes_back(text: str) -> None:
    """As rank.sh escapes it."""
    words = text.replace("%", "%25").replace(" ", "%20")
    (event,) = read_events(f"{GOOD} why={words}")
    assert event.fields["why"] == text


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    for event in read_events(text):
        assert event.kind
    list_failures(1, text)
    list_silences(1, text)


def test_rank_sh_escapes_so_that_a_value_stays_one_word(tmp_path: Path) -> None:
    script = payload("rank.sh")
    record = script[script.index("record() {") : script.index("die() {")]
    (tmp_path / "events").mkdir()
    names = f"JOBGEN_STATE_DIR={tmp_path} JOBGEN_RESTART=0 node=n1 rank=3"
    words = "kind=none 100% of  it %20"
    done = subprocess.run(["bash", "-c", f"{names}\n{record}\nrecord exit 'why={words}'"])
    assert done.returncode == 0
    (event,) = read_events((tmp_path / "events" / "0.n1.3").read_text())
    assert (event.kind, event.rank, event.fields["why"]) == ("exit", 3, words)


def test_failures_and_silences_are_read_in_their_order() -> None:
    lines = [
        "v=1 time=5 kind=silent node=n1 rank=0 seconds=600",
        "v=1 time=9 kind=failed node=n2 rank=1 code=137 signal=9",
        "v=1 time=9.5 kind=failed node=n1 rank=0 code=1 signal=0",
        "v=1 time=9.5 kind=failed node=n1 rank=- code=1 signal=0",
        "v=1 time=9.5 kind=failed node=n1 rank=2",
    ]
    text = "\n".join(lines)
    failures = [(3, "n2", 1, 137, 9, "4"), (3, "n1", 0, 1, 0, "4"), (3, "n1", None, 1, 0, "4")]
    assert list_failures(3, text, "4") == failures
    assert list_silences(3, text) == [(3, "n1", 0, 600, "")]


STEPS = """\
v=1 time=1 kind=step step=serve nodes=1 world=1
v=1 time=2 kind=step step=train nodes=2 world=4
v=1 time=8 kind=step step=train code=1
v=1 time=9 kind=step step=serve code=0 stopped=1
"""


def test_a_group_that_was_stopped_has_not_failed() -> None:
    runs = {run.name: (run.ended, run.code, run.stopped) for run in list_step_runs(1, STEPS)}
    assert runs == {"serve": (9.0, 0, True), "train": (8.0, 1, False)}
    corrected = f"{STEPS}v=1 time=10 kind=step step=serve code=7\n"
    runs = {run.name: (run.ended, run.code, run.stopped) for run in list_step_runs(1, corrected)}
    assert runs["serve"] == (10.0, 7, False)


def test_the_decisive_step_is_the_one_whose_rank_failed_first() -> None:
    begun = "\n".join(STEPS.split("\n")[:2])
    assert find_decisive_step(read_events(begun)) == "train", "the newest while none has failed"
    assert find_decisive_step(read_events(STEPS)) == "train"
    failed = "v=1 time=7 kind=failed node=n3 rank=0 code=7 signal=0 step=serve\n"
    assert find_decisive_step(read_events(STEPS + failed)) == "serve"
    assert find_decisive_step(read_events(GOOD)) == ""
