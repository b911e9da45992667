"""Who failed first: its own error before a lost connection, and doubt where nothing tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.diagnose import Evidence, LogText, RankEnd, find_cause, read_record
from jobgen.model.cause import CauseKind, Doubt, FailureCause
from jobgen.model.events import read_events

LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:4711."
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    go()\n'


def cause_of(
    *ends: RankEnd, state: str = "FAILED", ended: float = 0.0, **logs: str
) -> FailureCause:
    """The cause by these ends and logs: ``r1`` is the stderr of rank 1, ``job`` the job's log."""
    texts = tuple(
        LogText("job-7.out" if name == "job" else f"0/0/n{name[1:]}.{name[1:]}.err", text)
        for name, text in logs.items()
    )
    cause = find_cause(Evidence(state, tuple(sorted(ends)), texts, ended=ended))
    assert cause is not None
    return cause


def end(rank: int, time: float, code: int = 1, signal: int = 0) -> RankEnd:
    return RankEnd(time, f"n{rank}", rank, code, signal)


def test_the_first_by_time_is_the_cause() -> None:
    cause = cause_of(end(1, 2.0), end(0, 3.0), r0=f"{TRACE}KeyError: 0", r1=f"{TRACE}KeyError: 1")
    assert (cause.rank, cause.text, cause.doubt) == (1, "KeyError: 1", Doubt.NONE)


def test_a_rank_that_lost_its_peer_gives_way_to_one_with_an_error_of_its_own() -> None:
    cause = cause_of(end(0, 2.0), end(1, 3.0), r0=TRACE + LOST, r1=f"{TRACE}ValueError: nan")
    assert (cause.rank, cause.text) == (1, "ValueError: nan")
    assert (cause.doubt, cause.other) == (Doubt.LATER, "rank 0")


def test_a_rank_that_its_launcher_ended_is_the_cause_by_its_own_last_error() -> None:
    ends = (end(0, 2.0), end(1, 3.0, 143, 15))
    cause = cause_of(*ends, r0=TRACE + LOST, r1=f"{TRACE}ValueError: nan")
    assert (cause.rank, cause.doubt) == (1, Doubt.LATER)


def test_an_error_that_a_rank_survived_does_not_accuse_it() -> None:
    ends = (end(0, 2.0), end(1, 3.0, 143, 15))
    handled = f"{TRACE}ValueError: nan\nstep 1\nstep 2\n"
    cause = cause_of(*ends, r0=TRACE + LOST, r1=handled)
    assert (cause.rank, cause.doubt) == (0, Doubt.VICTIM)


def test_doubt_is_shown_where_every_rank_only_lost_its_peers() -> None:
    cause = cause_of(end(0, 2.0), end(1, 3.0), r0=TRACE + LOST, r1=TRACE + LOST)
    assert (cause.kind, cause.doubt) == (CauseKind.LOST_PEER, Doubt.VICTIM)


def test_a_kill_half_a_minute_later_is_the_launchers() -> None:
    cause = cause_of(end(0, 2.0), end(1, 33.0, 137, 9), r0=TRACE + LOST)
    assert (cause.rank, cause.doubt, cause.other) == (0, Doubt.VICTIM, "rank 1")


def test_ranks_that_report_nothing_may_have_hung() -> None:
    ended = [end(rank, 3.0, 143, 15) for rank in range(1, 9)]
    assert cause_of(end(0, 2.0), *ended[:2], r0=TRACE + LOST).other == "ranks 1, 2"
    assert cause_of(end(0, 2.0), *ended, r0=TRACE + LOST).other == ""


def test_a_kill_at_once_is_the_cause() -> None:
    cause = cause_of(end(1, 2.0, 137, 9), end(0, 3.0), r0=TRACE + LOST)
    assert (cause.rank, cause.kind, cause.doubt) == (1, CauseKind.SIGNAL, Doubt.NONE)


def test_equal_errors_are_counted() -> None:
    text = f"{TRACE}ImportError: no"
    cause = cause_of(*(end(rank, 2.0 + rank) for rank in range(3)), r0=text, r1=text, r2=text)
    assert (cause.rank, cause.kind, cause.alike) == (0, "missing_module", 2)


def test_what_failed_before_a_launcher_started_the_ranks_again_does_not_count() -> None:
    rows = (
        "v=1 time=1.0 kind=start node=n1 rank=0\nv=1 time=2.0 kind=exit node=n1 rank=0 code=7\n"
        "v=1 time=3.0 kind=start node=n1 rank=0\nv=1 time=4.0 kind=exit node=n1 rank=0 code=9\n"
    )
    assert [end.code for end in read_record(read_events(rows)).ends] == [9]


