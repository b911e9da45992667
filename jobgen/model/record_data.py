"""The plain data that a run's record holds, and the changes of a record. Types alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from jobgen.model.record import JobId, JobState


class SubmissionState(TypedDict, total=False):
    """Where a submission stands: the fields of ``submission.states.State``."""

    phase: str
    directory: str
    attempt: int
    starts: int
    job: str | None
    staged: float
    died: float
    accepted: float
    lost: list[str]
    others: list[str]
    cancel: bool
    why: str
    gave_up: bool


class Submission(TypedDict, total=False):
    """What is known of a run beside the fields of its record. Times are of the other side's clock.

    A later version's keys are kept as they are.
    """

    state: SubmissionState
    options: list[str]
    """Words of the command line of sbatch that stand in no script."""
    queued: float
    """When the queue last listed the job."""
    gone: float
    """Since when neither the queue nor the accounting knows it."""
    silent: float
    """When it was last reported that the scheduler does not answer; of this machine's clock."""
    report: Mapping[str, float]
    preflight: Sequence[Sequence[Any]]
    """The start, the node, and what is wrong with it."""
    failures: Sequence[Sequence[Any]]
    """Fields of ``events.Failure``."""
    steps: Sequence[Sequence[Any]]
    """Fields of ``events.StepRecord``."""
    codes: Sequence[Sequence[Any]]
    """Fields of ``events.CodeRecord``."""
    silences: Sequence[Sequence[Any]]
    """Fields of ``events.Silence``."""
    cause: Sequence[Any]
    """Fields of ``cause.FailureCause``; empty if nothing was found."""
    elements: Mapping[str, int]
    """Of an array: how many elements are in each state."""
    element_states: Mapping[str, str]
    """Of an array: state → the elements that are in it, as ``3,7-9``; not those that wait."""
    arrays: Mapping[str, str]
    """Number → job id of the jobs after the first one: arrays of a sweep, entries of a race, jobs
    of a chain."""
    arrays_failed: str
    """Why some of them were not submitted."""
    winner: str
    """Of a race: the job that runs."""
    withdrawn: bool
    """Of a race: whether the winner has seen that no other job waits any more."""
    chain_job: str
    """Of a chain: the job of the newest start."""
    chain_over: bool
    """Of a chain: whether that start was the last one."""
    monitor: Mapping[str, list[str]]
    """What the monitors of an ended run saw."""


class RecordChanges(TypedDict, total=False):
    """Fields of a ``RunRecord`` that change."""

    directory: str
    job: JobId | None
    state: JobState
    raw: str
    reason: str
    nodes: str
    exit: str
    started: str
    elapsed: int | None
    left: int | None
    restarts: int
    updated: float
    ended: bool
    submission: Submission
    shape: Mapping[str, Any]
