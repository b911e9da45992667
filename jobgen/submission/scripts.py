"""The scripts that carry the effects out, as text for ``Transport.call``. Pure.

Each is a few shell functions out of ``payload`` and one line that calls them; what comes from
outside stands in that line only, quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jobgen.model.observation import format_mark
from jobgen.model.record import JobId
from jobgen.model.sweep_arrays import SweepArray
from jobgen.payload import text
from jobgen.scheduler.refusals import PATTERNS
from jobgen.shell import Command, Raw, Word, join, list_names, quote_expandable

PATIENCE = 20
"""Seconds that the start script waits for sbatch's answer before it tells what it has."""
DEADLINE = 75.0
"""Seconds in which every script but the upload has answered: a few questions of 15 each."""


def list_files(arrays: Sequence[SweepArray] = ()) -> Mapping[str, str]:
    """What lies in the run directory for our use: path → text."""
    names = ("submit.sh", "environment.sh", "program_environment.py")
    files = {f"submit/{name}": text(name) for name in names}
    if len(arrays) > 1:
        files |= _list_array_files()
        rows = (f"{array.offset} {array.indexes}\n" for array in arrays[1:])
        files["submit/arrays"] = "".join(rows)
    return files


def _list_array_files() -> dict[str, str]:
    """What submits the jobs of a run after its first one."""
    names = ("submit_arrays.sh", "refusals.sh")
    return {
        **{f"submit/{name}": text(name) for name in names},
        "submit/refusals": "".join(f"{pattern}\n" for pattern in PATTERNS),
    }


def list_race_files(race: Sequence[Sequence[str]], token: str) -> Mapping[str, str]:
    """What lies in the run directory of a race: path → text."""
    if not race:
        return {}
    helpers = ("next_entry.sh", "withdraw.sh")
    files = {**_list_array_files(), **{f"submit/{name}": text(name) for name in helpers}}
    files["submit/race"] = f"{format_mark(token)}\n"
    files["submit/arrays"] = "race\n" * (len(race) - 1)
    for number, words in enumerate(race):
        files[f"submit/race.{number}"] = "".join(f"{word}\n" for word in words)
    return files


def list_chain_files(length: int) -> Mapping[str, str]:
    """What lies in the run directory of a chain of so many jobs: path → text."""
    if not length:
        return {}
    return {**_list_array_files(), "submit/arrays": "chain\n" * (length - 1)}


def list_step_files() -> Mapping[str, str]:
    """What lies in the run directory of a run inside an allocation: path → text."""
    return {f"submit/{name}": text(name) for name in ("enter_allocation.sh", "in_allocation.sh")}


def stage(root: str, folder: str, token: str, nonce: str, code: str = "") -> str:
    """Take the run directory from standard input. ``$NAME`` in ``root`` expands over there.

    Fails if there is no directory ``code``, in which the program is to run.
    """
    unset = [_needs(name, _ROOT) for name in dict.fromkeys(list_names(root))]
    unset += [_needs(name, _CODE) for name in dict.fromkeys(list_names(code))]
    call = join(["stage", Raw(quote_expandable(root)), folder, token, nonce])
    needed = [join(["stage_needs", Raw(quote_expandable(code)), _CODE])] if code else []
    return _script(["stage.sh"], "\n".join([*unset, *needed, call]))


_ROOT = "paths.root in the cluster profile uses it; write the full path"
_CODE = "set workdir.at to the full path of a directory there"


def _needs(name: str, hint: str) -> str:
    complaint = f"emit failed {join([f'${name} is not set there'])}; emit hint {join([hint])}"
    return f'[ -n "${{{name}:-}}" ] || {{ {complaint}; exit 1; }}'


def start(
    directory: str, token: str, attempt: int, command: Command, forget: JobId | None = None
) -> str:
    """Run sbatch as this attempt, unless that attempt was made, and report."""
    words = ["start", directory, token, str(attempt), str(PATIENCE), str(forget or "")]
    return _script(["start.sh"], f"clean_environment\n{join([*words, *command.words])}")


def start_arrays(directory: str, token: str, words: Sequence[Word]) -> str:
    """Submit the other arrays of a large sweep, and tell which were taken."""
    call = ["start_arrays", directory, token, str(PATIENCE), *words]
    return _script(["start_arrays.sh"], f"clean_environment\n{join(call)}")


