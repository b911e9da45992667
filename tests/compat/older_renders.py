"""Renders the examples of older commits with their jobgen and with this one; explains differences.

    python -m tests.compat.older_renders [NUMBER]

A line that appeared or disappeared is explained by the newest commit that added or removed it in a
template, a payload or a golden bundle; by its move within the job; or by a row of reasons.csv. The
rest, which changed although nobody changed it, is printed: it must be empty. plan.json is left out:
it holds sentences, and tests/compat reads older ones.
"""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FIRST = "examples/digits-ddp/job.yaml"
"""The commits are those since this file."""
JOBS = tuple(f"job{kind}.yaml" for kind in ("", ".srun", ".requeue", ".deepspeed"))
CLUSTER = "a100x16"
TREE = ("examples", "jobgen", "templates", "clusters")
"""What of an older commit is used."""
SOURCES = ("templates", "jobgen/payload", "tests/golden")
"""Where the text of a rendered file is written down, and its changes with it."""
MOVED = "moved within the job"
BLOCK = "in a block that this job no longer needs"


class Difference(NamedTuple):
    """One line that only one of the two jobgens renders."""

    commit: str
    file: str
    kind: str
    """``+``: rendered today; ``-``: rendered then."""
    line: str
    reason: str = ""


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def has_history() -> bool:
    """Whether this is a whole clone."""
    words = ["git", "rev-parse", "--is-shallow-repository"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == "false"


def choose_commits(number: int) -> list[str]:
    """So many commits since the first example, evenly spread."""
    first = git("log", "--reverse", "--format=%H", "--", FIRST).split()[0]
    commits = git("rev-list", "--reverse", "--first-parent", f"{first}..HEAD").split()
    return [commits[index * len(commits) // number] for index in range(number)]


def render(folder: Path, package: Path, out: Path) -> dict[str, list[str]]:
    """Job's file → lines, of what a package renders of the examples in a folder."""
    env = {"PATH": os.environ["PATH"], "HOME": str(out), "PYTHONPATH": str(package)}
    found: dict[str, list[str]] = {}
    for name in JOBS:
        if not (folder / name).exists():
            continue
        target = out / name
        words = [sys.executable, "-m", "jobgen", "render", name, "-c", CLUSTER, "-o", str(target)]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
        if done.returncode:
            found[f"{name}/error"] = done.stderr.splitlines()
        for path in sorted(target.rglob("*")):
            if path.is_file() and path.name != "plan.json":
                found[f"{name}/{path.relative_to(target)}"] = path.read_text().splitlines()
    return found


def compare(commit: str) -> tuple[int, list[Difference]]:
    """How many jobs were rendered twice, and the lines that differ."""
    with tempfile.TemporaryDirectory(prefix="jobgen-older-") as made:
        folder = Path(made)
        words = ["git", "archive", "--format=tar", commit, *TREE]
        archive = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            members.extractall(folder / "old", filter="data")
        example = folder / "old" / "examples" / "digits-ddp"
        outs = [folder / "out-old", folder / "out-new"]
        for out in outs:
            out.mkdir()
        old = render(example, folder / "old", outs[0])
        new = render(example, ROOT, outs[1])
    # what that jobgen could not render yet has nothing to be compared with
    failed = tuple(name.removesuffix("error") for name in old if name.endswith("/error"))
    names = [name for name in sorted({*old, *new}) if not name.startswith(failed or "\0")]
    jobs = {name.partition("/")[0] for name in names}
    lines = (line for name in names for line in _diff(commit, name, old, new))
    return len(jobs), [*lines]


def _diff(
    commit: str, name: str, old: Mapping[str, list[str]], new: Mapping[str, list[str]]
) -> Iterator[Difference]:
    for line in unified_diff(old.get(name, []), new.get(name, []), n=0, lineterm=""):
        if line[:1] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip():
            text, sides = _normalize(line[1:]), (old.get(name, []), new.get(name, []))
            moved = all(text in map(_normalize, side) for side in sides)
            yield Difference(commit, name, line[0], line[1:], MOVED if moved else "")


def _normalize(line: str) -> str:
    """A line without numbers, runs of blanks, Jinja's tags and the name of the job file, which
    rendering changes."""
    line = re.sub(r"\{[{%].*?[}%]\}", "", line)
    line = re.sub(r"\bjob\.\w+\.yaml", "job.yaml", line)
    return re.sub(r"\d+", "0", re.sub(r"\s+", " ", line.strip()))


class Explainer:
    """Reasons for lines: the history, the data, and what the payload still has."""

    def __init__(self) -> None:
        self._subjects: tuple[dict[str, str], dict[str, str]] = ({}, {})
        words = ("-p", "-U0", "--no-color", "--no-ext-diff", "--format=commit %h %s")
        subject = ""
        for line in git("log", *words, "--", *SOURCES).split("\n"):
            if line.startswith("commit "):
                subject = line.removeprefix("commit ")
            elif line[:1] in ("+", "-") and line[:3] not in ("+++", "---"):
                self._subjects[line[0] == "-"].setdefault(_normalize(line[1:]), subject)
        with (Path(__file__).parent / "reasons.csv").open() as rows:
            self.rows = [*csv.DictReader(rows)]
        texts = (path.read_text() for path in (ROOT / "jobgen/payload").glob("*.sh"))
        self._payload = {_normalize(line) for text in texts for line in text.split("\n")}

    def explain(self, found: Difference) -> Difference:
        """The difference with its reason; without one, if there is none."""
        line = _normalize(found.line)
        reason = found.reason or self._subjects[found.kind == "-"].get(line, "")
        rows = (row for row in self.rows if row["kind"] == found.kind)
        named = (row["reason"] for row in rows if re.search(row["pattern"], found.line))
        reason = reason or next(named, "")
        block = BLOCK if found.kind == "-" and line in self._payload else ""
        return found._replace(reason=reason or block)


def explain_all(commits: Sequence[str]) -> tuple[int, list[Difference]]:
    """How many jobs of these commits were compared, and every difference with its reason."""
    explainer, jobs, every = Explainer(), 0, []
    for commit in commits:
        number, lines = compare(commit)
        jobs += number
        every += [explainer.explain(line) for line in lines]
    return jobs, every


def main() -> int:
    """Print the reasons with their counts, and what has none."""
    commits = choose_commits(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
    jobs, every = explain_all(commits)
    for reason, number in Counter(line.reason for line in every if line.reason).most_common():
        print(f"{number:6}  {reason}")
    rest = Counter((line.file, line.kind, line.line) for line in every if not line.reason)
    for (file, kind, text), number in rest.most_common():
        print(f"unexplained {number:4}  {file}: {kind}{text}")
    print(f"{jobs} jobs of {len(commits)} commits, {len(every)} lines, {len(rest)} unexplained")
    return 1 if rest else 0


if __name__ == "__main__":
    sys.exit(main())
