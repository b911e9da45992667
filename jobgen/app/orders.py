"""What is sent for a run, and in which words: pure, so that a dry run can show it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.app import answers
from jobgen.model.bundle import BundleFile
from jobgen.model.record import RunRecord
from jobgen.scheduler import Attempt, Scheduler, scheduler_for
from jobgen.shell import Command
from jobgen.submission import scripts
from jobgen.submission.machine import step
from jobgen.submission.states import (
    Begin,
    Bury,
    Drop,
    Effect,
    Record,
    Resolve,
    Stage,
    Staged,
    Start,
    State,
)

if TYPE_CHECKING:
    from jobgen.model.bundle import Bundle

ENTRY = "bundle/job.sbatch"


def run_files(record: RunRecord, bundle: Bundle) -> tuple[BundleFile, ...]:
    """What is sent beside ``src/``: the bundle, and what makes the directory a run's own."""
    about = {
        "token": record.token,
        "alias": record.alias,
        "name": record.name,
        "cluster": record.site.cluster,
        "digest": record.digest,
        "created": record.created,
        "shape": dict(record.shape),
    }
    ours = [
        BundleFile("TOKEN", f"{record.token}\n".encode(), 0o600),
        BundleFile("run.json", (json.dumps(about, indent=2) + "\n").encode(), 0o600),
        *(BundleFile(path, body.encode(), 0o700) for path, body in scripts.files().items()),
    ]
    return (*ours, *(file._replace(path=f"bundle/{file.path}") for file in bundle.files))


class Orders:
    """The scripts that carry the effects of one run out. ``options`` are more words for sbatch."""

    def __init__(self, record: RunRecord, options: Sequence[str] = ()) -> None:
        self._record = record
        self.options = options or tuple(record.submission.get("options", ()))
        self.scheduler: Scheduler = scheduler_for(record.site)

    def script(self, state: State, effect: Effect, nonce: str) -> str:
        """The script that carries an effect out."""
        token, directory = self._record.token, state.directory
        if isinstance(effect, Stage):
            return scripts.stage(self._record.site.root, self._record.folder, token, nonce)
        if isinstance(effect, Start | Resolve):
            return self._of_attempt(directory, effect)
        if isinstance(effect, Drop):
            return scripts.command({"drop": self.scheduler.cancel(effect.jobs)})
        if isinstance(effect, Record):
            return scripts.record(directory, token, effect.job)
        if not directory:
            return scripts.clear(self._record.site.root, self._record.folder, token)
        return (scripts.bury if isinstance(effect, Bury) else scripts.discard)(directory, token)

    def _of_attempt(self, directory: str, effect: Start | Resolve) -> str:
        token, attempt = self._record.token, effect.attempt
        if isinstance(effect, Resolve):
            return scripts.resolve(directory, token, attempt, answers.questions(self.scheduler))
        words = self.sbatch(directory, attempt)
        return scripts.start(directory, token, attempt, words, effect.forget)

    def sbatch(self, directory: str, attempt: int) -> Command:
        """The command of an attempt."""
        entry = (ENTRY, self._record.digest)
        made = Attempt(entry, directory, self._record.token, attempt)
        return self.scheduler.submit(made, self.options)


def rehearse(
    record: RunRecord, options: Sequence[str] = (), *, nonce: str = "NONCE"
) -> tuple[tuple[str, str], ...]:
    """(what for, script) of everything a submit sends when nothing goes wrong. Sends nothing.

    It is the machine that is asked, with the facts of a good day.
    """
    orders = Orders(record, options)
    directory = record.directory or f"{record.site.root}/{record.folder}"
    sent: list[tuple[str, str]] = []
    state = State()
    for fact in (Begin(), Staged(directory, 0.0), Begin()):
        state, effects = step(state, fact)
        sent += [(_NAMES[type(each)], orders.script(state, each, nonce)) for each in effects]
    return tuple(sent)


_NAMES: dict[type[Effect], str] = {Stage: "upload", Start: "submit"}


def command(record: RunRecord, directory: str, attempt: int, options: Sequence[str]) -> str:
    """The sbatch command line of an attempt, as it is run in the run directory."""
    return str(Orders(record, options).sbatch(directory, attempt))
