"""What a submit would do: its commands, and the scripts that carry them. Nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.model.bundle import SECRETS_FILE, BundleFile
from jobgen.model.chain import read_chain
from jobgen.model.race import SHAPES, list_options, name_folder, read_race
from jobgen.model.record import RunRecord
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Command, Raw, Word, quote, quote_expandable
from jobgen.submission.exchange import (
    ENTRY,
    RunScripts,
    build_array_words,
    describe_connection,
    list_run_files,
)
from jobgen.submission.states import Begin, Staged, State
from jobgen.submission.transitions import step
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.model.bundle import Bundle
    from jobgen.model.plan import Plan


class DryStep(NamedTuple):
    """One thing that would happen: what, the exact command, and the script that carries it."""

    title: str
    command: str
    script: str = ""


class DryRun(NamedTuple):
    """All that a submit would do. Only the token and the nonce are placeholders."""

    steps: tuple[DryStep, ...]
    files: tuple[tuple[str, int], ...]
    """Path below the run directory and bytes, of everything beside the working directory."""


def rehearse(
    record: RunRecord,
    plan: Plan,
    bundle: Bundle,
    *,
    uploads: int,
    kept: Sequence[BundleFile] = (),
) -> DryRun:
    """What a submit of ``uploads`` files sends if nothing goes wrong. Sends nothing.

    ``kept`` are the files that record what the run is submitted from.
    """
    run = RunScripts(record, plan.submit_options)
    directory = f"{record.site.root}/{record.folder}"
    upload, start = _rehearse_scripts(run, directory)
    first = run.build_sbatch(directory, 1)
    files = (*list_run_files(record, bundle), *kept)
    rendered = len(bundle.files)
    src = f"src/ ({count(uploads, 'file')}), " if uploads else ""
    sent = f"{src}{count(rendered, 'rendered file')} and {len(files) - rendered} for submitting"
    names = ", ".join(plan.secrets)
    hidden = f"{names} (values hidden) to {directory}/{SECRETS_FILE}, mode 0600"
    return DryRun(
        (
            DryStep("connect", describe_connection(record.site.login)),
            DryStep("upload", f"tar of {sent} to {directory}", upload),
            *((DryStep("secrets", hidden),) if plan.secrets else ()),
            DryStep("submit", _name_job(record, 1, _enter(first, directory)), start),
            *_rehearse_race(run, record, directory),
            *_rehearse_chain(run, record, directory),
        ),
        tuple((f.path, len(f.content)) for f in files),
    )


def _expand(command: Command, directory: str) -> str:
    """The command of sbatch; the variables of the directory expand where it is pasted."""
    option = f"--chdir={directory}"
    return str(command).replace(quote(option), quote_expandable(option))


def _enter(command: Command, directory: str) -> str:
    """The command line that runs sbatch in the run directory."""
    return f"cd {quote_expandable(directory)} && {_expand(command, directory)}"


def _name_job(record: RunRecord, number: int, line: str) -> str:
    """The command line; in a chain, the next one needs the id that it prints."""
    return f"job{number}=$({line})" if read_chain(record.shape) else line


def _list_further_words(run: RunScripts, record: RunRecord, directory: str) -> tuple[Word, ...]:
    """The words for the jobs after the first one, of a run that has its directory."""
    planned = record._replace(directory=directory, submission={"options": list(run.options)})
    return build_array_words(planned, run.scheduler)


def _rehearse_chain(run: RunScripts, record: RunRecord, directory: str) -> Iterator[DryStep]:
    """The commands of sbatch for the jobs of a chain after the first one."""
    if not read_chain(record.shape):
        return
    digest, comment, dependency, *words = _list_further_words(run, record, directory)
    for number in range(1, read_chain(record.shape)):
        after = Raw(f"{quote(f'--dependency={dependency}')}$job{number}")
        log = Raw("--output=logs/job-$job1.out")
        more = (f"--comment={comment}.{number}", after, log, ENTRY, digest, str(number))
        line = _enter(Command((*words, *more)), directory)
        yield DryStep("submit", _name_job(record, number + 1, line))


def _rehearse_race(run: RunScripts, record: RunRecord, directory: str) -> Iterator[DryStep]:
    """The commands of sbatch for the jobs of a race after the first one."""
    if not read_race(record.shape):
        return
    digest, comment, _, *words = _list_further_words(run, record, directory)
    own = record.shape.get(SHAPES, {})
    for number, entry in enumerate(read_race(record.shape)[1:], start=1):
        script = f"bundle/{name_folder(number)}/job.sbatch" if str(number) in own else ENTRY
        more = (f"--comment={comment}.{number}", *list_options(entry), script, digest)
        command = Command((*words, *more))
        yield DryStep("submit", _enter(command, directory))


def _rehearse_scripts(run: RunScripts, directory: str) -> list[str]:
    """The scripts that the machine sends when it gets the facts of a good day."""
    sent: list[str] = []
    state = State()
    for fact in (Begin(), Staged(directory, 0.0), Begin()):
        state, effects = step(state, fact)
        sent += [run.write_script(state, each, "NONCE") for each in effects]
    return sent