def test_a_rank_that_failed_long_before_the_time_limit_is_the_cause() -> None:
    ends = (end(1, 100.0, 3), end(0, 1000.0, 143, 15))
    cause = cause_of(*ends, state="TIMEOUT", ended=1000.0, r1="no data\n")
    assert (cause.rank, cause.code) == (1, 3)
    late = (end(1, 990.0, 3), end(0, 1000.0, 143, 15))
    assert cause_of(*late, state="TIMEOUT", ended=1000.0).kind == CauseKind.TIME_LIMIT


def test_what_rank_sh_ended_for_is_the_cause() -> None:
    rows = "v=1 time=2.0 kind=exit node=n1 rank=0 code=97 signal=0 why=the%20secret%20A%20is%20lost"
    cause = cause_of(*read_record(read_events(rows)).ends)
    assert (cause.kind, cause.text) == (CauseKind.SETUP, "the secret A is lost")


SETUP = (
    "v=1 time=2.0 kind=exit node=n2 rank=- code=127 signal=0 why=setup%20failed:%20load_cuda\n"
    "v=1 time=2.1 kind=exit node=n2 rank=- code=96 signal=0 why=setup%20failed%20in%20the%20first"
)
BASH = "/r/bundle/node.sh: line 20: load_cuda: command not found\n"


def test_a_recorded_reason_of_a_node_goes_before_what_its_log_shows() -> None:
    """srun may drop the last line of a node whose step it ends."""
    ends = read_record(read_events(SETUP)).ends
    cause = cause_of(*ends, job=f"jobgen: n2: /tmp is in memory, so caches use memory\n{BASH}")
    assert (cause.kind, cause.text) == (CauseKind.SETUP, "setup failed: load_cuda")
    assert (cause.node, cause.rank, cause.code) == ("n2", None, 127)
    assert (cause.file, cause.lines[-2:]) == ("job-7.out", (BASH.strip(), cause.text))
    silent = cause_of(*ends, job="")
    assert (silent.text, silent.lines) == (cause.text, (cause.text,))


def test_a_recorded_reason_is_shown_with_its_line_of_the_log() -> None:
    ends = read_record(read_events(SETUP)).ends
    line = "jobgen: n2: setup failed: load_cuda"
    cause = cause_of(*ends, job=f"jobgen: n2: /tmp is in memory\n{BASH}{line}\nlater\n")
    assert (cause.text, cause.line, cause.below) == ("setup failed: load_cuda", 3, 1)
    assert cause.lines[-1] == line


@pytest.mark.parametrize("who", ["n20", "rank 3 on n20"])
def test_a_line_of_another_node_with_a_longer_name_is_no_reason(who: str) -> None:
    (end,) = read_record(
        read_events("v=1 time=2.0 kind=exit node=n2 rank=- code=127 signal=0")
    ).ends
    cause = cause_of(end, job=f"jobgen: {who}: the disk is full\njobgen: n2: no torchrun\n")
    assert cause.text == "no torchrun"


def test_a_recorded_reason_has_the_kind_of_its_line() -> None:
    text = "torchrun is not on PATH; activate its environment in the job's setup key"
    row = "v=1 time=2.0 kind=exit node=n2 rank=- code=127 signal=0"
    (bare,) = read_record(read_events(row)).ends
    (recorded,) = read_record(read_events(f"{row} why={text.replace(' ', '%20')}")).ends
    written = cause_of(bare, job=f"jobgen: n2: {text}\n")
    assert cause_of(recorded, job="").kind == written.kind
    assert cause_of(recorded, job=f"jobgen: n2: {text}\n") == written


def test_a_job_that_left_nothing_has_no_cause() -> None:
    assert find_cause(Evidence("FAILED")) is None
    assert find_cause(Evidence("FAILED", (), (LogText("job-7.out", ""),))) is None


TEXTS = st.text(alphabet=st.sampled_from('T \n\t\r\x1b[]:E"aW=-'), max_size=60) | st.sampled_from(
    ["Traceback (most recent call last):\n", "torch.distributed.ChildFailedError: \n", LOST, TRACE]
)


@given(st.lists(TEXTS, max_size=8).map("".join), st.integers(1, 255), st.integers(0, 64))
def test_any_text_has_a_cause_and_raises_nothing(text: str, code: int, signal: int) -> None:
    cause = cause_of(end(0, 1.0, code, signal), r0=text, job=text)
    assert not [line for line in (cause.text, *cause.lines) if "\x1b" in line or "\n" in line]


def test_ranks_killed_seconds_after_the_first_do_not_report_the_same() -> None:
    together = cause_of(end(1, 2.0, 137, 9), end(0, 2.1, 137, 9))
    assert together.all_ranks
    later = cause_of(end(1, 2.0, 137, 9), end(0, 7.0, 137, 9))
    assert (later.all_ranks, later.rank) == (False, 1)
