"""Frames: what a script emits in a real shell is read byte for byte, and half of it is nothing."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.payload import text
from jobgen.shell import Command, join
from jobgen.submission.wire import (
    GarbledError,
    index,
    parse_number,
    read_answer,
    split,
    split_frames,
)

# a shell's variable holds no NUL, and $(…) takes the newlines at the end
CONTENT = st.text(
    alphabet=st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=60
).map(lambda value: value.rstrip("\n"))


def sh(call: str, shell: str = "sh") -> bytes:
    script = f"{text('common.sh')}\n{call}\n"
    return subprocess.run([shell, "-c", script], capture_output=True, check=True).stdout


@settings(max_examples=40)
@given(st.lists(CONTENT, max_size=5))
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_is_emitted_is_read(shell: str, contents: list[str]) -> None:
    calls = "\n".join(join(["emit", "key", content]) for content in contents)
    assert split_frames(sh(calls, shell)) == [("key", content) for content in contents]


@settings(max_examples=25)
@given(CONTENT, CONTENT, st.integers(0, 255))
def test_a_question_brings_both_streams_and_the_code(out: str, err: str, code: int) -> None:
    program = 'printf %s "$1"; printf %s "$2" >&2; exit "$3"'
    command = Command.of("sh", "-c", program, "sh", out, err, str(code))
    said = read_answer(index(split_frames(sh(f"ask it {command}"))), "it")
    assert (said.text, said.error_text, said.code) == (out, err, code)


def test_a_large_answer_on_both_streams_arrives() -> None:
    program = "yes | head -c 300000; yes no | head -c 300000 >&2"
    said = read_answer(index(split_frames(sh(f"ask it sh -c {join([program])}"))), "it")
    assert (len(said.out), len(said.err)) == (299_999, 299_999)


def test_content_cannot_forge_a_frame() -> None:
    assert split_frames(sh(join(["emit", "out", "x\njobid 2\n42"]))) == [("out", "x\njobid 2\n42")]


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_garbled(data: bytes) -> None:
    try:
        split_frames(data)
    except GarbledError:
        return


def test_an_answer_that_was_cut_off_is_no_answer() -> None:
    whole = b"now 2\n12\njobid 3\n123\n"
    for cut in range(1, len(whole)):
        if cut == len(b"now 2\n12\n"):
            continue
        with pytest.raises(GarbledError):
            split_frames(whole[:cut])


def test_groups_begin_at_their_key() -> None:
    told = [("now", "1"), ("run", "/a"), ("exit", "x"), ("exit", "y"), ("run", "/b")]
    assert list(split(told, "run")) == [("/a", {"exit": ["x", "y"]}), ("/b", {})]


@pytest.mark.parametrize("word", ["", "-1", "1.5", "١٢", "1e9", "9" * 40, "0x1"])
def test_only_plain_numbers_are_numbers(word: str) -> None:
    assert parse_number(word) is None


def test_a_question_that_was_not_answered_is_a_failure() -> None:
    assert read_answer({}, "queue").code != 0
