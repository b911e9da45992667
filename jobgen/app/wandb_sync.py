"""The offline runs of W&B among pulled files, uploaded with the user's own ``wandb sync``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.errors import JobgenError, Missing
from jobgen.shell import Command

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.transport.fetch import RemoteFile

PATTERN = "offline-run-*/"
"""The directories that wandb writes, as pull matches them."""
# as wandb 0.31 names them; a second one of the same second ends with a number
_RUN = re.compile(
    r"(?:.+/)?offline-run-[0-9]{8}_[0-9]{6}-([A-Za-z0-9_-]{1,128})(?:-[0-9]+)?/run-\1\.wandb"
)
_STDERR = 2
_SYNCED = ".synced"
"""What ``wandb sync`` appends to the name of a file for its mark beside it."""


def find_wandb(world: World) -> str:
    """The wandb program of this machine. Raises Missing."""
    program = shutil.which("wandb", path=world.environ.get("PATH", os.defpath))
    if program is None:
        hint = "pip install wandb; without --sync, pull copies the files alone"
        raise Missing("wandb is not installed on this machine, so nothing can be synced", hint=hint)
    return program


def list_offline_runs(files: Iterable[RemoteFile]) -> tuple[str, ...]:
    """The data file of each offline run, in the order of their starts."""
    runs = (file.path for file in files if _RUN.fullmatch(file.path))
    return tuple(sorted(runs, key=lambda path: path.rsplit("/", 2)[1:]))


def forget_marks(folder: Path, changed: Iterable[RemoteFile]) -> None:
    """Remove the mark of each run whose file has grown since it was synced."""
    for path in list_offline_runs(changed):
        (folder / f"{path}{_SYNCED}").unlink(missing_ok=True)


def is_synced(folder: Path, run: str) -> bool:
    """Whether the run carries the mark of ``wandb sync``."""
    return (folder / f"{run}{_SYNCED}").exists()


def sync_runs(world: World, program: str, folder: Path, runs: Iterable[str]) -> None:
    """Upload offline runs, those of one ID in the order of their starts. Raises JobgenError.

    What wandb prints goes to standard error.
    """
    folders = [str((folder / run).parent.resolve()) for run in runs]
    command = Command((program, "sync", *folders))
    done = subprocess.run(
        [program, "sync", *folders],
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        env=dict(world.environ),
        check=False,
    )
    if done.returncode:
        message = f"wandb sync failed with exit code {done.returncode}; the files are in {folder}"
        raise JobgenError(message, hint=f"again, alone: {command}")
