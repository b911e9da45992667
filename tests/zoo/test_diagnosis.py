"""The causes of recorded failures are found, as often as the documentation says."""

from __future__ import annotations

import pytest

from tests.zoo.cases import read_cases
from tests.zoo.judge import LEAST, ZOO, compute_shares, judge, judge_all, list_table


@pytest.mark.parametrize("name", ["recorded"])
def test_cause_rank_and_retry_of_recorded_failures_are_found(name: str) -> None:
    rows = judge_all(ZOO / name)
    assert rows
    missed = [row.describe() for row in rows if not (row.cause and row.rank and row.retry)]
    shares = compute_shares(rows)
    assert {k for k, share in shares.items() if share < LEAST[k]} == set(), "\n".join(missed)


def test_the_documentation_shows_the_scores_of_today() -> None:
    page = (ZOO.parents[1] / "docs" / "howto" / "diagnose.md").read_text()
    assert [row for row in list_table() if row not in page] == []


@pytest.mark.parametrize("name", ["hang-rank-0", "hang-rank-3", "slow-rank", "stopped-rank"])
def test_the_last_line_of_a_recorded_rank_that_did_not_join_is_shown(name: str) -> None:
    found = judge(next(case for case in read_cases(ZOO / "recorded") if case.name == name)).found
    assert found is not None
    assert found.last_lines[0].startswith(f"last line of rank {found.bad_rank}"), found.last_lines
