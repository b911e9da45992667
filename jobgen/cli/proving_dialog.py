"""The end of ``cluster add``: an offer to prove the profile by a job on two nodes."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.cli.call import Call
from jobgen.cli.output import defuse, is_tty
from jobgen.cli.screens import survey as screens
from jobgen.errors import Exit, JobgenError

if TYPE_CHECKING:
    from jobgen.app.adding import Added
    from jobgen.app.proving import Proof


def finish_add(call: Call, added: Added, *, prove: bool | None, like: Path | None) -> Exit:
    """Show the profile that was written, then prove it if that is wanted. 1 if the job failed."""
    if not call.flags.json:
        call.answer(lambda: None, lambda ink: screens.draw_added(added, ink))
    proof = _prove(call, added, like) if _is_wanted(call, added, prove) else None
    if call.flags.json:
        data = screens.dump_added(added) | ({"proof": proof._asdict()} if proof else {})
        call.answer(lambda: data, lambda _: "")
    elif proof:
        call.output.write_text(screens.draw_proof(added, proof, call.output.ink))
    return Exit.FAILED if proof is not None and not proof.ok else Exit.DONE


def _is_wanted(call: Call, added: Added, prove: bool | None) -> bool:
    """Whether to submit the job: by the flag, else the user is asked."""
    if added.path is None:
        return False
    if prove is not None or call.flags.json or not (is_tty(sys.stdin) and is_tty(sys.stderr)):
        return bool(prove)
    call.output.say("A job of a few minutes on two nodes can test the partition, the account, the")
    call.output.say(
        "shared run directory and an all-reduce. It needs torch there (--like job.yaml)."
    )
    return call.confirm("Submit it?")


def _prove(call: Call, added: Added, like: Path | None) -> Proof | None:
    """The result of the job, written into the profile if it is good; None after Ctrl-C."""
    from jobgen.app import jobs, proving, submit
    from jobgen.app.benching import allreduce
    from jobgen.app.plan_problems import refuse_failing
    from jobgen.cli.following import Detachable, show_state
    from jobgen.cli.submit_dialog import build_progress

    path = (added.path or Path()).absolute()
    try:
        with allreduce.prepare_job(call.world, proving.request_proof(like), str(path)) as ready:
            refuse_failing(ready)
            about = allreduce.record_bench(ready)
            progress = build_progress(call)
            record = submit.submit(call.world, ready, progress=progress, about=about)
    except JobgenError as error:
        call.complain(error.problems)
        return proving.Proof("", ok=False, lines=(defuse(str(error)),))
    with Detachable(call, record.alias, code=Exit.INTERRUPTED):
        jobs.wait(call.world, [record.alias], seen=partial(show_state, call))
        proof = proving.judge_proof(call.world, record.alias)
        if proof.ok:
            proving.write_proof(call.world, path, proof)
        return proof
    return None
