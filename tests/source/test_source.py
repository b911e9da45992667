"""YAML 1.2, places, and everything that is refused before a value exists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.errors import Invalid, Place
from jobgen.source import Flag, Real, WrittenInt, parse, resolve_scalar, scan


def codes(text: str) -> list[str]:
    return [p.code for p in scan(text, "job.yaml").problems]


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "off",
        "4:00:00",
        "12:30",
        "010",
        "0123",
        "1_000",
        "2024-01-01",
        "0b1",
        "1e",
        "--",
        "NO",
    ],
)
def test_what_yaml_1_1_would_change_stays_text(text: str) -> None:
    assert resolve_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e-4", 1e-4),
        ("1.50", 1.5),
        (".5", 0.5),
        ("+1", 1),
    ],
)
def test_a_number_knows_its_value_and_how_it_was_written(text: str, value: float) -> None:
    number = resolve_scalar(text)
    assert isinstance(number, (WrittenInt, Real))
    assert number == value
    assert number.text == text


def test_words_of_the_core_schema() -> None:
    assert resolve_scalar("~") is None
    assert resolve_scalar("null") is None
    assert resolve_scalar("True") == Flag(flag=True, text="True")
    assert resolve_scalar("false") == Flag(flag=False, text="false")
    assert resolve_scalar(".inf") == float("inf")
    assert str(resolve_scalar("-.INF")) == "-inf"


def test_a_very_long_number_is_text_and_costs_nothing() -> None:
    assert isinstance(resolve_scalar("9" * 100_000), str)


def test_every_key_and_value_has_its_place() -> None:
    source = parse("name: demo\nenv:\n  A: 'x y'\nsetup: [a, bc]\n", "job.yaml")
    assert source.data == {"name": "demo", "env": {"A": "x y"}, "setup": ["a", "bc"]}
    assert source.places["name",] == Place("job.yaml", 1, 1, 5)
    assert source.values["name",] == Place("job.yaml", 1, 7, 11)
    assert source.places["env", "A"] == Place("job.yaml", 3, 3, 4)
    assert source.values["env", "A"] == Place("job.yaml", 3, 6, 11)
    assert source.places["setup", 1] == Place("job.yaml", 4, 12, 14)


def test_columns_count_characters_not_bytes() -> None:
    source = parse("labels: {a: 'ß漢', b: c}", "job.yaml")
    assert source.places["labels", "b"].col == 19


def test_a_duplicate_key_names_both_lines_and_the_first_wins() -> None:
    source = scan("nodes: 2\nname: a\nnodes: 64\n", "job.yaml")
    (problem,) = source.problems
    assert problem.code == "J103"
    assert (problem.place, problem.also) == (
        Place("job.yaml", 3, 1, 6),
        (Place("job.yaml", 1, 1, 6),),
    )
    assert "job.yaml:1:" in problem.message
    assert source.data["nodes"] == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "J101"),
        ("# nothing\n", "J101"),
        ("---\n", "J101"),
        ("- a\n", "J104"),
        ("text\n", "J104"),
        ("a: [1\n", "J105"),
        ("a: 'b\n", "J105"),
        ("a: @b\n", "J105"),
        ("a: *.pt\n", "J105"),
        ("a: b: c\n", "J105"),
        ("a:\n\tb: c\n", "J106"),
        ("a: &x 1\n", "J107"),
        ("a: *x\n", "J107"),
        ("a: !!python/object:os.system x\n", "J108"),
        ("a: !x {b: c}\n", "J108"),
        ("a: b\u200b\n", "J109"),
        ("a: b\u2028c\n", "J109"),
        ("a: \x1b[2J\n", "J109"),
        ("a: b\rc: d\n", "J109"),
        ("\ufeffa: b\n", "J110"),
        ("a: \udcff\n", "J110"),
        ("\udcff\udcfea\0:\0\n", "J110"),
        ("a: " + "[" * 60 + "]" * 60, "J112"),
        ("a: [" + "1," * 20_000 + "]", "J112"),
        ("a: b\n---\nc: d\n", "J113"),
        ("1: a\n", "J114"),
        ("true: a\n", "J114"),
        ("a: {{ b }}\n", "J114"),
        ("? [a]\n: b\n", "J114"),
        ("<<: {a: b}\n", "J115"),
    ],
)
def test_what_cannot_stand_is_refused(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_a_file_of_more_than_a_mebibyte_is_refused() -> None:
    (problem,) = scan("a: b\n#" + "x" * (1 << 20), "job.yaml").problems
    assert problem.code == "J111"
    assert "MiB" in problem.message


def test_windows_line_ends_are_read() -> None:
    source = parse("a: |\r\n  x\r\n  y\r\nb: 1\r\n", "job.yaml")
    assert source.data == {"a": "x\ny\n", "b": 1}


def test_a_directive_and_an_end_mark_are_no_second_document() -> None:
    assert parse("%YAML 1.2\n---\na: b\n...\n", "job.yaml").data == {"a": "b"}


def test_quoted_keys_and_words_are_text() -> None:
    assert parse("'1': 'true'\n", "job.yaml").data == {"1": "true"}


def test_all_problems_are_found_at_once() -> None:
    text = "a: &x 1\nb: *x\na: 2\nc: !y 3\n1: d\n"
    assert sorted(codes(text)) == ["J103", "J107", "J107", "J108", "J114"]


def test_problems_beside_a_tab_are_found_too() -> None:
    source = scan("env:\n\tA: 1\n\tB: 2\nname: x\nname: y\n", "job.yaml")
    assert [(p.code, p.place.line if p.place else 0) for p in source.problems] == [
        ("J103", 5),
        ("J106", 2),
        ("J106", 3),
    ]
    assert source.data["env"] == {"A": 1, "B": 2}


def test_a_tab_inside_a_block_is_the_users() -> None:
    assert (
        parse("run: |\n  if x; then\n  \ty\n  fi\n", "job.yaml").data["run"]
        == "if x; then\n\ty\nfi\n"
    )


def test_parse_raises_all_of_them() -> None:
    with pytest.raises(Invalid) as caught:
        parse("a: &x 1\na: 2\n", "job.yaml")
    assert len(caught.value.problems) == 2
    assert caught.value.exit == 3


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    source = scan(text, "job.yaml")
    assert isinstance(source.data, dict)
    for problem in source.problems:
        assert problem.message.isprintable()


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(raw: bytes) -> None:
    scan(raw.decode("utf-8", "surrogateescape"), "job.yaml")


_KEYS = st.text("abcdef", min_size=1, max_size=4)
_PLAIN = st.one_of(st.integers(-99, 99), st.text("xyz ", max_size=6))
_TREES = st.recursive(
    _PLAIN, lambda inner: st.one_of(st.lists(inner), st.dictionaries(_KEYS, inner)), max_leaves=15
)


@given(st.dictionaries(_KEYS, _TREES, min_size=1))
def test_every_value_of_any_tree_comes_back_and_has_a_place(tree: dict[str, object]) -> None:
    import json

    source = parse(json.dumps(tree), "job.yaml")
    assert source.data == tree
    assert set(source.values) == {*_paths(tree, ())}


def _paths(value: object, path: tuple[object, ...]) -> list[tuple[object, ...]]:
    below: list[tuple[object, ...]] = [path]
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, item in items:
        below += _paths(item, (*path, step))
    return below


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: {c: d\ne: 1\n", 2, "unclosed"),
        ("a: 'b\nc: 1\n", 1, "quotation mark"),
        ("a: 1\nb:\xa01\nc: 2\n", 2, "U+00A0"),
        ("a: 1\nb\n", 2, "without ':'"),
        ("a: 'it's'\n", 1, "already ended"),
        ("a: b\n c: d\n", 2, "line 2 is indented more than line 1"),
        ("a: b\n\n# c\n  c: d\n", 4, "line 4 is indented more than line 1"),
        ("a: b\nc: d e: f\n", 2, "not allowed here"),
        ("a:\n    b: 1\n   c: 2\n", 3, "unexpected indentation"),
        ("a:\n  - b\n c: d\n", 3, "unexpected indentation"),
        ("a: @b\n", 1, "start with @"),
    ],
)
def test_a_syntax_error_points_to_the_line_to_mend(text: str, line: int, words: str) -> None:
    (problem,) = scan(text, "job.yaml").problems
    assert problem.code == "J105"
    assert problem.place
    assert problem.place.line == line
    assert words in problem.message
    assert problem.hint


def test_no_message_quotes_what_moves_a_cursor() -> None:
    source = scan('a: !x%1by 1\n"\\e[2J": 1\n"\\e[2J": 2\n', "job.yaml")
    assert [p.code for p in source.problems] == ["J108", "J103"]
    assert all(p.message.isprintable() for p in source.problems)
