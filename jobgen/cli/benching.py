"""The benches on the command line: sent, waited for, shown."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen.cli.call import Call
from jobgen.cli.output import defuse, write_page
from jobgen.errors import Exit, Usage
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.benching.allreduce import AllreduceRequest
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.record import RunRecord

_LIMIT = 4 << 20
_MAKE = "make one with: jobgen bench … --json > FILE"


class AllreduceOptions(NamedTuple):
    """The options of ``bench allreduce``."""

    nodes: int | None
    sizes: tuple[int, ...] | None
    seconds: float
    ops: tuple[str, ...]
    pairs: bool
    nccl_tests: bool
    like: Path | None
    min_rate: float | None
    write: Path | None
    dry_run: bool
    html: Path | None
    compare: Path | None
    read: str | None


def run_allreduce(call: Call, options: AllreduceOptions) -> int:
    """Make it, send it, wait, show it; or what is left of that."""
    from jobgen.app.benching import allreduce as app

    if options.read:
        return show_result(call, options.read, options)
    # an earlier answer that is none is refused now, and not after the job
    read_former(options.compare)
    with app.prepare_job(call.world, _wanted(options), call.flags.cluster, call.flags.sets) as made:
        if options.write:
            return _written(call, made, options.write)
        sent = _sent(call, made, options)
    if not isinstance(sent, Exit):
        return wait_and_show(
            call, [sent], "allreduce", lambda: show_result(call, sent.alias, options)
        )
    return sent


def _wanted(options: AllreduceOptions) -> AllreduceRequest:
    from jobgen.app.benching.allreduce import AllreduceRequest

    return AllreduceRequest(
        options.nodes,
        options.ops,
        options.sizes or (),
        pairs=options.pairs,
        tests=options.nccl_tests,
        like=options.like,
        seconds=options.seconds,
    )


def _sent(call: Call, made: PreparedJob, options: AllreduceOptions) -> RunRecord | Exit:
    """The submitted run; or the exit code where nothing was to be sent."""
    from jobgen.app import submit as app
    from jobgen.app.benching import allreduce
    from jobgen.app.plan_problems import refuse_failing
    from jobgen.cli import submit_dialog

    refuse_failing(made)
    if options.dry_run:
        again = "--write DIR writes job.yaml and the program, for jobgen render and submit"
        return submit_dialog.show_dry_run(
            call, made, app.rehearse_submit(made), "", last=f"{again}\n"
        )
    if not submit_dialog.confirm_submit(call, made):
        return Exit.USAGE
    about = allreduce.record_bench(made)
    return app.submit(call.world, made, progress=submit_dialog.build_progress(call), about=about)


def wait_and_show(call: Call, records: list[RunRecord], kind: str, show: Any) -> int:
    """Wait for the end of these runs, then show what they gave. Ctrl-C leaves, and says how to
    come back."""
    from jobgen.app import jobs
    from jobgen.cli.following import NOT_YET, Detachable, show_state

    refs = [record.alias for record in records]
    call.output.say(f"{', '.join(refs)} sent. {NOT_YET}")
    with Detachable(call, *refs, code=Exit.INTERRUPTED) as detachable:
        jobs.wait(call.world, refs, seen=partial(show_state, call))
        return int(show())
    call.output.say(f"  result    jobgen bench {kind} --read {','.join(refs)}")
    return detachable.code


def show_result(call: Call, ref: str, options: AllreduceOptions) -> int:
    """The result of one bench: on the screen, as JSON, as a page. 1 where it is not good."""
    from jobgen.app.benching.allreduce import read
    from jobgen.cli.screens import bench as screens

    judged = read(call.world, ref)
    before = read_former(options.compare)
    if options.html is not None:
        from jobgen.cli.page.bench_pages import write_allreduce_page

        write_page(options.html, write_allreduce_page(judged))
    call.answer(lambda: screens.data(judged), lambda ink: screens.screen(judged, ink, before))
    least, best = options.min_rate, judged.top
    if not judged.bench.ended or judged.bench.faulty:
        return Exit.FAILED
    if least is not None and (best is None or best.bus < least * 1e9):
        call.output.say(f"bus bandwidth is below --min {least:g} GB/s")
        return Exit.FAILED
    return Exit.DONE


def read_former(path: Path | None) -> Mapping[str, Any] | None:
    """The data of an answer that was kept with --json. Raises Usage where it is none."""
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            said = json.loads(stream.read(_LIMIT))
    except (OSError, ValueError, RecursionError) as error:
        raise Usage(f"{path}: cannot read the earlier output: {error}", hint=_MAKE) from error
    data = said.get("data") if isinstance(said, dict) else None
    if not isinstance(data, dict):
        raise Usage(f"{path}: not output of jobgen bench --json", hint=_MAKE)
    return data


def _written(call: Call, made: PreparedJob, folder: Path) -> int:
    """The job's folder, to be read, changed and submitted by hand."""
    try:
        shutil.copytree(made.base, folder)
    except OSError as error:
        reason = error.strerror or "already exists"
        raise Usage(f"cannot write {folder}: {reason}", hint="name a new folder") from error
    command = f"jobgen submit {shlex.quote(str(folder / 'job.yaml'))}"
    call.output.say(f"written: {folder}; send it with: {defuse(command)}")
    return Exit.DONE
