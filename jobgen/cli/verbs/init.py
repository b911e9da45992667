"""``jobgen init``."""

from __future__ import annotations

from pathlib import Path

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import FILE


@verb(
    "init",
    "jobgen init          # answer at most five questions",
    "jobgen init -y       # take the detected defaults",
    "jobgen init --json   # show what is detected, write nothing",
)
@click.argument("folder", metavar="[DIR]", type=FILE, default=".", required=False)
def command(call: Call, folder: Path) -> None:
    """Write a job.yaml for the program in this folder, or in DIR.

    Your code is parsed, never run. An existing job.yaml is never replaced. With --json, nothing is
    written unless -y is given too.
    """
    from jobgen.app import initializing
    from jobgen.cli import init_dialog
    from jobgen.cli.screens import init as screens
    from jobgen.survey.project.job_text import write_job

    dry = call.flags.json and not call.flags.yes
    project = initializing.survey_folder(call.world, folder, dry=dry)
    call.output.say(screens.describe_project(project, call.output.talk))
    answers = init_dialog.choose_answers(call, project)
    cluster = initializing.read_cluster(call.world, answers.cluster)
    text = write_job(project, answers, cluster)
    written = None if dry else initializing.write_files(call.world, folder, text)
    call.answer(
        lambda: screens.data(project, answers, text, written),
        lambda ink: screens.screen(written, ink) if written and not call.flags.quiet else "",
    )
