"""The judge against what the world writes: makers' documents, and public job scripts."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobgen.fabric.variables import Context, judge, profile_context
from jobgen.load.judged import is_judged

FACTS = Path(__file__).parents[2] / "facts"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a fact file."""
    with (FACTS / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_makers_documents_raise_no_alarm() -> None:
    """What a maker's current document sets on its own network gets no more than advice."""
    vendor = rows("variables_vendor.csv")
    assert len(vendor) >= 300
    assert {row["fabric"] for row in vendor} >= {"efa", "gib", "tcpx", "tcpxo", "roce"}
    wrong = []
    for row in vendor:
        name, value = row["variable"], row["value"]
        assert row["source"].startswith("https://")
        context = Context(
            fabric=row["fabric"],
            nodes=2,
            maker="nvidia",
            intra="nvswitch",
            others={name: value},
        )
        wrong += [(row, f) for f in judge(name, value, context) if f.severity != "note"]
    assert wrong == []


def exported(text: str) -> dict[str, str | None]:
    """The variables of a row of the corpus; what the shell makes is not known."""
    found: dict[str, str | None] = {}
    for part in text.split(";"):
        name, equals, value = part.partition("=")
        if equals and name.isidentifier():
            found[name] = None if "$" in value or "`" in value or not value else value
    return found


def judged(row: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """(script, variable, code, severity) for all that is said of a script's variables."""
    env = exported(row["env_exported"])
    context = Context(
        "script",
        setup=True,
        nodes=int(row["nodes"]) if row["nodes"].isdigit() else None,
        fabric=profile_context.guess_network(env),
        others=env,
    )
    for name, value in env.items():
        if is_judged(name):
            for found in judge(name, value, context):
                yield row["id"], name, found.code, found.severity


CORPUS = rows("variables_corpus.csv")
EXPECTED = {tuple(row.values()) for row in rows("variables_corpus_expected.csv")}


@pytest.mark.parametrize("row", CORPUS, ids=lambda row: row["id"])
def test_public_scripts_are_judged_as_a_person_would(row: dict[str, str]) -> None:
    """The table of findings was read by hand, line by line."""
    assert set(judged(row)) == {e for e in EXPECTED if e[0] == row["id"]}


def test_the_corpus_holds_each_kind_of_fault() -> None:
    assert len(CORPUS) == 57
    assert {code for _, _, code, _ in EXPECTED} >= {"J308", "J310", "J312", "J316", "J320", "J322"}
