"""Lines of many ranks on one screen."""

import json
from types import SimpleNamespace

import pytest

from jobgen.app.logs import StreamEvent
from jobgen.cli import log_stream
from jobgen.cli.call import Call
from jobgen.cli.log_stream import PrefixForm, Stream
from jobgen.cli.output import Output
from jobgen.follow import Lines, LogSource


def rank(number: int, node: str = "n01", stream: str = "out") -> LogSource:
    return LogSource(node, number, "err" if stream == "err" else "out")


@pytest.fixture
def call() -> Call:
    return Call(Output({"TERM": "xterm"}))


def test_every_line_has_its_node_and_rank_in_columns_that_stay(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    stream = Stream(call)
    stream.show(
        [
            Lines(rank(0), b"a\nb\n"),
            Lines(rank(11, "n02", "err"), b"oops\n"),
            Lines(LogSource("", None, "job"), b"jobgen: hello\n"),
        ]
    )
    assert capsysbinary.readouterr().out.splitlines() == [
        b"n01 r0 | a",
        b"n01 r0 | b",
        b"n02 r11 ! oops",
        b"job     | jobgen: hello",
    ]


def test_lines_that_several_ranks_said_name_all_of_them(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    stream = Stream(call)
    stream.show([Lines(rank(n), b"me\n") for n in range(4)])
    capsysbinary.readouterr()
    stream.show(
        [
            Lines(rank(0), b"all\n", (rank(1), rank(2), rank(3, "n02"))),
            Lines(rank(0), b"some\n", (rank(1),)),
        ]
    )
    assert capsysbinary.readouterr().out.splitlines() == [b"*   r* | all", b"n01 r0-1 | some"]


def test_bytes_stay_as_they_are_without_prefixes(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = b"[rank1]: 100% [/] gpu[a-c] \xff\nno newline"
    Stream(call, prefixed=False).show([Lines(rank(1), data)])
    assert capsysbinary.readouterr().out == data


def test_json_lines_hold_one_line_each_and_no_colour(
    call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    call.flags.json = True
    call.output.color = "always"
    Stream(call).show(
        [
            StreamEvent("state", "RUNNING on n01", 5.0),
            Lines(rank(0), b"a\n\xe2\x86\x92\n", (rank(1),)),
        ]
    )
    out = capsys.readouterr().out
    events = [json.loads(line) for line in out.splitlines()]
    assert "\x1b" not in out
    assert [e["event"] for e in events] == ["state", "line", "line"]
    assert events[1] | {"line": ""} == {
        "event": "line",
        "node": "n01",
        "rank": 0,
        "stream": "out",
        "task": "0",
        "restart": 0,
        "line": "",
        "n": 2,
        "also": [1],
    }
    assert [e["line"] for e in events[1:]] == ["a", "→"]


def test_events_are_talk(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    Stream(call).show([StreamEvent("state", "PENDING \x1b[2J(x)")])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "PENDING (x)\n"


def test_each_node_has_its_colour_where_colours_are_wanted(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    call.output.color = "always"
    Stream(call).show([Lines(rank(0), b"a\n"), Lines(rank(1, "n02"), b"b\n")])
    first, second = capsysbinary.readouterr().out.splitlines()
    assert first.startswith(b"\x1b[36mn01 r0\x1b[0m")
    assert second.startswith(b"\x1b[32mn02 r1\x1b[0m")


def test_of_an_array_every_line_names_its_element(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    stream = Stream(Call(Output({})), form=PrefixForm(ranks=2, array=True))
    one, other = LogSource("n1", 0, "out", "3"), LogSource("n1", 0, "out", "12")
    stream.show([Lines(one, b"x\n"), Lines(one, b"y\n", (other,)), Lines(other, b"z\n")])
    assert capsysbinary.readouterr().out.splitlines() == [
        b"n1  e3 r0 | x",
        b"n1  e3,12 r0 | y",
        b"n1  e12 r0 | z",
    ]


def test_where_groups_have_ranks_of_their_own_every_line_names_its_group(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    stream = Stream(Call(Output({})), form=PrefixForm(ranks=2, parts=("train", "serve")))
    train = [LogSource("n1", rank, "out", step="train") for rank in (0, 1)]
    serve = LogSource("n1", 0, "out", step="serve")
    shown = [Lines(train[0], b"w\n", (train[1],)), Lines(serve, b"x\n"), Lines(train[1], b"y\n")]
    stream.show(
        [*shown, Lines(train[0], b"z\n", (serve,)), Lines(LogSource("", None, "job"), b"j\n")]
    )
    assert capsysbinary.readouterr().out.splitlines() == [
        b"n1  train r* | w",
        b"n1  serve r0 | x",
        b"n1  train r1 | y",
        b"n1  * r0     | z",
        b"job          | j",
    ]


@pytest.mark.parametrize(
    ("nodes", "ranks", "prefix"),
    [
        ("", 0, b"n1  r0 | "),
        ("n[1-2]", 16, b"n1  r0  | "),
        ("gpu-[001-128,140]", 1024, b"n1      r0    | "),
        ("alpha,be", 4, b"n1    r0 | "),
    ],
)
def test_nodes_and_ranks_give_the_width(
    nodes: str, ranks: int, prefix: bytes, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    stream = Stream(Call(Output({})), form=PrefixForm(nodes, ranks))
    stream.show([Lines(LogSource("n1", 0, "out"), b"x\n")])
    assert capsysbinary.readouterr().out == prefix + b"x\n"


def test_a_progress_bar_is_drawn_over_on_a_terminal_and_a_line_takes_its_place(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Output, "seen", True)
    bars = [Lines(rank(0), f"{n}% {'#' * 200}\n".encode(), bar=True) for n in (1, 2)]
    Stream(call).show([*bars, Lines(rank(0), b"done\n")])
    first, second, line = capsysbinary.readouterr().out.split(b"\r\x1b[K")[1:]
    assert first.startswith(b"n01 r0 | 1% ###")
    assert second.startswith(b"n01 r0 | 2% ###")
    assert max(len(first.decode()), len(second.decode())) < 80
    assert line == b"n01 r0 | done\n"


def test_a_progress_bar_in_a_pipe_is_a_line_now_and_then(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    bars = [Lines(rank(0), f"{n}%\n".encode(), bar=True) for n in range(50)]
    Stream(call).show(bars)
    assert capsysbinary.readouterr().out == b"n01 r0 | 0%\n"


def test_a_progress_bar_is_a_line_once_a_second_where_nothing_can_be_redrawn(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.0, 0.9, 1.0, 1.0])
    monkeypatch.setattr(log_stream, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    Stream(call).show([Lines(rank(0), b"%d%%\n" % done, bar=True) for done in (1, 2, 3)])
    assert capsysbinary.readouterr().out.splitlines() == [b"n01 r0 | 1%", b"n01 r0 | 3%"]


def test_the_time_of_a_line_stands_before_it_and_is_blank_where_it_is_unknown(
    call: Call, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    items = [Lines(rank(0), b"a\nb\n", time=1_795_445_868.0), Lines(rank(0), b"c\n")]
    Stream(call, timed=True).show(items)
    assert capsysbinary.readouterr().out.splitlines() == [
        b"14:57:48 n01 r0 | a",
        b"14:57:48 n01 r0 | b",
        b"         n01 r0 | c",
    ]
