"""At most one execution, whatever breaks; and no unclear answer is taken for a yes or a no."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jobgen.model.record import JobId
from jobgen.submission.states import (
    Begin,
    Bury,
    CancelAsked,
    Discard,
    Drop,
    Mark,
    Phase,
    Record,
    Report,
    Resolve,
    Resolved,
    RunDirectoryMissing,
    Sighting,
    Stage,
    Staged,
    Start,
    State,
)
from jobgen.submission.transitions import ATTEMPTS, SPARE, STALE, STARTS, step
from tests.submission.world import TTL, Loss, World

LOSSES = st.sampled_from(["none", "none", "none", "before", "after"])


class Faults(RuleBasedStateMachine):
    """Any order of clients, deaths, losses, freezes, crashes, cancels and the passing of time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.cancels = False

    @initialize(
        begun=st.sampled_from(["sent", "unclear", "unclear", "unclear", "accepted", ""]),
        cancels=st.sampled_from([False, False, False, True]),
    )
    def it_begins(self, begun: str, cancels: bool) -> None:
        """Mostly straight to the dangerous part: a request is on its way, and nobody knows."""
        self.cancels = cancels
        self.world.client(Begin())
        if begun:
            self.world.act(0, "none")
            self.world.act(0, "after")
        if begun == "unclear":
            self.world.pass_time(6.0)
            self.world.client(Begin())
        if begun == "accepted":
            self.world.deliver(self.world.requests[0])
            self.world.client(Begin())
            self.world.act(0, "none")

    @rule()
    def somebody_takes_it_up(self) -> None:
        if self.world.ledger.phase.open and len(self.world.clients) < 3:
            self.world.client(Begin())

    @precondition(lambda self: self.world.clients)
    @rule(data=st.data(), loss=LOSSES)
    def a_client_goes_on(self, data: Any, loss: Loss) -> None:
        self.world.act(data.draw(st.integers(0, len(self.world.clients) - 1)), loss)

    @precondition(lambda self: len(self.world.clients) > 1)
    @rule(data=st.data())
    def a_client_dies(self, data: Any) -> None:
        self.world.clients.pop(data.draw(st.integers(0, len(self.world.clients) - 1)))

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 6.0, 11.0, 30.0, 90.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: any(not r.arrived for r in self.world.requests))
    @rule(data=st.data(), refuse=st.sampled_from([False, False, False, True]))
    def a_request_arrives(self, data: Any, refuse: bool) -> None:
        waiting = [r for r in self.world.requests if not r.arrived]
        request = data.draw(st.sampled_from(range(len(waiting))))
        self.world.deliver(waiting[request], refuse=refuse)

    @precondition(lambda self: any(r.waiting for r in self.world.requests))
    @rule()
    def sbatch_is_killed(self) -> None:
        for request in self.world.requests:
            request.waiting = False

    @rule()
    def the_controller_freezes_or_thaws(self) -> None:
        self.world.frozen = not self.world.frozen

    @precondition(lambda self: self.world.jobs)
    @rule()
    def the_controller_crashes(self) -> None:
        if not self.world.frozen:
            self.world.crash()

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def a_job_starts(self, data: Any) -> None:
        if not self.world.frozen:
            self.world.run(self.world.jobs[data.draw(st.sampled_from(sorted(self.world.jobs)))])

    @rule()
    def somebody_looks(self) -> None:
        self.world.look()

    @precondition(lambda self: self.cancels)
    @rule()
    def the_user_cancels(self) -> None:
        world = self.world
        world.ledger = step(world.ledger, CancelAsked())[0]
        if world.directory is not None:
            world.directory.cancel = True

    @invariant()
    def it_executes_at_most_once(self) -> None:
        assert len(self.world.executed) <= 1

    @invariant()
    def no_attempt_runs_sbatch_twice(self) -> None:
        assert len(self.world.sbatches) == len(set(self.world.sbatches))

    @invariant()
    def no_second_copy_is_accepted_unless_the_first_was_forgotten(self) -> None:
        world = self.world
        kept = [job for job in world.jobs.values() if job.state != "DONE"]
        assert len(kept) <= 1 + len(world.forgotten)
        assert len(world.sbatches) <= ATTEMPTS

    def teardown(self) -> None:
        world = self.world
        world.settle()
        phase, job = world.ledger.phase, world.ledger.job
        assert not phase.open
        assert State.from_data(json.loads(json.dumps(world.ledger.data()))) == world.ledger
        for each in list(world.jobs.values()):
            world.run(each)
        assert len(world.executed) <= 1
        if phase in (Phase.REJECTED, Phase.CANCELLED):
            # what was said to be over never starts afterwards
            assert not world.executed or world.directory is None or world.ledger.cancel
        if phase is Phase.CONFIRMED and world.executed:
            assert job is not None
            assert world.executed == [job.job]


Faults.TestCase.settings = settings(max_examples=60, stateful_step_count=50)
TestFaults = Faults.TestCase


