"""Runs of an earlier jobgen, and the JSON that every verb gave of them.

runs.sql          a run database, as SQL
directories.json  run directories of it: path → mode and text, or the target of a link
answers.json      what each of CASES printed with --json
work/             the job files

``@HOME@`` and ``@WORK@`` stand for two folders.
``python -m tests.compat answers`` records the answers anew, where one is meant to change; the runs
stay as that jobgen wrote them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RUNS, DIRECTORIES, ANSWERS = (
    HERE / name for name in ("runs.sql", "directories.json", "answers.json")
)
ROOT = ".local/share/jobgen/runs"
DATABASE = ".local/state/jobgen/ledger.sqlite3"


class Case(NamedTuple):
    """A command; ``exact`` where its values, and not only their types, must stay."""

    words: str
    exact: bool = False
    lost: bool = False
    """Whether the run database is lost."""

    @property
    def name(self) -> str:
        """What it is called among the answers."""
        return self.words + " (lost)" * self.lost


RECORDED = ("good-1", "fails-1", "long-1", "long-2", "unsent-1", "again-1", "array-1")
CASES = (
    Case("ls -a --cached", exact=True),
    Case("ls --cached --state failed", exact=True),
    *(Case(f"show {ref} --cached", exact=True) for ref in RECORDED),
    Case("show good-1", exact=True),
    Case("logs good-1", exact=True),
    Case("logs fails-1 --stderr", exact=True),
    Case("logs again-1 --restart 1", exact=True),
    Case("wait good-1 again-1", exact=True),
    Case("wait fails-1", exact=True),
    Case("cancel fails-1", exact=True),
    # the local scheduler of the test has no jobs: of this one nothing is known but its directory
    Case("show long-2", exact=True),
    Case("bench scaling --read good-2,good-3", exact=True),
    Case("bench allreduce --read bench-allreduce-1", exact=True),
    Case("recover -c local @good-1@", exact=True),
    *(
        Case(f"recover -c local @{alias}@", exact=True, lost=True)
        for alias in ("good-1", "fails-1", "again-1", "array-1")
    ),
    Case("logs array-1 --task 1", exact=True, lost=True),
    Case("ls --cached", exact=True, lost=True),
    Case("show good-1 --cached", exact=True, lost=True),
    Case("plan good.yaml -c local --diff"),
    Case("plan train.yaml -c a100x16 --why --nodes 1,2 --compare a100x16,dgx-h100"),
    Case("lint good.yaml wrong.yaml"),
    Case("render good.yaml -c local"),
    Case("submit good.yaml -c local --dry-run"),
    Case("submit good.yaml -c local --wait"),
    Case("submit good.yaml -c nowhere"),
    Case("wait good-4"),
    Case("bench allreduce -c local --dry-run"),
    Case("bench scaling good.yaml -c local --dry-run"),
    Case("cluster ls"),
    Case("cluster show a100x16"),
    Case("cluster trust a100x16"),
    Case("doctor"),
    Case("doctor -c local"),
    Case("schema job"),
    Case("schema cluster"),
    Case("explain"),
    Case("explain J131", exact=True),
    Case("explain NCCL_IB_HCA"),
    Case("explain --topo topo.txt", exact=True),
    Case("completion bash"),
    Case("show nothing-9", exact=True),
)


def restore(home: Path, work: Path) -> None:
    """Lay the recorded runs out below ``home``, and the job files in ``work``."""
    shutil.copytree(HERE / "work", work, dirs_exist_ok=True)
    marks = {"@HOME@": str(home), "@WORK@": str(work)}
    database = home / DATABASE
    database.parent.mkdir(parents=True, mode=0o700)
    db = sqlite3.connect(database)
    db.executescript(_replaced(RUNS.read_text(), marks))
    db.close()
    database.chmod(0o600)
    for name, entries in json.loads(DIRECTORIES.read_text()).items():
        for path, (mode, text) in entries.items():
            _lay(home / ROOT / name / path, mode, _replaced(text, marks))


def _lay(path: Path, mode: str, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "link":
        path.symlink_to(text)
    elif mode == "folder":
        path.mkdir(exist_ok=True)
    else:
        path.write_text(text)
        path.chmod(int(mode, 8))
        os.utime(path, (0, 0))  # no job is at work here


def answers(home: Path, work: Path, call: Callable[[list[str]], tuple[int, str]]) -> Any:
    """Command → its exit code and what it printed as JSON, with the test's own places replaced."""
    marks = {str(home): "@HOME@", str(work): "@WORK@"}
    found = {}
    for case in CASES:
        os.environ["JOBGEN_STATE_HOME"] = str(
            home / (".lost" if case.lost else ".local/state/jobgen")
        )
        words = [_directory(word, home) for word in case.words.split()]
        code, out = call([*words, "--json"])
        lines = [json.loads(_replaced(line, marks)) for line in out.splitlines()]
        lines = lines if case.exact else form(lines)
        found[case.name] = {"exit": code, "lines": lines}
    return found


