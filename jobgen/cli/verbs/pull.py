"""``jobgen pull``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import ID
from jobgen.errors import Exit


@verb(
    "pull",
    "jobgen pull @last                          # the outputs that the job names",
    "jobgen pull llama-3 'checkpoints/last/**'",
    "jobgen pull llama-3 '*.json' --to results --dry-run",
    "jobgen pull llama-3 --sync                 # and upload W&B runs that were offline",
)
@ID
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option(
    "--to", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Default: ./ID"
)
@click.option("--dry-run", is_flag=True, help="Show what would be copied")
@click.option("--checksum", is_flag=True, help="Compare contents (SHA-256), not size and time")
@click.option("--sync", is_flag=True, help="Upload the run's offline W&B data from here")
def command(call: Call, ref: str, patterns: tuple[str, ...], **options: Any) -> int:
    """Copy files that a run wrote in its working directory to this machine.

    PATTERN is as in .gitignore; without one, the job's outputs are copied. Files that are here
    already are skipped, and after a lost connection it goes on where it was. --sync copies the
    offline runs of W&B too and uploads them with this machine's `wandb sync`. Nothing changes on
    the cluster. Exits with 1 if no file matches.
    """
    from jobgen.app import pulling
    from jobgen.cli.screens import pull as screens
    from jobgen.cli.submit_dialog import build_progress

    request = pulling.PullRequest(ref, patterns, **options)
    found = pulling.pull(call.world, request, build_progress(call))
    call.answer(
        lambda: screens.data(found, dry_run=request.dry_run),
        lambda _: screens.screen(found, dry_run=request.dry_run, verbose=bool(call.flags.verbose)),
    )
    return Exit.DONE if found.matched else Exit.FAILED
