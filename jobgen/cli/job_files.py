"""The job files that a command line names, and what is said of a word that is none."""

from __future__ import annotations

import os
from pathlib import Path

import click

from jobgen.cli.output import defuse
from jobgen.errors import Invalid, Usage

DEFAULT_JOB = Path("job.yaml")


def find_job(command: str) -> Path:
    """The job file in this folder. Raises Usage if there is none."""
    if not DEFAULT_JOB.exists():
        hint = f"write one: jobgen init; or name a job file: {command} PATH"
        raise Usage(f"no {DEFAULT_JOB} in this folder", hint=hint)
    return DEFAULT_JOB


def refuse_program(path: Path) -> None:
    """Raises Usage for a Python program in place of a job file."""
    if path.suffix == ".py":
        message = f"{defuse(path)} is a Python program; a job file is YAML"
        raise Usage(message, hint="write one: jobgen init")


def refuse_argument(ctx: click.Context, path: Path) -> None:
    """Raises Usage or Invalid for a word that is no file, with what was probably meant."""
    refuse_program(path)
    if os.path.lexists(path):
        return
    word = defuse(path)
    if word.isdecimal():
        dry = any("-n" in param.opts for param in ctx.command.params)
        start = "-n is --dry-run; " if dry else ""
        hint = f"{start}for nodes: {ctx.command_path} --set nodes={word}"
        raise Usage(f"'{word}' is not a job file", hint=hint)
    if path.parent == Path() and not path.suffix and _is_cluster(word):
        raise Usage(f"'{word}' is a cluster, not a job file", hint=f"did you mean -c {word}?")
    if _is_model(word):
        hint = f"write train: {{model: {word}}} in one; jobgen init writes the rest"
        raise Usage(f"'{word}' is a model, not a job file", hint=hint)
    hint = f"give the path of a job file, as in: {ctx.command_path} {DEFAULT_JOB}"
    raise Invalid(f"{word}: no such file", hint=hint)


def _is_model(name: str) -> bool:
    from jobgen.strategy.shapes import find_model

    return find_model(name) is not None


def _is_cluster(name: str) -> bool:
    from jobgen.app.world import World
    from jobgen.errors import Missing

    try:
        World.here().open_catalog().find_cluster(name)
    except (Missing, Invalid):
        return False
    return True


def choose_job(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """The job file that was named, else the one in this folder."""
    if value and not ctx.resilient_parsing:
        refuse_argument(ctx, value)
    return value if value or ctx.resilient_parsing else find_job(ctx.command_path)


def choose_files(
    ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]
) -> tuple[Path, ...]:
    """The files that were named, else the job file in this folder."""
    for path in () if ctx.resilient_parsing else value:
        refuse_program(path)
    job = None if value else choose_job(ctx, param, None)
    return (job,) if job else value
