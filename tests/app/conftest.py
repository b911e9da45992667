"""A world of its own for each test: empty home, the local cluster in a folder, links that break."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobgen.app.world import World
from jobgen.errors import Unreachable
from jobgen.model.record import Login
from jobgen.shell import Result
from jobgen.transport import Payload
from jobgen.transport.this_machine import LocalTransport

CLUSTER = """\
name: here
scheduler: local
paths: {{root: {root}}}
nodes: {{count: 2}}
procs_per_node: 1
"""


@dataclass
class Link:
    """Connections to this machine that remember what was sent, and can be cut."""

    sent: list[str] = field(default_factory=list)
    dialled: int = 0
    cut: bool = False

    def dial(self, login: Login, say: Callable[[str], None]) -> Any:
        self.dialled += 1
        if self.cut:
            raise Unreachable("the link is cut")
        return Recorded(self)


class Recorded(LocalTransport):
    """A real local transport on a link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link

    def call(
        self, script: str, payload: Payload | None = None, *, deadline: float = 30, sink: Any = None
    ) -> Result:
        if self.link.cut:
            raise Unreachable("the link is cut")
        self.link.sent.append(script)
        return super().call(script, payload, deadline=deadline, sink=sink)


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def world(tmp_path: Path, link: Link) -> World:
    """Jobs run on two simulated nodes of one process each."""
    home = tmp_path / "home"
    own = home / ".config" / "jobgen" / "clusters"
    own.mkdir(parents=True)
    (own / "here.yaml").write_text(CLUSTER.format(root=tmp_path / "root"))
    (home / "src").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TOKEN_OF_MINE": "canary-4711-value"}
    return World(env, home, home, say=lambda _: None, dial=link.dial)


@pytest.fixture
def job(world: World) -> Callable[..., Path]:
    """Writes a job file with these lines beside the usual ones; gives its path."""

    def write(run: str, *more: str) -> Path:
        path = world.cwd / "src" / "job.yaml"
        lines = ["name: probe", "nodes: 1", "time: 5m", "launcher: srun", *more, "run: |"]
        path.write_text("\n".join([*lines, *(f"  {line}" for line in run.splitlines()), ""]))
        return path

    return write


@pytest.fixture
def breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets a tool fail, the first so many ``times`` that its first word matches a pattern."""
    path = os.environ["PATH"]

    def broken(tool: str, words: str, times: int = 1000) -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        body = f"""#!/bin/sh
case $1 in {words})
  if [ "$(wc -l <{folder}/count)" -lt {times} ]; then
    echo >>{folder}/count
    echo broken >&2
    exit 1
  fi ;;
esac
exec {shutil.which(tool)} "$@"
"""
        (folder / "count").touch()
        (folder / tool).write_text(body)
        (folder / tool).chmod(0o755)
        if tool == "dd":  # which reads logs where there is no perl
            (folder / "perl").symlink_to("/bin/false")
        monkeypatch.setenv("PATH", f"{folder}:{path}")

    return broken
