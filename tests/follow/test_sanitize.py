"""Foreign text cannot act on the terminal."""

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.follow.sanitize import clean, clean_lines

DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)

ATTACKS = {
    "clipboard": "\x1b]52;c;ZWNobyBwd25lZA==\x07after",
    "title": "\x1b]0;you are root\x07after",
    "title ended by ST": "\x1b]2;t\x1b\\after",
    "link": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\after",
    "device control": "\x1bP1$r0m\x1b\\after",
    "application command": "\x1b_Gx\x1b\\after",
    "private message": "\x1b^x\x1b\\after",
    "start of string": "\x1bXx\x1b\\after",
    "cursor up and erase": "\x1b[2A\x1b[2Kafter",
    "colour": "\x1b[31mafter\x1b[0m",
    "clear screen": "\x1bcafter",
    "character set": "\x1b(0after",
    "C1 control sequence": "\x9b31mafter",
    "C1 operating system command": "\x9d0;t\x07after",
    "sequence hidden in a sequence": "\x1b\x1b[31m[2Jafter",
    "bidi override": "\u202eafter",
    "bell": "\x07after",
    "backspaces": "ab\x08\x08after",
    "unfinished string": "\x1b]0;after",
    "unfinished sequence": "after\x1b[31",
    "escape at the end": "after\x1b",
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_is_neutral_and_the_words_stay(text: str) -> None:
    shown = clean(text)
    assert not DANGEROUS.search(shown)
    assert "after" in shown


def test_words_that_only_look_like_markup_stay_as_they_are() -> None:
    for text in ("[rank1]: x", "gpu[a-c]", "[/]", "100%", "naïve → 你好 █", "a\tb"):
        assert clean(text) == text


def test_control_and_format_characters_are_shown_as_numbers() -> None:
    assert clean("a\x00b\x7fc\x85d\u202ee\U000e0041") == "a\\x00b\\x7fc\\x85d\\u202ee\\U000e0041"


def test_every_control_and_format_character_of_unicode_is_shown_as_its_number() -> None:
    kinds = {"Cc", "Cf", "Zl", "Zp", "Cs"}
    bad = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in kinds]
    passed = [hex(ord(c)) for c in bad if clean(f"a{c}b") == f"a{c}b" and c not in "\t\n"]
    assert passed == []


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("8", ""),
        ("08", ""),
        ("8:1", ""),
        ("31;8", "31"),
        ("8;31;8", "31"),
        ("38;5;8", "38;5;8"),
        ("48;5;8;8", "48;5;8"),
        ("38;2;8;8;8;8;1", "38;2;8;8;8;1"),
        ("38:5:8", "38:5:8"),
        ("38:5:8;8", "38:5:8"),
        ("", ""),
        ("0", "0"),
    ],
)
def test_no_colour_code_conceals_a_text(sent: str, shown: str) -> None:
    text = clean(f"\x1b[{sent}mx", colour=True).removesuffix("\x1b[0m")
    assert text in ((f"\x1b[{shown}mx",) if shown or not sent else ("x",))


def test_colours_stay_only_on_request_and_end_with_their_line() -> None:
    assert clean("\x1b[31mred\nplain", colour=True) == "\x1b[31mred\x1b[0m\nplain"
    assert clean("\x1b[31mred\x1b[2J\x1b]0;t\x07", colour=True) == "\x1b[31mred\x1b[0m"
    assert clean("\x1b\x1b[31m[2Jx", colour=True) == "\\x1b\x1b[31m[2Jx\x1b[0m"


def test_a_progress_bar_shows_its_last_state() -> None:
    assert clean_lines(b" 10%\r 50%\r100%\nnext\r\n") == b"100%\nnext\n"


def test_bytes_that_are_no_text_are_shown_as_numbers() -> None:
    assert clean_lines(b"ok \xff\xc3\n") == b"ok \\xff\\xc3\n"


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_whatever_reach_the_terminal_as_controls(data: bytes, colour: bool) -> None:
    shown = clean_lines(data + b"\n", colour=colour).decode()
    bare = re.sub("\x1b\\[[0-9;:]*m", "", shown) if colour else shown
    assert not DANGEROUS.search(bare)


@given(
    st.lists(st.sampled_from([*ATTACKS.values(), "\x1b", "[", "m", "\x9b", "]", "\n"]), max_size=8)
)
def test_pieces_of_attacks_put_together_are_neutral(parts: list[str]) -> None:
    text = "".join(parts)
    assert not DANGEROUS.search(clean(text))
    assert clean(clean(text)) == clean(text)
