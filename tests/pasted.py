"""The commands of jobgen that a text shows, so that tests can try what a reader would paste."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

import click

from jobgen.cli.main import ROOT as JOBGEN
from jobgen.cli.main import VERBS
from jobgen.errors import JobgenError

COMMAND = re.compile(rf"(?<![\w/.'-])jobgen ((?:{'|'.join(VERBS)})\b.*)")
REST = re.compile(r"  | #| \(| \||;|&&| \d?>| </|\)|`|$")
USAGE = re.compile(r"[Uu]sage: jobgen| COMMAND\b")
OFFLINE = {"plan", "render", "lint", "explain", "schema"}
"""Verbs that need neither a cluster nor a run."""


def list_commands(text: str) -> Iterator[str]:
    """The commands in a text, without ``jobgen`` and what stands after them on their lines.

    Answers in JSON and lines of usage show none.
    """
    lines = [] if text.startswith(("{", "[")) else text.splitlines()
    for line in lines:
        if USAGE.search(line):
            continue
        for match in COMMAND.findall(line):
            yield REST.split(match, maxsplit=1)[0].rstrip(" .,:")


def list_offline(text: str) -> set[str]:
    """Those commands in a text that need neither a cluster nor a run."""
    commands = (command for command in list_commands(text) if "--on-cluster" not in command)
    return {command for command in commands if command.split()[0] in OFFLINE}


def parse_command(command: str) -> None:
    """Parse the command as jobgen does; raises click.UsageError if it is not one."""
    group: click.Command = JOBGEN
    context = group.make_context("jobgen", shlex.split(command))
    while isinstance(group, click.Group):
        held = vars(context)  # click renamed it in 8.2
        rest = [*held.get("_protected_args", held.get("protected_args", ())), *context.args]
        name, found, rest = group.resolve_command(context, rest)
        assert found is not None
        group = found
        context = group.make_context(name, rest, parent=context)


def check_commands(text: str) -> None:
    """Fail if a command in the text is none of jobgen's."""
    for command in dict.fromkeys(list_commands(text)):
        try:
            with suppress(JobgenError, click.exceptions.Exit):  # such as no job.yaml, or --help
                parse_command(command)
        except (click.UsageError, ValueError) as error:
            raise AssertionError(f"printed, but no command: jobgen {command}: {error}") from None
