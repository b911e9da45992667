"""What every transport must do, tried on each: on this machine, and over a real sshd."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobgen.errors import Unreachable
from jobgen.shell import build_script
from jobgen.transport import Payload, Transport
from tests.transport.conftest import everywhere
from tests.waiting import HANG, until

MIB = 1 << 20


def payload(data: bytes) -> Payload:
    return Payload(len(data), [data])


@everywhere
def test_output_error_and_exit_code_come_back(transport: Transport) -> None:
    result = transport.call("echo out; echo err >&2; exit 3")
    assert (result.code, result.out, result.err) == (3, b"out\n", b"err\n")


@everywhere
def test_a_script_runs_in_the_home_directory_with_a_private_umask(transport: Transport) -> None:
    result = transport.call('[ "$(pwd -P)" = "$(cd && pwd -P)" ] && umask')
    assert result.text.strip() in {"0077", "077"}


@everywhere
def test_without_a_payload_standard_input_is_empty(transport: Transport) -> None:
    assert transport.call("wc -c").text.split() == ["0"]
    assert transport.call("wc -c", Payload(0, [])).text.split() == ["0"]


@everywhere
def test_every_byte_survives_both_ways(transport: Transport) -> None:
    data = bytes(range(256)) * 5000
    result = transport.call("tee /dev/stderr", payload(data))
    assert result.out == data
    assert result.err == data


@everywhere
def test_output_without_a_last_newline_gets_none(transport: Transport) -> None:
    assert transport.call("printf x").out == b"x"
    assert transport.call(r"printf 'a\n\n'").out == b"a\n\n"
    assert transport.call(":").out == b""


@everywhere
@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
def test_a_payload_that_is_not_read_does_not_disturb_the_next_call(
    transport: Transport, size: int
) -> None:
    data = b"echo hacked\n" * (size // 12 + 1)
    assert transport.call("exit 7", payload(data)).code == 7
    assert transport.call("head -c 3 >/dev/null; exit 8", payload(data)).code == 8
    assert transport.call("exec <&-; exit 9", payload(data)).code == 9


@everywhere
def test_after_a_script_that_dies_the_next_one_is_answered(transport: Transport) -> None:
    for dying in ("if", "exec false", "set -e; false; echo not reached", "no-such-program"):
        assert transport.call(dying).code != 0
        assert transport.call("echo still here").text == "still here\n"


@everywhere
def test_nothing_of_one_script_is_left_for_the_next(transport: Transport) -> None:
    transport.call("X=1; export X; cd /; set -u; umask 000; trap 'echo trap' EXIT; f() { :; }")
    result = transport.call('echo "${X-unset}"; umask; [ "$(pwd)" != / ]; echo $?; f')
    assert result.text.split()[:3] in (["unset", "0077", "0"], ["unset", "077", "0"])
    assert result.code == 127


@everywhere
def test_a_payload_of_the_wrong_length_is_a_mistake_of_the_caller(transport: Transport) -> None:
    with pytest.raises(ValueError, match="after 2 of 5"):
        transport.call("cat", Payload(5, [b"ab"]))
    with pytest.raises(Unreachable, match="has ended"):
        transport.call("echo")


@everywhere
def test_a_payload_that_raises_reaches_the_caller(transport: Transport) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"a" * 10
        raise KeyError("changed")

    with pytest.raises(KeyError):
        transport.call("cat", Payload(20, chunks()))


@everywhere
def test_words_with_any_characters_arrive_as_they_are(transport: Transport) -> None:
    words = ["it's", '"', "$HOME", "`id`", "a\nb", "!!", "é", "\\", "*", "", "-n", "\udcff"]
    result = transport.call(build_script(r"""printf '%s\0' "$@" """, *words))
    assert result.out.decode("utf-8", "surrogateescape").split("\0")[:-1] == words


@pytest.mark.slow
@everywhere
def test_fifty_megabytes_on_both_streams_do_not_deadlock(transport: Transport) -> None:
    count = 50_000_000
    text = f"head -c {count} /dev/zero >&2 & head -c {count} /dev/zero; wait"
    result = transport.call(text, deadline=HANG)
    assert (len(result.out), len(result.err)) == (count, count)


@pytest.mark.slow
@everywhere
def test_output_that_comes_while_a_payload_is_sent_does_not_deadlock(transport: Transport) -> None:
    count = 40_000_000
    text = f"head -c {count} /dev/zero; head -c {count} /dev/zero >&2; wc -c"
    result = transport.call(text, Payload(count, [bytes(MIB)] * 38 + [bytes(count - 38 * MIB)]))
    assert result.out[count:].split() == [str(count).encode()]
    assert len(result.err) == count


@everywhere
def test_a_sink_gets_the_output_as_it_comes(transport: Transport, tmp_path: Path) -> None:
    pieces: list[bytes] = []

    def keep(data: bytes) -> None:
        pieces.append(data)
        (tmp_path / "heard").touch()

    text = 'printf first; head -c 8192 /dev/zero; until [ -e "$1" ]; do sleep 0.1; done'
    words = f"{text}; printf last"
    result = transport.call(build_script(words, str(tmp_path / "heard")), sink=keep, deadline=HANG)
    assert result.out == b""
    assert b"".join(pieces) == b"first" + bytes(8192) + b"last"


@everywhere
def test_a_sink_that_raises_reaches_the_caller(transport: Transport) -> None:
    def full(_: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        transport.call("echo something; sleep 5", sink=full)
    with pytest.raises(Unreachable, match="has ended"):
        transport.call("echo")


@everywhere
@pytest.mark.parametrize(
    "script", ["sleep 300", "sleep 300; cat", "while :; do echo x; sleep 0.1; done"]
)
def test_a_deadline_is_kept(transport: Transport, script: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match="no answer within 1 s"):
        transport.call(script, deadline=1.0)
    assert time.monotonic() - began > 0.9


@everywhere
def test_a_payload_that_nobody_reads_does_not_outstay_the_deadline(transport: Transport) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match="no answer within 1 s"):
        transport.call("sleep 300", Payload(200 * MIB, iter([bytes(MIB)] * 200)), deadline=1.0)
    assert time.monotonic() - began > 0.9


@everywhere
def test_a_child_left_in_the_background_does_not_hold_the_answer(transport: Transport) -> None:
    children = [
        transport.call("sleep 900 >/dev/null 2>&1 </dev/null & echo $!", deadline=HANG),
        transport.call("sleep 900 & echo $!", payload(b"x"), deadline=HANG),
    ]
    assert transport.call("echo again").text == "again\n"
    for child in children:
        os.kill(int(child.text), signal.SIGKILL)


@everywhere
def test_a_shell_that_dies_is_an_unknown_outcome_and_never_an_empty_one(
    transport: Transport,
) -> None:
    with pytest.raises(Unreachable, match="lost"):
        transport.call('echo "half an answer"; kill -9 $$')


@everywhere
def test_a_process_in_a_session_of_its_own_outlives_the_connection(
    transport: Transport, tmp_path: Path
) -> None:
    text = 'cd "$1" && setsid sh -c "sleep 1; touch done" </dev/null >/dev/null 2>&1 &'
    transport.call(build_script(text, str(tmp_path)))
    transport.close()
    until((tmp_path / "done").exists)


@everywhere
def test_closing_twice_is_no_mistake(transport: Transport) -> None:
    transport.close()
    transport.close()
    with pytest.raises(Unreachable, match="closed"):
        transport.call("echo")


@everywhere
def test_any_payload_and_any_answer_pass(transport: Transport) -> None:
    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(data=st.binary(max_size=5000), code=st.integers(0, 255), read=st.integers(0, 6000))
    def passes(data: bytes, code: int, read: int) -> None:
        result = transport.call(f"head -c {read}; exit {code}", payload(data))
        assert (result.code, result.out) == (code, data[:read])

    passes()
