"""What a plan shows of a user's own model."""

from __future__ import annotations

from typing import Any

from jobgen.cli.screens.measured_rows import describe_measured, dump_measured
from jobgen.strategy.choice.advise import choose_option
from jobgen.strategy.estimate import GIB
from jobgen.strategy.measured_model import MeasuredModel, ShardedStep
from tests.strategy.choice.asked import ask
from tests.strategy.test_measured_model import NAME, ask_measured


def describe(change: dict[str, Any], strategy: str = "fsdp2") -> list[str]:
    asked = ask_measured(strategy=strategy)
    assert isinstance(asked.measured, MeasuredModel)
    option = choose_option(asked._replace(measured=asked.measured._replace(**change)), auto=False)
    assert option is not None
    return describe_measured(option.setup)


def test_its_parameters_and_units_are_named() -> None:
    (told,) = describe({})
    units = "3 units (3 Block)"
    source = "measured on fake tensors with torch 2.13.0"
    assert told == f"{NAME}: 4,000,000,000 parameters, {units}, {source}"
    (told,) = describe({"node": "n1", "cluster": "hpc"})
    assert told.endswith(f"{source} on n1 of hpc")
    (told,) = describe({"trained": 5, "units": ()})
    assert "(5 trained), one unit" in told


def test_a_fake_rank_is_shown_only_beside_what_it_measured() -> None:
    sharded = ShardedStep(16, "none", 3 * GIB)
    assert describe({"sharded": sharded})[1:] == [
        "a rank of FSDP2 over 16 fake ranks: 3.0 GiB allocated, measured"
    ]
    for other in (sharded._replace(ranks=8), sharded._replace(recompute="full")):
        assert not describe({"sharded": other})[1:]
    assert not describe({"sharded": sharded}, "fsdp")[1:]


def test_a_model_of_the_catalogue_has_no_such_row() -> None:
    option = choose_option(ask("gpt2"), auto=False)
    assert option is not None
    assert describe_measured(option.setup) == []
    assert dump_measured(option.setup) is None
