"""The #SBATCH lines of a script, read by Slurm's rules."""

from __future__ import annotations

import shlex

from .errors import CommandError


def check(text: bytes) -> None:
    """Refuse what sbatch refuses to take for a script."""
    if not text.strip():
        raise CommandError("sbatch: error: Batch script is empty!")
    if not text.startswith(b"#!"):
        raise CommandError(
            "sbatch: error: This does not look like a batch script.  The first",
            "sbatch: error: line must start with #! followed by the path to an interpreter.",
            "sbatch: error: For instance: #!/bin/sh",
        )
    if b"\0" in text:
        raise CommandError(
            "sbatch: error: The SLURM controller does not allow scripts that",
            "sbatch: error: contain a NULL character '\\0'.",
        )
    if b"\r\n" in text:
        raise CommandError(
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)",
            "sbatch: error: instead of expected UNIX line breaks (\\n).",
        )


def directives(text: str, label: str) -> list[str]:
    """The words of all directives, in order.

    A directive starts with ``#SBATCH`` in the first column; the first line that is neither blank
    nor a comment ends them; quotes group, an unquoted ``#`` starts a comment.
    """
    words: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#SBATCH"):
            words += _words(line[len("#SBATCH") :], f"{label}: line {number}")
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return words


def _words(line: str, place: str) -> list[str]:
    try:
        found = shlex.split(line, comments=True)
    except ValueError:
        mark = '"' if line.count('"') % 2 else "'"
        raise CommandError(
            f"sbatch: fatal: {place}: Unmatched `{mark}` in [{line.strip()}]"
        ) from None
    if found[:1] == ["hetjob"] or ":" in found:
        raise CommandError(f"sbatch: error: {place}: this machine runs no heterogeneous jobs")
    return found
