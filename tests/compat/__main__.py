"""Records what the tests compare with: ``python -m tests.compat runs``, then ``answers``."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import compat
from tests.cluster import Cluster

KEPT = (
    "good-1",
    "fails-1",
    "long-2",
    "again-1",
    "array-1",
    "good-2",
    "good-3",
    "bench-allreduce-1",
)
"""Runs whose directory is kept."""


def jobgen(words: list[str]) -> tuple[int, str]:
    """A call in a process of its own: exit code and standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "jobgen", *words], stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.returncode, *words, file=sys.stderr)
    return done.returncode, done.stdout


def record_runs(home: Path, work: Path) -> None:
    """Make the runs with the jobgen of this checkout and write them down."""
    on = ["-c", "local"]
    for name in ("good", "fails", "again"):
        jobgen(["submit", f"{name}.yaml", *on, "--wait"])
    for _ in range(2):
        jobgen(["submit", "long.yaml", *on])
    while '"PENDING"' in jobgen(["ls", "--json"])[1]:
        time.sleep(1)
    jobgen(["cancel", "long-1"])
    jobgen(["bench", "scaling", "good.yaml", *on, "--nodes", "1,2"])
    jobgen(["bench", "allreduce", *on, "--sizes", "64K,256K", "--seconds", "0.2"])
    _leave_unsent(home, work)
    jobgen(["ls", "-a"])
    database = sqlite3.connect(home / compat.DATABASE)
    with Cluster.up() as cluster:
        _add_array(cluster, home, database, work)
    database.execute(
        "DELETE FROM files WHERE token NOT IN (SELECT token FROM runs WHERE alias = 'good-1')"
    )
    database.execute("UPDATE runs SET owner = '', leased = 0")
    database.commit()
    marks = {str(home): "@HOME@", str(work): "@WORK@"}
    text = "".join(f"{line}\n" for line in _dump(database))
    for mark, value in marks.items():
        text = text.replace(mark, value)
    text = re.sub(r"/tmp/jobgen-testbed-\w+", "", text)
    compat.RUNS.write_text(text)
    directories = {}
    for alias in KEPT:
        query = "SELECT json_extract(data, '$.directory') FROM runs WHERE alias = ?"
        (directory,) = database.execute(query, (alias,)).fetchone()
        path = home / compat.ROOT / Path(directory).name
        directories[path.name] = _tree(path, marks)
    compat.DIRECTORIES.write_text(json.dumps(directories, indent=1) + "\n")
    jobgen(["cancel", "long-2"])


def _dump(database: sqlite3.Connection) -> list[str]:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return [*database.iterdump(), f"PRAGMA user_version = {version};"]


def _leave_unsent(home: Path, work: Path) -> None:
    """A submission whose connection is cut before sbatch."""
    from jobgen.app.prepare import prepare
    from jobgen.app.submit import submit
    from jobgen.app.world import World
    from jobgen.errors import Unreachable
    from jobgen.transport.this_machine import LocalTransport

    class Cut(LocalTransport):
        def call(self, script: str, *rest: Any, **more: Any) -> Any:
            if "submit.sh" in script and "attempt" in script:
                raise Unreachable("the link is cut")
            return super().call(script, *rest, **more)

    text = (work / "long.yaml").read_text().replace("name: long", "name: unsent")
    (work / "unsent.yaml").write_text(text)
    dial: Callable[..., Any] = lambda *_: Cut()  # noqa: E731
    world = World(dict(os.environ), work, home, dial=dial)
    try:
        submit(world, prepare(world, work / "unsent.yaml", "local"))
    except Unreachable as error:
        print("unsent:", error, file=sys.stderr)
    (work / "unsent.yaml").unlink()


def _add_array(cluster: Cluster, home: Path, database: sqlite3.Connection, work: Path) -> None:
    """Copy a run of the test cluster: its rows, and its directory beside the local ones."""
    folder = cluster.client.home / "array"
    folder.mkdir()
    shutil.copy(work / "array.yaml", folder)
    client, profile = cluster.client, str(cluster.profile(name="slurm"))
    done = client.jobgen("submit", str(folder / "array.yaml"), "-c", profile, "--wait")
    print(done.stdout, done.stderr, file=sys.stderr)
    database.execute("ATTACH ? AS other", (str(client.home / compat.DATABASE),))
    database.execute("INSERT INTO runs SELECT * FROM other.runs")
    database.execute(
        "INSERT INTO events (token, time, kind, text, data)"
        " SELECT token, time, kind, text, data FROM other.events"
    )
    query = "SELECT json_extract(data, '$.directory') FROM other.runs"
    (directory,) = database.execute(query).fetchone()
    shutil.copytree(directory, home / compat.ROOT / Path(directory).name, symlinks=True)
    database.commit()
    database.execute("DETACH other")


def _tree(root: Path, marks: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Path → mode and text; what jobgen itself put there lies in the run database already."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            kind, text = "link", str(path.readlink())
        elif path.is_dir():
            kind, text = "folder", ""
        elif name.startswith(("bundle/", "src/")) or name == "MANIFEST.sha256":
            continue
        else:
            kind, text = f"{path.stat().st_mode & 0o777:o}", path.read_text()
        for mark, value in marks.items():
            text = text.replace(mark, value)
        found[name] = (kind, text)
    return found


def record_answers(home: Path, work: Path) -> None:
    """Write down what every verb says of the recorded runs."""
    compat.restore(home, work)
    found = compat.answers(home, work, jobgen)
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in found.items()
    )
    compat.ANSWERS.write_text(f"{{\n{lines}\n}}\n")


def main(what: str) -> None:
    """Record one of the two in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        shutil.copytree(compat.HERE / "work", work)
        os.environ["PYTHONPATH"] = str(compat.HERE.parents[1])
        os.environ["HOME"] = str(home)
        os.chdir(work)
        {"runs": record_runs, "answers": record_answers}[what](home, work)


if __name__ == "__main__":
    main(sys.argv[1])
