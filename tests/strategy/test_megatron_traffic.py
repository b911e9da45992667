"""What words of a Megatron-LM program say of how it sends."""

from __future__ import annotations

import pytest

from jobgen.strategy.frameworks.megatron_traffic import MegatronTraffic, read_traffic


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", MegatronTraffic()),
        ("--tp-comm-overlap", MegatronTraffic(overlap_tp=True)),
        ("--moe-token-dispatcher-type flex", MegatronTraffic(fused_dispatch=True)),
        ("--moe-token-dispatcher-type alltoall", MegatronTraffic()),
        ("--overlap-moe-expert-parallel-comm", MegatronTraffic(overlap_experts=True)),
        ("--cuda-graph-impl transformer_engine", MegatronTraffic(graphed=True)),
        ("--cuda-graph-impl none", MegatronTraffic()),
        ("--num-virtual-stages-per-pipeline-rank=5", MegatronTraffic(chunks=5)),
        ("--num-layers-per-virtual-pipeline-stage 2", MegatronTraffic(chunks=4)),
        ("--num-layers-per-virtual-pipeline-stage $LAYERS", MegatronTraffic()),
        ("--num-layers-per-virtual-pipeline-stage 0", MegatronTraffic()),
    ],
)
def test_options_of_the_program_are_read(words: str, found: MegatronTraffic) -> None:
    assert read_traffic(["pretrain_gpt.py", *words.split()], layers=32, pp=4) == found


def test_one_stage_holds_one_part() -> None:
    assert read_traffic(["--num-virtual-stages-per-pipeline-rank", "4"], 32, 1).chunks == 1
