"""Words for a shell, and what a command gave back."""

from __future__ import annotations

import io

from hypothesis import example, given
from hypothesis import strategies as st

from jobgen import shell


@given(st.text() | st.text("a\n\r\v\f\x1c\x85\u2028"))
@example("")
@example("\n")
@example("a\r\r\n\n")
def test_lines_are_those_of_a_file(text: str) -> None:
    lines = [line.removesuffix("\n") for line in io.StringIO(text, newline="\n")]
    assert shell.split_lines(text) == [line.removesuffix("\r") for line in lines]