STAGED = State(Phase.STAGED, directory="/r", staged=1000.0)
SENT = State(Phase.SUBMITTING, directory="/r", attempt=1, starts=1, staged=1000.0)
UNCLEAR = State(Phase.RESOLVING, directory="/r", attempt=1, starts=1, staged=1000.0)
ACCEPTED = State(
    Phase.SUBMITTED, directory="/r", attempt=1, job=JobId(7), staged=1000.0, accepted=1005.0
)
MARK = Mark("login1", 42, 1001.0)


def report(**values: Any) -> Report:
    return Report(1, values.pop("now", 1002.0), host=values.pop("host", "login1"), **values)


def resolved(*, alive: bool = False, jobs: Any = (), **values: Any) -> Resolved:
    return Resolved(report(**values), alive, jobs, (), TTL, 5.0)


def test_the_way_when_nothing_goes_wrong() -> None:
    state, effects = step(State(), Begin())
    assert effects == (Stage(),)
    state, effects = step(state, Staged("/r", 1000.0))
    assert (state.phase, effects) == (Phase.STAGED, ())
    state, effects = step(state, Begin())
    assert (state.phase, effects) == (Phase.SUBMITTING, (Start(1),))
    state, effects = step(state, report(mark=MARK, code=0, printed=JobId(7), recorded=JobId(7)))
    assert (state.phase, state.job, effects) == (Phase.SUBMITTED, JobId(7), ())
    state, effects = step(state, Sighting(1020.0, answered=True, queued=True))
    assert (state.phase, effects) == (Phase.CONFIRMED, ())


def test_a_definite_refusal_ends_it_and_takes_the_files_away() -> None:
    state, effects = step(SENT, report(mark=MARK, code=1, refused=True, error="no such partition"))
    assert (state.phase, state.why) == (Phase.REJECTED, "no such partition")
    assert effects == (Discard(),)


def test_an_id_wins_over_a_refusal() -> None:
    said = report(mark=MARK, code=1, refused=True, printed=JobId(7))
    assert step(SENT, said)[0].job == JobId(7)


def test_an_unclear_answer_is_looked_into_and_not_repeated() -> None:
    state, effects = step(SENT, report(mark=MARK, code=1, ended=1002.0))
    assert (state.phase, effects) == (Phase.RESOLVING, (Resolve(1),))


def test_another_process_looks_before_it_repeats_anything() -> None:
    assert step(SENT, Begin())[1] == (Resolve(1),)
    assert step(UNCLEAR, Begin())[1] == (Resolve(1),)


def test_what_left_no_mark_was_never_run_and_is_run_now() -> None:
    state, effects = step(UNCLEAR, resolved())
    assert (state.phase, effects) == (Phase.SUBMITTING, (Start(1),))


def test_a_directory_that_takes_no_mark_is_given_up() -> None:
    state = UNCLEAR
    for _ in range(STARTS - 1):
        state, effects = step(state, resolved())
        assert effects == (Start(1),)
        state, _ = step(state, report())
    state, effects = step(state, resolved())
    assert (state.phase, effects) == (Phase.REJECTED, (Bury(),))


def test_a_comment_found_in_the_queue_is_the_answer() -> None:
    state, effects = step(UNCLEAR, resolved(mark=MARK, code=1, ended=1002.0, jobs=(JobId(9),)))
    assert (state.phase, state.job) == (Phase.SUBMITTED, JobId(9))
    assert effects == (Record(JobId(9)),)


def test_of_two_accepted_copies_the_one_that_executes_is_kept() -> None:
    said = resolved(mark=MARK, claim=JobId(9), jobs=(JobId(8), JobId(9)))
    state, effects = step(UNCLEAR, said)
    assert state.job == JobId(9)
    assert Drop((JobId(8),)) in effects
    assert state.others == (JobId(8),)


def test_of_two_that_wait_the_lower_is_kept() -> None:
    state, effects = step(UNCLEAR, resolved(mark=MARK, jobs=(JobId(9), JobId(8))))
    assert state.job == JobId(8)
    assert Drop((JobId(9),)) in effects


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(resolved(mark=MARK, code=1, ended=1002.0, jobs=None, now=9e4), id="silence"),
        pytest.param(resolved(mark=MARK, alive=True, now=9e4), id="sbatch-still-runs"),
        pytest.param(resolved(mark=MARK, code=1, ended=1002.0, now=1002.0 + TTL), id="too-early"),
        pytest.param(resolved(mark=MARK, now=1010.0), id="died-just-now"),
        pytest.param(resolved(mark=MARK, host="login2", now=1100.0), id="on-another-login-host"),
    ],
)
def test_no_new_attempt_before_the_old_one_is_proven_dead(said: Resolved) -> None:
    state, effects = step(UNCLEAR, said)
    assert state.phase is Phase.RESOLVING
    assert [type(effect) for effect in effects] == [Resolve]


def test_a_new_attempt_once_the_old_one_cannot_be_accepted_any_more() -> None:
    late = 1002.0 + TTL + SPARE + 1
    state, effects = step(UNCLEAR, resolved(mark=MARK, code=1, ended=1002.0, now=late))
    assert (state.phase, state.attempt) == (Phase.SUBMITTING, 2)
    assert effects == (Start(2),)


