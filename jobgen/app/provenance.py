"""Which commit a working directory stands on, found without running what its repository names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_RUNS = re.compile(r"^(?:filter\.|core\.(?:fsmonitor|sshcommand|gitproxy)|alias\.)", re.I | re.M)
"""Settings that make git start a program. A folder from somebody else may bring its own."""
_SECONDS = 5


def commit(folder: Path) -> str:
    """The commit, with ``+`` where files were changed since; empty outside git, or without git.

    A repository whose own configuration names programs is not asked for changes: ``?`` says so.
    """
    head = _git(folder, "rev-parse", "--verify", "HEAD")
    if not head:
        return ""
    settings = _git(folder, "config", "--local", "--includes", "--list")
    if settings is None or _RUNS.search(settings):
        return f"{head.strip()}?"
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return head.strip() + ("?" if changed is None else "+" if changed else "")


def _git(folder: Path, *words: str) -> str | None:
    """What git printed; None where it failed or took too long."""
    # without optional locks: status would else write a fresher index
    safe = ["--no-optional-locks", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            ["git", *safe, "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
