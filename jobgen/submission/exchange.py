"""What is sent for a run, and in which words; ``dry_run`` shows it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.model.bundle import BundleFile
from jobgen.model.chain import read_chain
from jobgen.model.race import SHAPES, list_options, read_race
from jobgen.model.record import RunRecord
from jobgen.model.steps import name_runs
from jobgen.model.sweep_arrays import read_arrays
from jobgen.scheduler import Attempt, Scheduler, get_scheduler
from jobgen.shell import Command, Word
from jobgen.submission import scripts
from jobgen.submission.program_report import record_estimate
from jobgen.submission.replies import list_questions
from jobgen.submission.states import (
    Bury,
    Drop,
    Effect,
    Record,
    Resolve,
    Stage,
    Start,
    State,
)

if TYPE_CHECKING:
    from jobgen.model.bundle import Bundle
    from jobgen.model.plan import Plan
    from jobgen.model.record import Login, Site

ENTRY = "bundle/job.sbatch"
TOKEN = "x" * 26
"""Stands for the run's token in a dry run."""


_HERE = ("file", "profile")
"""Paths of this machine, which are of no use there."""


def make_record(
    plan: Plan, digest: str, site: Site, *, token: str = TOKEN, now: float = 0.0, git: str = ""
) -> RunRecord:
    """The record of a planned run, before anything is sent. ``digest`` names its bundle."""
    shape = plan.shape
    array = plan.directives.get("array")
    optional = {
        "elements": shape.elements,
        "array": shape.packing.indexes if shape.packing else array and array.value,
        "packed": shape.packing and shape.packing.nodes,
        "sweep": bool(plan.elements),
        "race": [list(words) for words in plan.race],
        SHAPES: {str(number): _measure(each) for number, each in plan.race_plans},
        "chain": plan.stop and plan.stop.chain,
        "options": list(plan.submit_options),
        "monitor": plan.monitor and plan.monitor.every,
        "code": plan.code_folder,
        "inside": site.inside,
    }
    return RunRecord(
        token=token,
        alias=plan.name,
        name=plan.name,
        site=site,
        digest=digest,
        created=now,
        shape={
            **_name_programs(plan),
            **_measure(plan),
            "outputs": list(plan.outputs),
            "labels": dict(plan.labels),
            "git": git,
            **{key: value for key, value in optional.items() if value},
        },
    )


def _measure(plan: Plan) -> dict[str, Any]:
    """What differs between the shapes of a race."""
    return {
        "nodes": plan.shape.nodes,
        "ranks_per_node": _most_ranks(plan),
        "gpus_per_node": plan.shape.gpus_per_node,
        "seconds": plan.shape.seconds,
        "launcher": plan.launcher.value,
        **record_estimate(plan.estimate),
    }


def _most_ranks(plan: Plan) -> int:
    """The ranks of a node, in the step or group that has most."""
    ranks = (each.plan.shape.ranks_per_node for each in plan.programs)
    return max(ranks, default=plan.shape.ranks_per_node)


def _name_programs(plan: Plan) -> dict[str, object]:
    """The names of steps or groups and the ranks of each; nothing of a job with one program."""
    if not plan.programs:
        return {}
    kind = "groups" if plan.has_groups else "steps"
    names = name_runs([each.name for each in plan.programs], plan.rounds)
    ranks = [each.plan.shape.world for each in plan.programs] * plan.rounds
    return {kind: names, "part_ranks": dict(zip(names, ranks, strict=True))}


