"""Every command of jobgen that a page shows, or that a screen on it prints, can be pasted."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from jobgen.cli.main import ROOT as JOBGEN
from jobgen.cli.main import VERBS
from tests.docs.pages import NAMES, ROOT, text

BLOCK = re.compile(r"^ *```(?:console|bash|sh)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(rf"\bjobgen ((?:{'|'.join(VERBS)})\b.*)")
REST = re.compile(r"  | #| \||; | && | \d?>| </|\)|`|$")
OFFLINE = {"plan", "render", "lint", "explain", "schema"}
"""Verbs that need neither a cluster nor a run, so that their commands are run here."""


def list_commands(name: str) -> Iterator[str]:
    """The commands of a page: what is typed and what is printed."""
    for block in BLOCK.findall(text(name)):
        for line in block.splitlines():
            for match in COMMAND.findall(line):
                yield REST.split(match, maxsplit=1)[0].rstrip(" .,:")


def parse(words: list[str]) -> None:
    """Parse the command as jobgen does; raises click.UsageError if it is not one."""
    command: click.Command = JOBGEN
    context = command.make_context("jobgen", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("name", [name for name in NAMES if [*list_commands(name)]])
def test_every_command_of_a_page_is_one(name: str) -> None:
    for command in dict.fromkeys(list_commands(name)):
        try:
            parse(shlex.split(command))
        except click.UsageError as error:
            pytest.fail(f"{name}: jobgen {command}: {error.format_message()}")


def list_printed() -> list[str]:
    """The commands that screens print and that need no cluster, once each."""
    found = {}
    for name in NAMES:
        for block in re.findall(r"^```console\n\$ .*?\n(.*?)^```", text(name), re.M | re.S):
            for match in COMMAND.findall(block):
                command = REST.split(match, maxsplit=1)[0].rstrip(" .,:")
                if command.split()[0] in OFFLINE:
                    found[command] = None
    return list(found)


@pytest.mark.slow
def test_what_screens_print_works_when_pasted() -> None:
    commands = list_printed()
    assert commands
    for command in commands:
        words = [sys.executable, "-m", "jobgen", *shlex.split(command)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode in {0, 1, 6}, f"jobgen {command}: {done.stderr}"
