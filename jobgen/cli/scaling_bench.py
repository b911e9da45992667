"""``bench scaling`` on the command line: every size checked, sent, waited for, shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.cli.benching import read_former, wait_and_show
from jobgen.cli.call import Call
from jobgen.cli.job_files import find_job
from jobgen.cli.layout import write_hours
from jobgen.cli.output import write_page
from jobgen.errors import Exit, Usage
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.benching.run_scaling import Kind, ScalingRequest
    from jobgen.app.prepare import PreparedJob


class ScalingOptions(NamedTuple):
    """The options of ``bench scaling``."""

    nodes: tuple[int, ...] | None
    gpus: tuple[int, ...] | None
    kind: Kind | None
    dry_run: bool
    html: Path | None
    compare: Path | None
    read: str | None


def run_scaling(call: Call, job: Path | None, options: ScalingOptions) -> int:
    """Send the job at every size, wait, show what it gave; or what is left of that."""
    from jobgen.app.benching import run_scaling as app

    if options.nodes and options.gpus:
        raise Usage("--nodes and --gpus: one run has one of the two", hint="leave one out")
    if options.read:
        return show_runs(call, options.read.split(","), options)
    job = job or find_job("jobgen bench scaling")
    read_former(options.compare)  # one that is none is refused now, and not after the jobs
    sizes = options.gpus or options.nodes or (1, 2)
    wanted = app.ScalingRequest(job, sizes, options.kind, gpus=options.gpus is not None)
    made = app.prepare_sizes(call.world, wanted, call.flags.cluster, call.flags.sets)
    if options.dry_run:
        return _rehearsed(call, made, wanted)
    if not _wanted(call, made):
        return Exit.USAGE
    sent = app.chain(call.world, made, lambda record: call.output.say(f"sent: {record.alias}"))
    refs = [record.alias for record in sent]
    return wait_and_show(call, list(sent), "scaling", lambda: show_runs(call, refs, options))


def _rehearsed(call: Call, made: tuple[PreparedJob, ...], wanted: ScalingRequest) -> Exit:
    """The dry run of each size. Each but the first waits for the one before, whatever its id."""
    from jobgen.app import submit as app
    from jobgen.app.benching.run_scaling import list_sets
    from jobgen.cli.screens import submit as screens
    from jobgen.cli.submit_dialog import preview_job

    runs = [(one, app.rehearse_submit(one)) for one in made]
    note = "Each size but the first gets --dependency=afterany:ID of the one before.\n"

    def drawn(ink: Any) -> str:
        parts = []
        for one, dry in runs:
            preview = preview_job(call, one, str(wanted.job))
            shape = one.plan.shape
            count = shape.ranks_per_node if wanted.gpus else shape.nodes
            sets = list_sets(one, count, gpus=wanted.gpus)
            last = f"Script: {preview.call.command('render', sets=sets)}\n"
            parts.append(screens.draw_dry_run(preview, dry, ink, scripts=False, last=last))
        return "\n".join([*parts, note])

    call.answer(lambda: {"sizes": [screens.dump_dry_run(one, dry) for one, dry in runs]}, drawn)
    return Exit.DONE


def _wanted(call: Call, made: tuple[PreparedJob, ...]) -> bool:
    """Whether to go on: every size passes its checks, and a costly series is asked about."""
    from jobgen.app.plan_problems import refuse_failing

    for one in made:
        refuse_failing(one)
    most = made[0].profile.value.confirm.gpu_hours
    hours = sum(one.plan.gpu_hours for one in made)
    if most is None or hours <= most:
        return True
    limit = f"asked above {write_hours(most)}"
    return call.confirm(f"All sizes may use {write_hours(hours)} GPU-hours ({limit}). Submit?")


def show_runs(call: Call, refs: list[str], options: ScalingOptions) -> int:
    """Show the runs' rates: on the screen, as JSON, as a page. 1 where a run did not end well."""
    from jobgen.app.benching.run_scaling import read
    from jobgen.cli.screens import scaled as screens

    found, records = read(call.world, refs)
    before = read_former(options.compare)
    if options.html is not None:
        from jobgen.cli.page.bench_pages import write_scaling_page

        title = f"{records[0].name} on {records[0].site.cluster}"
        write_page(options.html, write_scaling_page(found, title))
    call.answer(
        lambda: screens.data(found, records), lambda ink: screens.screen(found, ink, before)
    )
    good = all(record.state == "COMPLETED" for record in records)
    return Exit.DONE if good else Exit.FAILED
