"""What runs on the login host or inside the job, as files."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path

WRAPPED = "wrapped_program.py"
"""What every script imports that stands before a Python program."""


@cache
def text(name: str) -> str:
    """The text of one of these files, as it ships."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def package(name: str) -> Mapping[str, str]:
    """Path → text of every module of a Python package that runs inside the job."""
    folder = Path(__file__).parent / name
    names = sorted(path.name for path in folder.glob("*.py"))
    return {f"{name}/{each}": text(f"{name}/{each}") for each in names}


def select_blocks(text: str, names: Container[str]) -> str:
    """A script with its blocks ``#if NAME`` … ``#fi`` of these names, without the others."""
    lines, wanted = [], True
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("#if "):
            wanted = line.removeprefix("#if ").strip() in names
        elif line.rstrip() == "#fi":
            wanted = True
        elif wanted:
            lines.append(line)
    return "\n".join(lines) + "\n"
