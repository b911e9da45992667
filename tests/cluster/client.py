"""The machine a person sits at: jobgen runs there, and Slurm is an ssh connection away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jobgen
from tests.cluster.hosts import SYSTEM_PATH, Done
from tests.pasted import check_commands
from tests.waiting import HANG

if TYPE_CHECKING:
    from tests.cluster.hosts import Hosts

JOBGEN = (sys.executable, "-m", "jobgen")


class Client:
    """Runs programs on the client host, as root there, with a home of their own."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    @property
    def home(self) -> Path:
        """HOME of the programs: the ssh configuration, the key and jobgen's own state."""
        return self._hosts.layout.client_home

    def words(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> list[str]:
        """A command's words for Popen or pexpect; the process id there is the program's own."""
        bin_folder = str(Path(sys.executable).parent)
        base = {"PATH": f"{bin_folder}:{SYSTEM_PATH}"}
        package = Path(jobgen.__file__).resolve().parents[1]
        if package.name != "site-packages":
            base["PYTHONPATH"] = str(package)
        enter = self._hosts.enter("client", user="root", env={**base, **(env or {})}, cwd=cwd)
        return [*enter, *command]

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
    ) -> Done:
        """Run a program to its end; its exit code and what it printed."""
        words = self.words(command, env=env, cwd=cwd)
        return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=HANG)

    def jobgen(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """``jobgen ARGUMENTS…`` run to its end; every command that it prints must be one."""
        done = self.run([*JOBGEN, *arguments], env=env, cwd=cwd)
        check_commands(done.stdout + done.stderr)
        return done
