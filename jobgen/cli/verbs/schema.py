"""``jobgen schema``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb


@verb("schema", "jobgen schema job > job.schema.json", "jobgen schema cluster")
@click.argument("kind", metavar="job|cluster", type=click.Choice(["job", "cluster"]))
def command(call: Call, kind: str) -> None:
    """Print the JSON Schema of a job or cluster file, for editors.

    An editor with a YAML language server completes and explains the keys of a file that starts with

    \b
    # yaml-language-server: $schema=./job.schema.json
    """
    import json

    from jobgen.load import build_schema

    found = build_schema("cluster" if kind == "cluster" else "job")
    call.answer(lambda: found, lambda _: json.dumps(found, indent=2) + "\n")
