"""Whose files are whose: a program's have its user's own modes, the run's are private."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import submit, write
from tests.products import one_of_each

PROGRAM = """\
import os
rank = os.environ["RANK"]
open(f"made.{rank}", "w").close()
os.mkdir(f"folder.{rank}")
"""


@pytest.fixture
def open_to_the_group(cluster: Cluster) -> Iterator[Cluster]:
    """The account's own umask on the cluster is 027."""
    profile = cluster.layout.home / "tester" / ".bashrc"
    profile.write_text("umask 027\n")
    yield cluster
    profile.unlink()


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.train("torch")
@pytest.mark.parametrize("launcher", one_of_each(["torchrun", "srun"], kept=["srun"]))
def test_what_a_program_writes_has_the_modes_of_its_users_umask(
    open_to_the_group: Cluster, tmp_path: Path, launcher: str
) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    keys = {"name": "modes:umask", "run": "main.py", "nodes": 2, "procs_per_node": 1, "time": "1h"}
    words = {"launcher": launcher, "setup": 'touch "of_setup.$SLURMD_NODENAME"'}
    run = submit(open_to_the_group, write(tmp_path, {**keys, **words}))
    assert run.wait() == 0, run.story()
    assert run.id.startswith("modes:umask-")
    assert run.directory.name.startswith("modes-umask-")
    source = run.directory / "src"
    made = {path.name: path.stat().st_mode & 0o777 for path in source.glob("*.*")}
    assert {made[f"made.{rank}"] for rank in range(2)} == {0o640}
    assert {made[f"folder.{rank}"] for rank in range(2)} == {0o750}
    assert {mode for name, mode in made.items() if name.startswith("of_setup")} == {0o640}
    assert run.directory.stat().st_mode & 0o777 == 0o700
    ours = [path for path in (run.directory / "submit").iterdir() if not path.is_symlink()]
    assert {path.stat().st_mode & 0o077 for path in ours} == {0}