def form(value: Any) -> Any:
    """The keys and types of a JSON value; of a list, those that differ."""
    if isinstance(value, dict):
        return {key: form(inside) for key, inside in value.items()}
    if isinstance(value, list):
        forms: dict[str, Any] = {json.dumps(f, sort_keys=True): f for f in map(form, value)}
        return list(forms.values())
    return _kind(value)


def _directory(word: str, home: Path) -> str:
    """The run directory that ``@ALIAS@`` stands for; other words as they are."""
    if not re.fullmatch("@.*@", word):
        return word
    abouts = (home / ROOT).glob("*/run.json")
    return next(str(p.parent) for p in abouts if f'"{word[1:-1]}"' in p.read_text())


def _replaced(text: str, marks: Mapping[str, str]) -> str:
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


def differences(old: Any, new: Any, *, exact: bool, at: str = "") -> Iterator[str]:
    """What a reader of the old answer would miss in the new one. New keys are no difference.

    Sentences may be written anew, and a time of today is compared by its type alone.
    """
    if isinstance(old, dict) and isinstance(new, dict) and "anyOf" in new and "anyOf" not in old:
        # of a schema: what was allowed is one of what is
        outside = {key: value for key, value in new.items() if key != "anyOf"}
        every = ({**outside, **one} for one in new["anyOf"])
        yield from min(([*differences(old, one, exact=exact, at=at)] for one in every), key=len)
    elif isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in new:
                yield from differences(value, new[key], exact=exact, at=f"{at}.{key}")
            else:
                yield f"{at}.{key}: is gone"
    elif isinstance(old, list) and isinstance(new, list):
        yield from (_values if exact else _forms)(old, new, at)
    elif _is_other(old, new, at) if exact else old != new and "null" not in (old, new):
        yield f"{at}: was {old!r}, is {new!r}"


def _values(old: list[Any], new: list[Any], at: str) -> Iterator[str]:
    if len(old) != len(new):
        yield f"{at}: had {len(old)} values, has {len(new)}"
    for number, pair in enumerate(zip(old, new, strict=False)):
        yield from differences(*pair, exact=True, at=f"{at}[{number}]")


def _forms(old: list[Any], new: list[Any], at: str) -> Iterator[str]:
    """Elements differ among themselves: each has to be like one of the old ones."""
    if old and not new:
        yield f"{at}: is empty"
    elif at.endswith(".anyOf"):  # of a schema: what was allowed still is, and more may be
        for before in old:
            tried = ([*differences(before, after, exact=False, at=f"{at}[]")] for after in new)
            yield from min(tried, key=len)
    else:
        for after in new if old else ():
            tried = ([*differences(before, after, exact=False, at=f"{at}[]")] for before in old)
            yield from min(tried, key=len)


def _is_other(old: object, new: object, at: str) -> bool:
    if _kind(old) != _kind(new):
        return True
    is_talk = isinstance(old, str) and re.search(r"\s", old)
    return old != new and not is_talk and not at.endswith((".updated", ".time"))


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return "number" if isinstance(value, (int, float)) else "text"
