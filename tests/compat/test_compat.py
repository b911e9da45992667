"""Runs and answers of an earlier jobgen are read as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobgen.cli.main import run
from tests import compat


@pytest.mark.timeout(600)
def test_runs_of_an_earlier_jobgen_are_shown_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    compat.restore(home, work)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("JOBGEN_STATE_HOME", "")

    def call(words: list[str]) -> tuple[int, str]:
        code = run(words)
        return int(code), capsys.readouterr().out

    old = json.loads(compat.ANSWERS.read_text())
    new = json.loads(json.dumps(compat.answers(home, work, call)))
    assert new.keys() == old.keys()
    exact = {case.name for case in compat.CASES if case.exact}
    found = {name: [*compat.differences(old[name], new[name], exact=name in exact)] for name in old}
    assert {name: lines for name, lines in found.items() if lines} == {}


OLD: dict[str, Any] = {"id": "a-1", "left": 3.5, "nodes": [{"name": "n1"}], "why": "it waits"}


@pytest.mark.parametrize(
    ("new", "exact", "different"),
    [
        (OLD, True, False),
        ({**OLD, "more": 1}, True, False),
        ({**OLD, "why": "another sentence"}, True, False),
        ({**OLD, "why": None}, True, True),
        ({**OLD, "id": "a-2"}, True, True),
        ({**OLD, "id": "a-2"}, False, False),
        ({**OLD, "left": 4}, True, True),
        ({**OLD, "left": 4}, False, False),
        ({**OLD, "left": "4"}, False, True),
        ({**OLD, "left": None}, False, False),
        ({**OLD, "nodes": []}, False, True),
        ({**OLD, "nodes": [{"name": "n1"}, {}]}, False, True),
        ({**OLD, "nodes": [{"name": "n1"}, {"name": "n2"}]}, False, False),
        ({**OLD, "nodes": [{"name": "n1"}, {"name": "n2"}]}, True, True),
        ({"id": "a-1"}, False, True),
    ],
)
def test_what_is_gone_or_of_another_type_is_a_difference(
    new: dict[str, Any], exact: bool, different: bool
) -> None:
    pair = (OLD, new) if exact else (compat.form(OLD), compat.form(new))
    assert bool([*compat.differences(*pair, exact=exact)]) == different


@pytest.mark.parametrize(
    ("new", "different"),
    [
        ([{"type": "string"}, {"type": "array", "items": {}}], False),
        ([{"type": "string"}, {"type": "array", "items": {}}, {"$ref": "#/$defs/More"}], False),
        ([{"$ref": "#/$defs/More"}, {"type": "string"}], True),
        ([], True),
    ],
)
def test_a_schema_may_allow_more_but_not_less(new: list[Any], different: bool) -> None:
    old = {"wrap": {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]}}
    pair = (compat.form(old), compat.form({"wrap": {"anyOf": new}}))
    assert bool([*compat.differences(*pair, exact=False)]) == different


@pytest.mark.parametrize(
    ("new", "different"), [({"type": "boolean"}, False), ({"$ref": "#/$defs/More"}, True)]
)
def test_one_schema_may_become_one_of_several(new: dict[str, str], different: bool) -> None:
    old = {"fp8": {"type": "boolean", "default": False}}
    wider = {"fp8": {"anyOf": [{"enum": ["rowwise"]}, new], "default": False}}
    pair = (compat.form(old), compat.form(wider))
    assert bool([*compat.differences(*pair, exact=False)]) == different
