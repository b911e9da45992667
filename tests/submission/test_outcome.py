"""What became of a run, from what the queue, the accounting and its own markers say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.observation import Observation
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site
from jobgen.submission.markers import read_markers
from jobgen.submission.outcome import (
    LAGGING,
    SECOND_LOOK,
    SILENT,
    Seen,
    compute_changes,
    count_elements,
    list_states,
)

TOKEN = "abcdefghijklmnopqrstuvwxyz"
RUN = RunRecord(
    TOKEN,
    "llama-1",
    "llama",
    Site("a100", "slurm", Login("local"), "/s"),
    "d",
    1000.0,
    directory="/s/llama-abcdefgh",
    job=JobId(7),
    state=JobState.RUNNING,
    shape={"seconds": 3600},
)
STARTED = ["1000 'state/0/started.0' -> '7.99'"]
AGAIN = ["1000 'state/0/started.0' -> '7.99'\n1600 'state/0/started.1' -> '7.99'"]
DONE = ["0 0 rc=0 node=n1 time=1500 job=7 end=done"]
BROKEN = ["0 0 rc=3 node=n1 time=1500 job=7 end=done"]
KILLED = ["0 0 rc=143 node=n1 time=1500 job=7 end=killed"]


def queue(state: JobState, **values: Any) -> Observation:
    return Observation(JobId(7), state, raw=state.value, **values)


def past(state: JobState, **values: Any) -> Observation:
    return Observation(JobId(7), state, raw=state.value, source="sacct", **values)


def look(now: float = 2000.0, *, answered: bool = True, **values: Any) -> Seen:
    marks = {key: values.pop(key) for key in list(values) if isinstance(values[key], list)}
    return Seen(now, answered, markers=read_markers(marks), **values)


def became(seen: Seen, record: RunRecord = RUN) -> RunRecord:
    return record._replace(**compute_changes(record, seen))


def at_last(record: RunRecord = RUN, **values: Any) -> RunRecord:
    """Two looks at a job that has vanished, far enough apart."""
    first = became(look(**values), record)
    assert not first.ended, "one look is not enough"
    return became(look(2000.0 + SECOND_LOOK, **values), first)


def test_a_live_job_is_as_the_queue_says() -> None:
    seen = became(look(queue=queue(JobState.PENDING, reason="Priority", left=3600)))
    assert (seen.state, seen.reason, seen.left, seen.ended) == (
        JobState.PENDING,
        "Priority",
        3600,
        False,
    )


def test_the_end_of_an_earlier_start_is_no_end() -> None:
    seen = became(look(queue=queue(JobState.PENDING, reason="BeginTime"), exit=BROKEN))
    assert (seen.state, seen.ended) == (JobState.PENDING, False)
    seen = became(look(exit=BROKEN, marks=AGAIN))
    assert not seen.ended


def test_a_job_that_winds_down_has_not_ended_yet() -> None:
    seen = became(look(queue=queue(JobState.COMPLETING), exit=DONE, marks=STARTED))
    assert not seen.ended


@pytest.mark.parametrize("state", [JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.CANCELLED])
@pytest.mark.parametrize("source", ["queue", "past"])
def test_the_scheduler_knows_better_why_a_job_was_killed(state: JobState, source: str) -> None:
    heard: dict[str, Any] = {source: queue(state)}
    seen = became(look(**heard, exit=KILLED, marks=STARTED))
    assert (seen.state, seen.ended, seen.exit) == (state, True, "143:0")


@pytest.mark.parametrize(
    ("marker", "state", "code"),
    [(DONE, JobState.COMPLETED, "0:0"), (BROKEN, JobState.FAILED, "3:0")],
)
def test_gone_from_the_queue_its_own_last_word_counts(
    marker: list[str], state: JobState, code: str
) -> None:
    seen = became(look(exit=marker, marks=STARTED))
    assert (seen.state, seen.exit, seen.ended, seen.elapsed) == (state, code, True, 500)


def test_without_accounting_a_kill_at_the_limit_is_the_limit() -> None:
    late = ["0 0 rc=143 node=n1 time=4600 job=7 end=killed"]
    assert became(look(exit=late, marks=STARTED)).state is JobState.TIMEOUT
    assert became(look(exit=KILLED, marks=STARTED)).state is JobState.FAILED
    assert became(look(exit=KILLED, marks=STARTED, cancel=[""])).state is JobState.CANCELLED


def test_killed_without_a_word_is_lost_and_never_finished() -> None:
    seen = at_last(marks=STARTED)
    assert (seen.state, seen.ended) == (JobState.LOST, True)
    assert "killed" in seen.reason


@pytest.mark.parametrize("marks", [{"full": ["state/0/.exit"]}, {"exit": ["0 0"]}])
def test_an_end_that_could_not_be_written_is_told_so(marks: dict[str, list[str]]) -> None:
    """The disk takes the name of a file and none of its bytes; on NFS it is told at the end."""
    failed = queue(JobState.FAILED, reason="NonZeroExitCode")
    assert "disk of the run directory is full" in became(look(queue=failed, **marks)).reason
    lost = at_last(marks=STARTED, **marks)
    assert lost.state is JobState.LOST
    assert "disk of the run directory is full" in lost.reason


def test_gone_before_it_started_is_told_so() -> None:
    assert "before it started" in at_last().reason
    assert at_last().state is JobState.LOST
    assert at_last(cancel=[""]).state is JobState.CANCELLED


def test_put_back_and_then_gone_is_told_so() -> None:
    both = [STARTED[0] + "\n1500 'state/0/requeued.0'"]
    assert "requeued" in at_last(marks=both).reason


def test_a_queue_that_does_not_answer_changes_nothing() -> None:
    assert compute_changes(RUN, look(answered=False, exit=DONE, marks=STARTED)) == {}


def test_an_accounting_that_lags_or_is_silent_gets_more_time() -> None:
    for values, patience in (
        ({"past": past(JobState.RUNNING)}, LAGGING),
        ({"silent": True}, SILENT),
    ):
        first = became(look(marks=STARTED, **values))
        early = became(look(2000.0 + patience - 1, marks=STARTED, **values), first)
        assert not early.ended
        late = became(look(2000.0 + patience, marks=STARTED, **values), early)
        assert late.state is JobState.LOST


def test_a_job_that_was_listed_a_moment_ago_gets_the_time_for_which_the_queue_keeps_jobs() -> None:
    """As where a controller answers with an empty list."""
    listed = RUN._replace(submission={**RUN.submission, "queued": 1990.0})
    kept: dict[str, Any] = {"marks": STARTED, "min_job_age": 300.0}
    first = became(look(2000.0, **kept), listed)
    assert not became(look(2289.0, **kept), first).ended
    assert became(look(2290.0, **kept), first).state is JobState.LOST


def test_what_writes_to_its_logs_is_not_lost() -> None:
    seen = at_last(marks=STARTED, alive=True)
    assert (seen.state, seen.ended) == (JobState.UNKNOWN, False)
    assert "its logs changed" in seen.reason
    lost = at_last(marks=STARTED)
    again = became(look(3000.0, marks=STARTED, alive=True), lost)
    assert (again.state, again.ended) == (JobState.UNKNOWN, False)
    assert not became(look(3005.0, marks=STARTED), again).ended, "it gets its time anew"


def test_what_was_lost_and_is_listed_again_runs() -> None:
    lost = at_last(marks=STARTED)
    assert (lost.ended, lost.settled) == (True, False)
    again = became(look(queue=queue(JobState.RUNNING), marks=STARTED), lost)
    assert (again.state, again.ended) == (JobState.RUNNING, False)


def test_seen_again_is_not_gone() -> None:
    first = became(look(marks=STARTED))
    assert "gone" in first.submission


@pytest.mark.parametrize("state", [JobState.NODE_FAIL, JobState.PREEMPTED, JobState.BOOT_FAIL])
def test_what_a_requeue_may_take_back_is_believed_when_two_looks_agree(state: JobState) -> None:
    first = became(look(queue=queue(state), marks=STARTED))
    assert (first.state, first.ended) == (state, False)
    again = became(look(2010.0, queue=queue(state), marks=STARTED), first)
    assert again.ended
    back = became(look(2010.0, queue=queue(JobState.PENDING), marks=STARTED), first)
    assert (back.state, back.ended) == (JobState.PENDING, False)


def test_a_copy_that_stopped_at_the_tombstone_did_not_complete() -> None:
    seen = became(look(queue=queue(JobState.COMPLETED), cancel=[""]))
    assert seen.state is JobState.CANCELLED


def test_a_job_that_slurm_started_once_more_keeps_its_own_end() -> None:
    seen = became(look(queue=queue(JobState.COMPLETED, exit="0:0"), exit=BROKEN, marks=STARTED))
    assert (seen.state, seen.exit) == (JobState.FAILED, "3:0")


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.NODE_FAIL])
def test_a_job_that_had_ended_when_slurm_gave_up_on_it_keeps_its_own_end(state: JobState) -> None:
    seen = became(look(queue=queue(state), exit=DONE, marks=STARTED))
    assert (seen.state, seen.ended) == (JobState.COMPLETED, True)
    seen = became(look(queue=queue(state, exit="0:0"), exit=BROKEN, marks=STARTED))
    assert (seen.state, seen.exit) == (JobState.FAILED, "3:0")
    seen = became(look(queue=queue(state), exit=KILLED, marks=STARTED))
    assert seen.state is state


def test_a_failed_job_without_a_trace_of_its_script_says_so() -> None:
    seen = became(look(queue=queue(JobState.FAILED, exit="0:1", reason="JobLaunchFailure")))
    assert seen.reason.startswith("the script wrote nothing")
    seen = became(look(queue=queue(JobState.FAILED, exit="0:1"), marks=STARTED))
    assert seen.reason == ""


def test_a_second_start_without_an_end_of_the_first_is_the_reason() -> None:
    seen = became(look(queue=queue(JobState.FAILED, exit="96:0"), marks=STARTED))
    assert "the first start was killed" in seen.reason


def test_an_array_has_ended_when_all_its_tasks_have() -> None:
    started = [STARTED[0] + "\n1000 'state/1/started.0' -> '8.99'"]
    assert not became(look(marks=started, exit=DONE)).ended
    both = [*DONE, "1 0 rc=2 node=n2 time=1600 job=8 end=done"]
    assert became(look(marks=started, exit=both)).exit == "2:0"


def test_restarts_are_counted_by_their_marks() -> None:
    third = [AGAIN[0] + "\n3000 'state/0/started.2' -> '7.99'"]
    seen = became(look(queue=queue(JobState.RUNNING), marks=third))
    assert seen.restarts == 2


UNFIT = ["0 0 rc=95 node=n1 time=1500 job=7 end=finished why=preflight: n2: 7 of 8 GPUs are there"]


def test_why_a_job_did_not_start_its_program_is_the_reason() -> None:
    why = "preflight: n2: 7 of 8 GPUs are there"
    seen = became(look(exit=UNFIT, marks=STARTED))
    assert (seen.state, seen.exit, seen.reason) == (JobState.FAILED, "95:0", why)
    failed = queue(JobState.FAILED, reason="NonZeroExitCode")
    assert became(look(queue=failed, exit=UNFIT, marks=STARTED)).reason == why
    told = past(JobState.FAILED, exit="95:0")
    assert became(look(past=told, exit=UNFIT, marks=STARTED)).reason == why


def test_elements_of_an_array_are_counted_by_the_queue_and_their_markers() -> None:
    """Slurm forgets elements that ended minutes ago, and names those that wait in one row."""
    marks = read_markers(
        {
            "marks": ["\n".join(f"9 'state/{n}/started.0' -> '4{n}.9'" for n in range(1, 6))],
            "exit": [
                "1 0 rc=0 node=n1 time=15 job=41 end=finished",
                "2 0 rc=7 node=n1 time=15 job=42 end=finished",
                "3 0 rc=143 node=n1 time=15 job=43 end=killed",
            ],
        }
    )
    elements = {"": JobState.PENDING, "4": JobState.RUNNING, "2": JobState.FAILED}
    seen = Seen(20.0, answered=True, markers=marks, elements=elements)
    assert list_states(seen) == {
        "RUNNING": "4",
        "FAILED": "2",
        "COMPLETED": "1",
        "CANCELLED": "3",
        "UNKNOWN": "5",
    }
    assert count_elements(36, seen) == {
        "RUNNING": 1,
        "FAILED": 1,
        "COMPLETED": 1,
        "CANCELLED": 1,
        "UNKNOWN": 1,
        "PENDING": 31,
    }


WORDS = st.lists(
    st.sampled_from(
        ["0 0 1000", "1 3", "0 0 rc=0 time=5", "0 0 rc=x", "", "0", "x y z", "0 1 rc=-1"]
    )
    | st.text(max_size=20),
    max_size=4,
)
KEYS = st.sampled_from(["marks", "exit", "cancel", "missing", "secrets", "preflight", "events"])


@given(
    st.dictionaries(KEYS, WORDS),
    st.sampled_from([None, *(queue(state) for state in JobState)]),
    st.sampled_from([None, *(past(state) for state in JobState)]),
    st.booleans(),
)
def test_any_markers_beside_any_words_have_an_outcome(
    told: dict[str, list[str]],
    queued: Observation | None,
    accounted: Observation | None,
    answered: bool,
) -> None:
    seen = Seen(2000.0, answered, queue=queued, past=accounted, markers=read_markers(told))
    after = became(seen)
    assert isinstance(after.state, JobState)
    assert not (after.ended and not after.state.final)


PACKED = RUN._replace(shape={**RUN.shape, "elements": 6, "packed": True})
PARTS = """1000 'state/0/started.0' -> '7.1'
1000 'state/1/started.0' -> '7.2'
1000 'state/2/started.0' -> '7.3'
1000 'state/3/started.0' -> '7.4'
1000 'state/3/cancel'
1000 'state/4/cancel'"""
ENDS = [
    "0 0 rc=0 node=n1 time=1500 job=7 end=finished",
    "1 0 rc=143 node=n1 time=1500 job=7 end=killed",
    "3 0 rc=143 node=n1 time=1500 job=7 end=killed",
]


@pytest.mark.parametrize(
    ("job", "states"),
    [
        # 1 was killed and runs again, 2 runs, 3 and 4 were cancelled, 5 waits
        ("RUNNING", {"COMPLETED": "0", "PENDING": "1", "RUNNING": "2", "CANCELLED": "3-4"}),
        ("TIMEOUT", {"COMPLETED": "0", "TIMEOUT": "1-2", "CANCELLED": "3-4"}),
        ("FAILED", {"COMPLETED": "0", "FAILED": "1-2", "CANCELLED": "3-4"}),
    ],
)
def test_elements_of_a_packed_sweep_share_the_state_of_their_job(
    job: str, states: dict[str, str]
) -> None:
    state = JobState(job)
    rest = state if state.final else JobState.PENDING
    seen = look(marks=[PARTS], exit=ENDS, packed=state, elements={"": rest})
    assert list_states(seen) == states
    counted = count_elements(6, seen)
    assert sum(counted.values()) == 6
    assert counted[str(rest)] == (3 if state.final else 2)


def test_the_ends_of_some_elements_are_no_end_of_a_packed_sweep() -> None:
    """Its job may have been lost before a worker took the others."""
    marks = "1000 'state/0/started.0' -> '7.1'"
    seen = look(marks=[marks], exit=ENDS[:1])
    assert became(seen, PACKED).state is JobState.RUNNING
    assert became(seen, PACKED._replace(shape={**PACKED.shape, "elements": 1})).ended


def test_a_chain_whose_next_job_is_gone_has_not_completed() -> None:
    chain = RUN._replace(shape={"chain": 3})
    handed = [*STARTED, "1100 'state/0/requeued.0'"]
    seen = look(queue=queue(JobState.COMPLETED, exit="0:0"), marks=["\n".join(handed)])
    stopped = became(seen, chain)
    assert (stopped.state, stopped.ended) == (JobState.CANCELLED, True)
    assert "the next job of the chain left the queue" in stopped.reason
    assert became(seen).state is JobState.COMPLETED, "of no chain"