def list_run_files(record: RunRecord, bundle: Bundle) -> tuple[BundleFile, ...]:
    """What is sent beside ``src/``: the bundle, and what makes the directory a run's own."""
    about = {
        "token": record.token,
        "alias": record.alias,
        "name": record.name,
        "cluster": record.site.cluster,
        "digest": record.digest,
        "created": record.created,
        "shape": {key: value for key, value in record.shape.items() if key not in _HERE},
    }
    helpers = {
        **scripts.list_files(read_arrays(record.shape)),
        **(scripts.list_step_files() if record.site.inside else {}),
        **scripts.list_race_files(read_race(record.shape), record.token),
        **scripts.list_chain_files(read_chain(record.shape)),
    }
    ours = [
        BundleFile("TOKEN", f"{record.token}\n".encode(), 0o600),
        BundleFile("run.json", (json.dumps(about, indent=2) + "\n").encode(), 0o600),
        *(BundleFile(path, body.encode(), 0o700) for path, body in helpers.items()),
    ]
    return (*ours, *(file._replace(path=f"bundle/{file.path}") for file in bundle.files))


def describe_connection(login: Login) -> str:
    """The connection as an ssh command."""
    if login.backend == "local":
        return "this machine"
    port = f"-p {login.port} " if login.port else ""
    return f"ssh {port}{login.user}@{login.host}" if login.user else f"ssh {port}{login.host}"


class RunScripts:
    """The scripts that carry the effects of one run out. ``options`` are more words for sbatch."""

    def __init__(self, record: RunRecord, options: Sequence[str] = ()) -> None:
        self._record = record
        self.options = options or tuple(record.submission.get("options", ()))
        self.scheduler: Scheduler = get_scheduler(record.site)

    def write_script(self, state: State, effect: Effect, nonce: str) -> str:
        """The script that carries an effect out."""
        token, directory = self._record.token, state.directory
        place = self._record.site.root, self._record.folder
        if isinstance(effect, Stage):
            return scripts.stage(*place, token, nonce, self._record.code_folder)
        if isinstance(effect, Start):
            words = self.build_sbatch(directory, effect.attempt)
            return scripts.start(directory, token, effect.attempt, words, effect.forget)
        if isinstance(effect, Resolve):
            questions = list_questions(self.scheduler)
            return scripts.resolve(directory, token, effect.attempt, questions)
        if isinstance(effect, Drop):
            return scripts.command({"drop": self.scheduler.cancel(effect.jobs)})
        if isinstance(effect, Record):
            return scripts.record(directory, token, effect.job)
        undo = scripts.bury if isinstance(effect, Bury) else scripts.discard
        return undo(directory, token) if directory else scripts.clear(*place, token)

    def build_sbatch(self, directory: str, attempt: int) -> Command:
        """The sbatch command of an attempt, as it is run in the run directory."""
        entry: tuple[str, ...] = (ENTRY, self._record.digest)
        options = tuple(self.options)
        first = next(iter(read_arrays(self._record.shape)), None)
        if first is not None:
            output = [f"--output=logs/job-%A_%a+{first.offset}.out"] if first.offset else []
            options = (*options, f"--array={first.indexes}", *output)
            entry = (*entry, str(first.offset))
        options = (*options, *list_options(next(iter(read_race(self._record.shape)), ())))
        made = Attempt(entry, directory, self._record.token, attempt)
        return self.scheduler.submit(made, options)


def build_array_words(record: RunRecord, scheduler: Scheduler) -> tuple[Word, ...]:
    """The words of ``submit_arrays.sh``: how each further job of a run is submitted: an array of a
    large sweep, an entry of a race, or the next job of a chain.

    In a chain, and in a sweep with a limit on what runs at once, a job starts when the one before
    it has ended.
    """
    options = [str(option) for option in record.submission.get("options", ())]
    waits = [w.removeprefix("--dependency=") for w in options if w.startswith("--dependency=")]
    queued = "%" in str(record.shape.get("array", "")) or read_chain(record.shape) > 0
    dependency = ",".join([*waits, "afterany:"]) if queued else ""
    kept = [w for w in options if not (queued and w.startswith("--dependency="))]
    words = scheduler.submit(Attempt((), record.directory, record.token, 1), kept).words
    (comment,) = [str(w) for w in words if str(w).startswith("--comment=")]
    rest = [w for w in words if not str(w).startswith("--comment=")]
    return (record.digest, comment.removeprefix("--comment="), dependency, *rest)
