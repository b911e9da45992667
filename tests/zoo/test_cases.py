"""Every case has the form that the tests of diagnoses rely on, and names nobody."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.zoo.cases import CAUSES, MOST_BYTES, RETRIES, Case, is_held_back, read_cases

ZOO = Path(__file__).parent
FOLDERS = [ZOO, *map(Path, filter(None, [os.environ.get("ZOO_LOGS")]))]
"""The repository's cases, and a folder of more that are not part of it."""
CASES = [case for folder in FOLDERS for case in read_cases(folder)]
KEYS = {"cause", "rank", "node", "retry", "launcher", "what", "source", "files"}
OPTIONAL = {"all_ranks", "also", "why_also", "rewritten"}
SETS = {"open": False, "held_back": True}
"""Folders whose cases are chosen by their names, and whether those in it are held back."""
PRIVATE = {
    "e-mail address": re.compile(r"\b[\w.+-]+@[\w-]+\.(?:com|org|net|edu|io|gov|[a-z]{2})\b"),
    "Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{20,}"),
    "GitHub token": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    "AWS key": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "API key": re.compile(r"\bsk-[A-Za-z0-9]{20,}"),
    "private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
}


def find_faults(truth: dict[str, object]) -> list[str]:
    """What is wrong with a truth's keys and values."""
    faults = [f"missing {key}" for key in sorted(KEYS - truth.keys())]
    faults += [f"unknown {key}" for key in sorted(truth.keys() - KEYS - OPTIONAL)]
    also = truth.get("also", [])
    causes = [truth.get("cause"), *(also if isinstance(also, list) else [also])]
    faults += [f"no such cause: {cause}" for cause in causes if cause not in CAUSES]
    if truth.get("retry") not in RETRIES:
        faults.append("retry")
    if not re.fullmatch(r"live|https://\S+", str(truth.get("source"))):
        faults.append("source")
    if not (isinstance(truth.get("rank"), int) or truth.get("rank") is None):
        faults.append("rank")
    if not str(truth.get("what", "")).strip() or ("also" in truth) != ("why_also" in truth):
        faults.append("prose")
    return faults


def find_private(text: str) -> list[str]:
    """The kinds of addresses and tokens that stand in a text."""
    return [kind for kind, pattern in PRIVATE.items() if pattern.search(text)]


def test_faults_of_a_truth_are_seen() -> None:
    good: dict[str, object] = {
        "cause": "nan",
        "rank": None,
        "node": None,
        "retry": "no",
        "launcher": "srun",
        "what": "The loss was NaN.",
        "source": "live",
        "files": ["a.out"],
    }
    assert find_faults(good) == []
    bad = good | {"cause": "bad luck", "retry": "maybe", "source": "a friend", "mood": 1}
    assert find_faults(bad) == ["unknown mood", "no such cause: bad luck", "retry", "source"]
    assert find_faults(good | {"also": ["cuda"]}) == ["prose"]
    assert find_faults({})[0] == "missing cause"


def test_addresses_and_tokens_are_seen() -> None:
    assert find_private("by a.b@example.org, token hf_" + "a" * 30) == [
        "e-mail address",
        "Hugging Face token",
    ]
    assert find_private("node-1:12:34 [0] NCCL INFO comm 0x55 @0.99 user@node-1") == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_has_its_form(case: Case) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", case.name)
    assert find_faults(case.truth) == []
    assert case.files
    assert set(case.files) == {
        path for path in case.folder.rglob("*") if path.is_file() and path.name != "truth.json"
    }
    for path in case.files:
        assert path.stat().st_size <= MOST_BYTES
    text = "".join(path.read_text("utf-8", "replace") for path in case.files)
    assert find_private(text + json.dumps(case.truth)) == []


def test_no_two_cases_share_a_name() -> None:
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))


def test_a_case_is_held_back_if_its_name_says_so() -> None:
    """Nobody chooses by hand what the engine's writers may see."""
    parts = [(case, case.folder.parent.name) for case in CASES]
    chosen = {case.name: part for case, part in parts if part in SETS}
    assert {name: SETS[part] for name, part in chosen.items()} == {
        name: is_held_back(name) for name in chosen
    }