def lose_arrays(directory: str, token: str, failure: str, arrays: Sequence[str]) -> str:
    """Put aside arrays, ``NUMBER=ID`` each, that the scheduler has lost."""
    call = ["lose_arrays", directory, token, failure, *arrays]
    return _script(["start_arrays.sh"], join(call))


def resolve(directory: str, token: str, attempt: int, questions: Mapping[str, Command]) -> str:
    """Report on an attempt, ask the scheduler, and look at the claims once more."""
    call = [
        "clean_environment",
        join(["resolve", directory, token, str(attempt), format_mark(token)]) + " || exit 0",
        *_asks(questions),
        "claims",
    ]
    return _script(["start.sh", "resolve.sh"], "\n".join(call))


def find_code(folder: str) -> str:
    """Look at code that stays there: where it is, its commit and its changes."""
    return _script(["code_folder.sh"], join(["code_folder", Raw(quote_expandable(folder))]))


def record(directory: str, token: str, job: JobId) -> str:
    """Write the id into the run directory."""
    return _script(["record.sh"], join(["record", directory, token, str(job)]))


def bury(directory: str, token: str) -> str:
    """Put the cancel marker there."""
    return _script(["cancel.sh"], join(["bury", directory, token]))


def bury_elements(directory: str, token: str, elements: Sequence[int]) -> str:
    """Put the cancel markers of some elements of a packed sweep there."""
    return _script(["cancel.sh"], join(["bury_elements", directory, token, *map(str, elements)]))


def discard(directory: str, token: str) -> str:
    """Remove the directory of a run that was refused."""
    return _script(["discard.sh"], join(["discard", directory, token]))


def clear(root: str, folder: str, token: str) -> str:
    """Remove what an upload that was broken off may have left."""
    path = Raw(quote_expandable(root) + "/" + folder)
    return _script(["discard.sh"], join(["clear", path, token]))


def sweep(runs: Iterable[tuple[str, str]]) -> str:
    """Remove the secrets of these runs, (directory, token) each, that have ended."""
    return _script(["discard.sh"], "\n".join(join(["sweep", *run]) for run in runs))


def cancel(directory: str, token: str, questions: Mapping[str, Command]) -> str:
    """The cancel marker, and then the questions that tell which jobs are ours."""
    call = ["clean_environment", join(["bury", directory, token]), *_asks(questions)]
    return _script(["cancel.sh", "observe.sh"], "\n".join([*call, join(["look", directory])]))


def recover(root: str, names: Iterable[str]) -> str:
    """Ask the run directories of these names below a root, or all, what they are."""
    return _script(["recover.sh"], join(["recover", Raw(quote_expandable(root)), *names]))


def command(questions: Mapping[str, Command]) -> str:
    """Ask these questions, and nothing else."""
    return _script([], "\n".join(["clean_environment", *_asks(questions)]))


def observe(directories: Iterable[str], questions: Mapping[str, Command]) -> str:
    """Ask the scheduler, and then look into all these run directories."""
    looks = [join(["look", directory]) for directory in directories]
    call = ["clean_environment", 'emit now "$(date +%s)"', *_asks(questions), *looks]
    return _script(["observe.sh"], "\n".join(call))


def measure() -> str:
    """Measure what the run directories on standard input hold."""
    return _script(["prune.sh"], "measure")


def prune(runs: Iterable[tuple[str, str]], question: Command, parts: Sequence[str]) -> str:
    """Remove these parts of runs, (directory, token) each, that the scheduler does not list as
    live: ``question`` is that of ``Scheduler.find_states``."""
    each = [join(["prune", *run, format_mark(run[1]), *parts]) for run in runs]
    asked = f"clean_environment\nlook_for_live {question} || exit 0"
    return _script(["prune.sh"], "\n".join([asked, *each]))


def sum_up_monitors(directory: str) -> str:
    """Sum up what the monitors of one run wrote."""
    return _script(["monitored.sh"], join(["monitored", directory]))


def _asks(questions: Mapping[str, Command]) -> Sequence[str]:
    return [f"ask {key} {command}" for key, command in questions.items()]


def _script(names: Sequence[str], call: str) -> str:
    return "\n".join([*(text(name) for name in ("common.sh", *names)), call, ""])
