"""git for tests, whatever repository or settings pytest was started with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SETTINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.org",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
}


def git(folder: Path, *words: str) -> str:
    """What ``git WORDS`` prints in this folder. A hook or ``git rebase --exec`` sets GIT_DIR,
    GIT_WORK_TREE and others; none of them is passed on."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C", **SETTINGS}
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout.decode(errors="surrogateescape")
