"""What words of a Megatron-LM program say of how it sends."""

from __future__ import annotations

import pytest

from jobgen.strategy.frameworks.megatron_traffic import MegatronTraffic, read_traffic

GATHERS = MegatronTraffic(gathers_tokens=True)
"""Of a program without these options: its experts gather tokens."""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", GATHERS),
        ("--tp-comm-overlap", GATHERS._replace(overlap_tp=True)),
        ("--overlap-grad-reduce", GATHERS._replace(overlap_reduce=True)),
        ("--moe-token-dispatcher-type flex", MegatronTraffic(fused_dispatch=True)),
        ("--moe-token-dispatcher-type alltoall", MegatronTraffic()),
        ("--moe-token-dispatcher-type allgather", GATHERS),
        ("--overlap-moe-expert-parallel-comm", GATHERS._replace(overlap_experts=True)),
        ("--cuda-graph-impl transformer_engine", GATHERS._replace(graphed=True)),
        ("--cuda-graph-impl none", GATHERS),
        ("--num-virtual-stages-per-pipeline-rank=5", GATHERS._replace(chunks=5)),
        ("--num-layers-per-virtual-pipeline-stage 2", GATHERS._replace(chunks=4)),
        ("--num-layers-per-virtual-pipeline-stage $LAYERS", GATHERS),
        ("--num-layers-per-virtual-pipeline-stage 0", GATHERS),
    ],
)
def test_options_of_the_program_are_read(words: str, found: MegatronTraffic) -> None:
    assert read_traffic(["pretrain_gpt.py", *words.split()], layers=32, pp=4) == found


def test_one_stage_holds_one_part() -> None:
    assert read_traffic(["--num-virtual-stages-per-pipeline-rank", "4"], 32, 1).chunks == 1
