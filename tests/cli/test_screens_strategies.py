"""The table of strategies: which rows are left out."""

from __future__ import annotations

import pytest

from jobgen.cli.screens.strategies import _list_rules
from jobgen.strategy.choice.advise import advise
from tests.strategy.choice.asked import ask


@pytest.mark.parametrize(("bits", "left_out"), [(4, False), (8, True)])
def test_strategies_that_cannot_shard_8_bits_are_named(bits: int, left_out: bool) -> None:
    keys = {"framework": "hf-trainer", "lora": {"bits": bits}}
    rules = [*_list_rules(advise(ask("meta-llama/Llama-3.1-8B", **keys), auto=True))]
    assert any("J268" in rule for rule in rules) is left_out
