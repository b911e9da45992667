"""A problem is shown with its place, its line, a caret and what to do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.cli import diagnostics
from jobgen.cli.layout import measure
from jobgen.cli.output import Ink
from jobgen.errors import Diagnostic, Place

TEXT = "name: demo\nnodes: 2\ngpus_per_nodes: 8\ntime: 4:00\n"
TYPO = Diagnostic(
    "J102",
    "unknown key 'gpus_per_nodes'",
    Place("job.yaml", 3, 1, 15),
    "did you mean 'gpus_per_node'?",
)


def shown(problem: Diagnostic, text: str = TEXT, width: int = 80) -> str:
    return diagnostics.format_problem(problem, {"job.yaml": text}, Ink(width=width))


def test_a_problem_is_shown_as_people_know_it_from_compilers() -> None:
    assert shown(TYPO) == (
        "job.yaml:3:1: error[J102]: unknown key 'gpus_per_nodes'\n"
        "  |\n"
        "3 | gpus_per_nodes: 8\n"
        "  | ^^^^^^^^^^^^^^ did you mean 'gpus_per_node'?\n"
    )


def test_all_problems_are_counted_and_the_first_error_is_the_one_to_read_on_about() -> None:
    other = Diagnostic("J131", "'4:00' is ambiguous", Place("job.yaml", 4, 7, 11), "write 4h or 4m")
    text = diagnostics.screen([TYPO, other], {"job.yaml": TEXT}, Ink())
    assert "  |       ^^^^ write 4h or 4m\n" in text
    assert text.endswith("Found 2 errors in 1 file. More: jobgen explain J102\n")
    warned = [TYPO._replace(code="J300", severity="warning"), TYPO, other]
    assert diagnostics.summarize(warned, Ink()).endswith("More: jobgen explain J102\n")


def test_other_places_are_named_with_their_lines() -> None:
    twice = Diagnostic(
        "J104", "duplicate key 'nodes'", Place("job.yaml", 3, 1), also=(Place("job.yaml", 2, 1),)
    )
    assert "  = also: job.yaml:2:1: nodes: 2\n" in shown(twice)
    option = Place("--set nodes", kind="option")
    assert "  = also: --set nodes\n" in shown(twice._replace(also=(option,)))


def test_a_problem_without_a_place_is_one_line_and_a_help() -> None:
    text = shown(Diagnostic("J000", "no cluster selected", hint="add -c NAME"))
    assert text == "error: no cluster selected\n  = help: add -c NAME\n"


def test_a_place_in_a_file_that_is_not_known_is_still_named() -> None:
    text = shown(Diagnostic("J102", "unknown", Place("cluster x", 7, 2), "hint"))
    assert text.startswith("cluster x:7:2: error[J102]: unknown\n")
    assert "= help: hint" in text


def test_a_warning_says_that_it_is_one() -> None:
    assert "warning[J310]:" in shown(Diagnostic("J310", "hm", severity="warning"))


def test_the_caret_stands_under_wide_characters() -> None:
    line = "x: 你好 bad"
    text = shown(Diagnostic("J1", "m", Place("job.yaml", 1, 7, 10)), line)
    shown_line, caret = text.splitlines()[2:4]
    at = measure(shown_line[: shown_line.index("bad")])
    assert caret.index("^^^") == at


def test_a_tab_and_control_characters_are_shown_and_the_caret_keeps_its_place() -> None:
    text = shown(Diagnostic("J1", "m", Place("job.yaml", 1, 4, 7)), "\t\x1bxbad")
    shown_line, caret = text.splitlines()[2:4]
    assert "\\x1bxbad" in shown_line
    assert caret.index("^^^") == shown_line.index("bad")


def test_a_hint_that_does_not_fit_stands_below_and_is_folded() -> None:
    text = shown(Diagnostic("J1", "m", Place("job.yaml", 1, 1, 5), "word " * 30), width=60)
    assert "= help: word" in text
    assert all(measure(line) <= 60 for line in text.splitlines())


def test_a_very_long_line_is_cut_round_the_caret() -> None:
    line = "a" * 5000 + "BAD" + "b" * 5000
    text = shown(Diagnostic("J1", "m", Place("job.yaml", 1, 5001, 5004)), line)
    shown_line, caret = text.splitlines()[2:4]
    assert all(measure(ln) <= 80 for ln in text.splitlines())
    assert shown_line[caret.index("^") :][:3] == "BAD"


HOSTILE = st.text(st.sampled_from("ab: 你\t\x1b\x00\u202e\x9b]\r"), max_size=120)


@given(HOSTILE, HOSTILE, st.integers(0, 140), st.integers(0, 140), st.integers(60, 200))
def test_nothing_in_a_file_acts_on_the_terminal(
    line: str, words: str, col: int, end: int, width: int
) -> None:
    problem = Diagnostic(
        "J1", words, Place(words or "f", 1, col, end), words, also=(Place(words, 1),)
    )
    text = diagnostics.format_problem(problem, {words or "f": line}, Ink(width=width))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_github_gets_annotations_that_cannot_be_broken_out_of() -> None:
    problem = Diagnostic("J1", "a\nb::c%", Place("x,y:z.yaml", 3, 2), "h")
    assert (
        diagnostics.format_github([problem])
        == "::error file=x%2Cy%3Az.yaml,line=3,col=2,title=J1::a%0Ab::c%25%0Ah\n"
    )


@pytest.mark.parametrize("line", [0, 99])
def test_a_line_that_is_not_there_shows_no_excerpt(line: int) -> None:
    text = shown(Diagnostic("J1", "empty", Place("job.yaml", line), "hint"))
    assert "|" not in text
    assert "= help: hint" in text
