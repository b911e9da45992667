"""Which commit a working directory stands on, found without running what its repository names."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_RUNS = re.compile(r"^(?:filter\.|core\.(?:fsmonitor|sshcommand|gitproxy)|alias\.)", re.I | re.M)
"""Settings that make git start a program. A folder from somebody else may bring its own."""
_SECONDS = 5
_ELSEWHERE = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Variables that name another repository: a hook has them, and ``git rebase --exec``."""


def commit(folder: Path, environ: Mapping[str, str]) -> str:
    """The commit, with ``+`` where files were changed since; empty outside git, or without git.

    A repository whose own configuration names programs is not asked for changes: ``?`` says so.
    """
    head = _git(folder, environ, "rev-parse", "--verify", "HEAD")
    if not head:
        return ""
    settings = _git(folder, environ, "config", "--local", "--includes", "--list")
    if settings is None or _RUNS.search(settings):
        return f"{head.strip()}?"
    changed = _git(folder, environ, "status", "--porcelain", "--untracked-files=no")
    return head.strip() + ("?" if changed is None else "+" if changed else "")


def _git(folder: Path, environ: Mapping[str, str], *words: str) -> str | None:
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
            env={name: value for name, value in environ.items() if name not in _ELSEWHERE},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