def test_a_killed_sbatch_is_dead_from_the_first_look_that_finds_it_so() -> None:
    state, _ = step(UNCLEAR, resolved(mark=MARK, now=1010.0))
    assert state.died == 1010.0
    state, _ = step(state, resolved(mark=MARK, now=1050.0))
    assert state.died == 1010.0
    state, effects = step(state, resolved(mark=MARK, now=1010.0 + TTL + SPARE + 1))
    assert effects == (Start(2),)


def test_attempts_come_to_an_end() -> None:
    state = State(Phase.RESOLVING, directory="/r", attempt=ATTEMPTS, starts=1, staged=1000.0)
    said = Resolved(Report(ATTEMPTS, 2000.0, mark=MARK, code=1, ended=1002.0), jobs=(), ttl=TTL)
    state, effects = step(state, said)
    assert (state.phase, effects) == (Phase.REJECTED, (Bury(),))


def test_nothing_is_submitted_long_after_the_user_left() -> None:
    late = 1000.0 + STALE + 1
    assert step(UNCLEAR, resolved(now=late))[0].phase is Phase.REJECTED
    said = resolved(mark=MARK, code=1, ended=1002.0, now=late)
    assert step(UNCLEAR, said)[0].phase is Phase.REJECTED


def test_an_id_that_the_controller_forgot_is_void_and_tried_again() -> None:
    gone = Sighting(1030.0, answered=True, min_job_age=300.0)
    state, effects = step(ACCEPTED, gone)
    assert (state.phase, state.attempt, state.job) == (Phase.SUBMITTING, 2, None)
    assert effects == (Start(2, forget=JobId(7)),)
    assert state.lost == (JobId(7),)
    said = Report(2, 1031.0, recorded=JobId(7), mark=None)
    assert step(state, said)[0].job is None


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (Sighting(1030.0, answered=False), Phase.SUBMITTED),
        (Sighting(1010.0, answered=True, queued=True), Phase.SUBMITTED),
        (Sighting(1020.0, answered=True, queued=True), Phase.CONFIRMED),
        (Sighting(1006.0, answered=False, claim=JobId(7)), Phase.CONFIRMED),
        (Sighting(1020.0, answered=True, past=True), Phase.CONFIRMED),
        # how long ended jobs stay known could not be asked: nothing is concluded
        (Sighting(1030.0, answered=True), Phase.SUBMITTED),
        (Sighting(1400.0, answered=True, min_job_age=300.0), Phase.LOST),
        (Sighting(1030.0, answered=True, min_job_age=300.0, cancel=True), Phase.CANCELLED),
    ],
)
def test_an_id_is_confirmed_and_not_believed(seen: Sighting, phase: Phase) -> None:
    assert step(ACCEPTED, seen)[0].phase is phase


def test_a_copy_that_was_quicker_takes_the_place_of_ours() -> None:
    seen = Sighting(1020.0, answered=True, queued=True, claim=JobId(8))
    state, effects = step(ACCEPTED, seen)
    assert (state.job, state.others) == (JobId(8), (JobId(7),))
    assert Drop((JobId(7),)) in effects


def test_a_cancel_before_anything_was_sent_sends_nothing() -> None:
    state, _ = step(State(), CancelAsked())
    assert step(state, Begin()) == (State(Phase.CANCELLED, cancel=True), (Discard(),))
    state, _ = step(STAGED, CancelAsked())
    new, effects = step(state, Begin())
    assert (new.phase, effects) == (Phase.CANCELLED, (Bury(),))


def test_a_cancel_while_the_answer_is_unclear_waits_for_it_and_drops_the_job() -> None:
    state, _ = step(UNCLEAR, CancelAsked())
    state, effects = step(state, resolved(mark=MARK, alive=True))
    assert [type(effect) for effect in effects] == [Resolve]
    _, effects = step(state, resolved(mark=MARK, code=0, jobs=(JobId(7),)))
    assert Drop((JobId(7),)) in effects


def test_a_run_directory_that_is_gone_is_not_made_again() -> None:
    assert step(STAGED, RunDirectoryMissing())[0].phase is Phase.REJECTED
    assert step(UNCLEAR, RunDirectoryMissing())[0].phase is Phase.LOST


@given(st.sampled_from(list(Phase)), st.integers(0, 5))
def test_an_answer_to_an_older_question_changes_nothing(phase: Phase, attempt: int) -> None:
    state = State(phase, directory="/r", attempt=attempt)
    old = Report(attempt + 1, 1.0, printed=JobId(5))
    assert step(state, old) == (state, ())
    assert step(state, Resolved(old, jobs=(JobId(5),))) == (state, ())


def test_a_state_is_plain_data() -> None:
    state = State(Phase.SUBMITTED, "/r", 2, 1, JobId(7, cluster="a"), lost=(JobId(6),), why="é")
    assert State.from_data(json.loads(json.dumps(state.data()))) == state
    assert State.from_data({}) == State()
    assert State.from_data({**state.data(), "of a later version": 1}) == state
