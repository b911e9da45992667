"""The three things that ``render`` does with the files: print one, write all, compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app import rendered_files as app
from jobgen.app.plan_problems import judge, list_warnings
from jobgen.cli.call import Call
from jobgen.cli.screens import render as screens
from jobgen.errors import Diagnostic, Exit

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob


def list_failed_lines(ready: PreparedJob) -> list[Diagnostic]:
    """The failed checks of lines of the job but memory, as warnings: nothing is submitted."""
    from jobgen.resolve.planner_checks import UNFIT

    failed = (judge(check) for check in ready.plan.checks if check.status == "fail")
    lines = (problem for problem in failed if problem.place and problem.code != UNFIT)
    return [problem._replace(severity="warning") for problem in lines]


def show(call: Call, ready: PreparedJob, name: str) -> Exit:
    """Print one file: byte for byte, or on a terminal with what it would obey written out."""
    content = app.get_file(ready, name)
    if call.output.seen:
        from jobgen.follow.sanitize import write_out

        content = write_out(content.decode("utf-8", "backslashreplace")).encode()
    call.output.write_bytes(content)
    return Exit.DONE


def write(call: Call, ready: PreparedJob, folder: Path | None) -> Exit:
    """Write all files into a folder, where one is named, and say what they are."""
    written = app.write(ready, folder) if folder else ()
    call.answer(
        lambda: screens.data(ready, written),
        lambda _: screens.draw_written(ready, folder or Path()),
        warnings=list_warnings(ready.plan),
    )
    return Exit.DONE


def check(call: Call, ready: PreparedJob, folder: Path) -> Exit:
    """Compare with a folder; 1 where anything differs."""
    found = app.compare(ready, folder)
    call.answer(
        lambda: screens.dump_differences(found), lambda ink: screens.draw_differences(found, ink)
    )
    return Exit.FAILED if found else Exit.DONE
