"""What one rank sends in a step: against closed forms, and what must hold of any mesh."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.shapes.architecture import Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed import list_volumes
from jobgen.strategy.speed.traffic import list_traffic, sum_loads
from tests.strategy.speed.setups import A100, AUTOCAST, H100, LLAMA, MIXED, SMALL, SPARSE, setup

P = SMALL.count


def sent(asked: Setup) -> dict[str, float]:
    """Bytes by what they are, over both kinds of link."""
    found: dict[str, float] = defaultdict(float)
    for volume in list_volumes(asked, A100):
        found[volume.what] += volume.bytes
    return dict(found)


def on(link: str, asked: Setup) -> float:
    return sum(v.bytes for v in list_volumes(asked, A100) if v.link == link)


def total(asked: Setup) -> float:
    return sum(volume.bytes for volume in list_volumes(asked, A100))


def test_one_rank_sends_nothing() -> None:
    for strategy in ("ddp", "fsdp", "fsdp2", "zero3", "3d"):
        assert list_volumes(setup(strategy, mesh=Mesh(1, 1)), A100) == ()


def test_ddp_reduces_every_gradient_once_a_step() -> None:
    for accumulation in (1, 4):
        found = sent(setup("ddp", accumulation=accumulation))
        assert found == {"all-reduce of gradients": pytest.approx(2 * 7 / 8 * 2 * P)}


def test_zero1_sends_as_many_bytes_as_ddp_where_gradients_are_as_wide_as_parameters() -> None:
    found = sent(setup("zero1", accumulation=4))
    assert found["reduce-scatter of gradients"] == pytest.approx(7 / 8 * 2 * P)
    assert found["all-gather of parameters"] == pytest.approx(7 / 8 * 2 * P)
    assert total(setup("zero1")) == pytest.approx(total(setup("ddp")))


def test_deepspeed_reduces_all_gradients_on_every_rank() -> None:
    for strategy, times in (("zero1", 1), ("zero2", 4)):
        found = sent(setup(strategy, accumulation=4, framework="deepspeed"))
        assert found["all-reduce of gradients"] == pytest.approx(times * 2 * 7 / 8 * 2 * P)
        assert found["all-gather of parameters"] == pytest.approx(7 / 8 * 2 * P)


def test_quantized_weights_are_gathered_as_they_are_stored() -> None:
    def gathered(strategy: str, bits: int) -> float:
        asked = setup(strategy, model=LLAMA, adapters=Adapters(8, (), bits))
        return sent(asked)["all-gather of parameters"]

    for strategy in ("fsdp", "fsdp2", "zero3"):
        assert gathered(strategy, 16) == pytest.approx(7 / 8 * 2 * LLAMA.count)
        # embedding and output layer have 16 bits
        assert 0.3 < gathered(strategy, 4) / gathered(strategy, 16) < 0.4


def test_zero2_gathers_what_is_trained_alone() -> None:
    plain, adapted = (
        sent(setup("zero2", model=LLAMA, framework="deepspeed", adapters=each))
        for each in (None, Adapters(8, ()))
    )
    assert adapted["all-gather of parameters"] < 0.01 * plain["all-gather of parameters"]


def test_zero2_reduces_in_every_micro_batch() -> None:
    found = sent(setup("zero2", accumulation=4))
    assert found["reduce-scatter of gradients"] == pytest.approx(4 * 7 / 8 * 2 * P)
    assert found["all-gather of parameters"] == pytest.approx(7 / 8 * 2 * P)


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2"])
def test_no_sync_reduces_in_the_last_micro_batch_alone(strategy: str) -> None:
    found, each = (
        sent(setup(strategy, accumulation=4, unsynced=unsynced)) for unsynced in (True, False)
    )
    assert found["reduce-scatter of gradients"] == pytest.approx(7 / 8 * 2 * P)
    assert each["reduce-scatter of gradients"] == pytest.approx(4 * 7 / 8 * 2 * P)
    assert found["all-gather of parameters"] == each["all-gather of parameters"]


@pytest.mark.parametrize("strategy", ["fsdp2", "zero3"])
def test_sharded_parameters_are_gathered_twice_and_reduced_once(strategy: str) -> None:
    assert total(setup(strategy)) == pytest.approx(1.5 * total(setup("ddp")))
    assert total(setup(strategy, accumulation=4)) == pytest.approx(4 * total(setup(strategy)))


def test_fsdp1_keeps_the_root_gathered() -> None:
    less = 7 / 8 * 2 * SMALL.outside
    assert total(setup("fsdp")) == pytest.approx(total(setup("fsdp2")) - less)


def test_an_fp32_reduction_sends_four_thirds() -> None:
    # autocast: parameters are gathered in 16 bits and gradients reduced in 32
    assert total(setup("fsdp2", recipe=AUTOCAST)) == pytest.approx(7 / 8 * (2 + 2 + 4) * P)


def test_what_stays_gathered_is_not_gathered_again() -> None:
    for kept in (setup("fsdp-grad-op"), setup("fsdp2", reshard=False)):
        assert total(kept) == pytest.approx(2 * 7 / 8 * 2 * P)


def test_resharded_to_the_node_the_second_gather_stays_inside_it() -> None:
    across = setup("fsdp2", mesh=Mesh(1, 16))
    within = across._replace(reshard=8)
    assert sent(within)["all-gather of parameters again"] == pytest.approx(7 / 8 * 2 * P)
    assert on("network", within) == pytest.approx(on("network", across) * 2 / 3)


def test_hybrid_shards_reduce_only_their_part_over_the_network() -> None:
    hybrid = setup("fsdp-hybrid", mesh=Mesh(4, 8))
    assert on("node", hybrid) == pytest.approx(7 / 8 * 2 * (3 * P - SMALL.outside))
    assert on("network", hybrid) == pytest.approx(2 * 3 / 4 * 2 * P / 8)
    # without no_sync, which keeps whole gradients, they do so in every micro-batch
    often = setup("fsdp-hybrid", mesh=Mesh(4, 8), accumulation=3)
    assert on("network", often) == pytest.approx(3 * on("network", hybrid))


def test_an_all_reduce_over_nodes_leaves_each_by_all_its_cards() -> None:
    # stas00/ml-engineering, network/README.md: of 4 GiB over 4 nodes of 8, each card carries 0.75
    asked = setup("ddp", mesh=Mesh(32, 1))
    payload = 2 * P
    assert on("network", asked) == pytest.approx(payload * 0.75 / 4)
    assert on("node", asked) == pytest.approx(payload * 7 / 4)


def test_tp_sends_four_times_the_activations_of_a_layer() -> None:
    asked = setup("3d", mesh=Mesh(1, 1, tp=8), accumulation=3)
    activations = 2 * 128 * 64 * 2
    whole = 8 * 7 / 8 * activations * SMALL.sizes.layers * 3
    assert total(asked) == pytest.approx(whole)
    assert total(asked._replace(sequence_parallel=True)) == pytest.approx(whole)
    assert total(asked._replace(recompute="full")) == pytest.approx(whole * 1.5)
    assert on("network", asked) == 0


def test_megatron_gathers_the_input_again_for_the_gradient_of_weights() -> None:
    asked = setup("3d", mesh=Mesh(1, 1, tp=8), sequence_parallel=True)
    found, again = sent(asked), sent(asked._replace(framework="megatron"))
    gathered = "all-gather of activations"
    assert again[gathered] == pytest.approx(1.5 * found[gathered])
    assert {**again, gathered: 0} == {**found, gathered: 0}


def test_tp_wider_than_a_node_uses_the_network() -> None:
    assert on("network", setup("3d", mesh=Mesh(1, 1, tp=16))) > 0


def test_dp_across_nodes_of_one_tp_group_each_has_a_card_for_every_rank() -> None:
    asked = setup("3d", mesh=Mesh(4, 1, tp=8))
    gradients = [v for v in list_volumes(asked, A100) if "gradients" in v.what]
    (volume,) = gradients
    assert volume.link == "network"
    assert volume.bytes == pytest.approx(2 * 3 / 4 * 2 * P / 8)


def test_stages_send_activations_and_their_gradients() -> None:
    asked = setup("3d", mesh=Mesh(1, 1, pp=4), accumulation=8, world_per_node=4)
    activations = 2 * 128 * 64 * 2
    assert sent(asked) == {"send of activations": pytest.approx(2 * 8 * activations)}
    assert on("network", asked) == 0
    assert on("network", asked._replace(world_per_node=1)) == pytest.approx(2 * 8 * activations)


def test_copies_of_hybrid_shards_are_reduced_unit_by_unit() -> None:
    asked = setup("fsdp-hybrid", mesh=Mesh(4, 8), accumulation=2, world_per_node=8)
    (copies,) = (one for one in list_traffic(asked) if one.what == "all-reduce")
    assert copies.times == 2 * (SMALL.sizes.layers + 1)
    assert copies.payload * copies.times == pytest.approx(2 * 2 * P / 8)
    assert 0 < copies.first < copies.payload * SMALL.sizes.layers


def test_keys_and_values_go_round_the_ring() -> None:
    asked = setup("fsdp2", mesh=Mesh(1, 1, cp=4))
    each = 2 * 4 * 16 * 2 * (2 * 128 / 4)  # keys and values of four heads of 16, 2 x 128 / 4 tokens
    rings = {what: size for what, size in sent(asked).items() if "keys" in what}
    assert rings == {"send of keys and values": pytest.approx(3 * 3 * each * SMALL.sizes.layers)}


def test_torch_gathers_keys_and_values_and_sends_wide_gradients_on() -> None:
    asked = setup("fsdp2", mesh=Mesh(1, 1, cp=4), framework="torchtitan", recompute="full")
    each = 2 * 4 * 16 * 2 * (2 * 128 / 4) * SMALL.sizes.layers
    rings = {v.what: v.bytes for v in list_volumes(asked, A100) if "keys" in v.what}
    # forward, again and backward, three quarters of four times as many; in fp32 to a neighbor
    assert rings == {
        "all-gather of keys and values": pytest.approx(3 * 3 * each),
        "send of gradients of keys and values": pytest.approx(4 * 2 * each),
    }


def test_tokens_go_to_their_experts_and_back() -> None:
    asked = setup("fsdp2", model=SPARSE, mesh=Mesh(1, 8, ep=4))
    moved = sent(asked)["all-to-all of tokens"]
    assert moved == pytest.approx(4 * 4 * 3 / 4 * 2 * 128 * 2 * 64 * 2)


def test_tokens_sent_once_to_a_node_leave_it_once_and_reach_each_rank_once() -> None:
    asked = setup("fsdp2", model=SPARSE, mesh=Mesh(1, 8, ep=8), fused_dispatch=True)
    token, times = 64 * 2, 4 * 4 * 2 * 128  # bytes, and how often one is sent
    ranks, nodes = 8 * (1 - 21 / 28), 4 * (1 - 15 / 28)
    within, across = (
        [v for v in list_volumes(each, A100) if v.what == "all-to-all of tokens"]
        for each in (asked, asked._replace(world_per_node=2))
    )
    assert [(v.link, v.bytes) for v in within] == [
        ("node", pytest.approx(7 / 8 * ranks * token * times))
    ]
    assert [(v.link, v.bytes) for v in across] == [
        ("node", pytest.approx(1 / 2 * ranks * token * times)),
        ("network", pytest.approx(3 / 4 * nodes * token * times)),
    ]


@given(nodes=st.sampled_from([1, 2, 4, 8]), active=st.integers(1, 8))
def test_forwarding_never_sends_more_over_the_network(nodes: int, active: int) -> None:
    shape = SPARSE.sizes._replace(experts=Experts(8, active, 128))
    plain = setup(
        "fsdp2", model=build_model(shape), mesh=Mesh(1, 8, ep=8), world_per_node=8 // nodes
    )
    fused = plain._replace(fused_dispatch=True)
    assert on("network", fused) <= on("network", plain) * (1 + 1e-9)


@pytest.mark.parametrize(("framework", "times"), [("megatron", 6), ("torch", 5)])
def test_recomputing_sends_tokens_again_and_back_unless_it_stops_early(
    framework: str, times: int
) -> None:
    asked = setup("fsdp2", model=SPARSE, mesh=Mesh(1, 8, ep=4), framework=framework)
    (once,) = (one for one in list_traffic(asked) if one.of == "tokens")
    (again,) = (one for one in list_traffic(asked._replace(recompute="full")) if one.of == "tokens")
    assert again.times == once.times * times / 4


def test_tokens_may_be_sent_beside_the_computing_of_another_micro_batch() -> None:
    asked = setup("fsdp2", model=SPARSE, mesh=Mesh(1, 8, ep=4), accumulation=8)
    (plain,) = (one for one in list_traffic(asked) if one.of == "tokens")
    beside = {
        one.when: one.times
        for one in list_traffic(asked._replace(overlap_experts=True))
        if one.of == "tokens"
    }
    # the first forward pass and the last backward pass are computed alone
    alone, half = plain.times / 8, plain.times * 7 / 8 / 2
    assert beside == {"layer": alone, "blocks forward": half, "blocks backward": half}


def test_kernels_made_for_experts_are_slower_than_nccl_inside_a_node() -> None:
    asked = setup("fsdp2", model=SPARSE, mesh=Mesh(1, 8, ep=4), micro=64, fused_dispatch=True)
    (fused,) = (one for one in list_traffic(asked) if one.of == "tokens")
    for machine, share in ((H100, 0.66), (H100._replace(architecture="Blackwell"), 0.52)):
        plain, slower = (sum_loads(fused._replace(fused=each), machine) for each in (False, True))
        assert slower[0] == plain[0]
        assert slower[1].node == pytest.approx(plain[1].node * 0.8 / share)


def test_kernels_made_for_experts_forward_as_much_as_hybrideps_benchmark_does() -> None:
    # deepseek-ai/DeepEP, docs/README_Hybrid-EP.md: 16 H100, 4096 tokens, hidden 7168, 8 of 128
    # experts: 54 GB/s of the tokens for both nodes
    experts = Experts(128, 8, 128)
    model = build_model(SMALL.sizes._replace(layers=1, hidden=7168, experts=experts))
    asked = setup("fsdp2", model=model, mesh=Mesh(1, 16, ep=16), seq=4096, micro=1)
    (one,) = (t for t in list_traffic(asked._replace(fused_dispatch=True)) if t.of == "tokens")
    _, took = sum_loads(one, H100)
    assert max(took) / 4 == pytest.approx(2 * 4096 * 7168 * 2 / 54e9, rel=0.05)


def test_ranks_that_share_experts_gather_the_tokens_of_all_and_reduce_what_they_return() -> None:
    mesh = Mesh(1, 4, tp=2, ep=2)
    asked = setup("zero1", model=SPARSE, mesh=mesh, framework="megatron", sequence_parallel=True)
    shared, whole = sent(asked), sent(asked._replace(mesh=mesh._replace(etp=1)))
    tokens = 1 / 2 * 2 * (2 * 128) * 64 * 2  # of two ranks, copies for two experts each
    for what in ("all-gather of tokens", "reduce-scatter of tokens"):
        assert shared[what] == pytest.approx(2 * 4 * tokens)
        assert what not in whole


@pytest.mark.parametrize(("tp", "etp"), [(1, 0), (2, 0), (2, 1)])
def test_experts_that_gather_tokens_have_those_of_all_ranks_that_share_them(
    tp: int, etp: int
) -> None:
    mesh = Mesh(1, 8 // tp, tp=tp, ep=4 if etp else 4 // tp, etp=etp)
    asked = setup("zero1", model=SPARSE, mesh=mesh, framework="megatron", gathers_tokens=True)
    found = sent(asked._replace(sequence_parallel=True))
    own = 2 * 128 * 64 * 2 / tp  # bytes of the tokens of one rank, of four that share experts
    for what in ("all-gather of tokens", "reduce-scatter of tokens"):
        assert found[what] == pytest.approx(2 * 4 * 3 * own)
    assert "all-to-all of tokens" not in found


def test_megatrons_experts_take_tokens_as_sequence_parallel_divides_them() -> None:
    asked = setup("3d", mesh=Mesh(1, 1, tp=2), framework="megatron", sequence_parallel=True)
    dense = sent(asked)["all-gather of activations"]
    assert sent(asked._replace(model=SPARSE))["all-gather of activations"] == dense / 2


def test_the_first_unit_of_experts_is_that_of_the_ranks_that_share_them() -> None:
    asked = setup("fsdp2", model=SPARSE, mesh=Mesh(1, 8, ep=4))
    units = [one.first for one in list_traffic(asked) if one.of == "parameters"]
    experts = sum(t.count * n for t, n in SPARSE.list_tensors() if t.kind == "expert")
    largest = 2 * max(layer.count for layer in SPARSE.layers)
    parts = (SPARSE.count - experts, experts / 4)
    root = 2 * SPARSE.outside  # is gathered first, and has no experts
    shared = [
        pytest.approx(largest * part / SPARSE.count + more)
        for part, more in zip(parts, (root, 0), strict=True)
    ]
    assert units == shared


def test_nothing_is_computed_beside_fsdps_root() -> None:
    untied = build_model(SMALL.sizes._replace(tied=False))

    def firsts(strategy: str, *, split_root: bool = False) -> dict[str, float]:
        asked = setup(strategy, model=untied, mesh=Mesh(1, 8))._replace(split_root=split_root)
        return {one.of: one.first for one in list_traffic(asked)}

    largest, root = max(layer.count for layer in untied.layers), untied.outside
    for strategy in ("fsdp", "fsdp2"):
        assert firsts(strategy)["parameters"] == 2 * (largest + root)
    assert firsts("fsdp2")["gradients"] == firsts("fsdp2")["parameters"]
    assert firsts("fsdp2", split_root=True)["parameters"] == 2 * (largest + root / 2)
    assert firsts("zero3")["parameters"] == 2 * largest


def test_experts_are_reduced_among_those_that_hold_the_same() -> None:
    few = sum(t.count * n for t, n in SPARSE.list_tensors() if t.kind == "expert")
    asked = setup("3d", model=SPARSE, mesh=Mesh(8, 1, ep=4))
    dense = 2 * 7 / 8 * 2 * (SPARSE.count - few)
    assert sent(asked)["all-reduce of gradients"] == pytest.approx(dense + 2 / 2 * 2 * few / 4)


def test_adapters_alone_are_reduced() -> None:
    asked = setup("ddp", adapters=Adapters(8, ("q_proj",)))
    assert total(asked) == pytest.approx(2 * 7 / 8 * 2 * 4 * 8 * (64 + 64))


def test_both_links_of_a_wide_mesh_take_time() -> None:
    asked = setup("fsdp2", model=LLAMA, mesh=Mesh(2, 8, tp=2, cp=2), accumulation=2)
    found = list_volumes(asked, A100)
    assert {volume.link for volume in found} == {"node", "network"}
    assert all(volume.bytes > 0 and volume.seconds > 0 for volume in found)


@given(
    strategy=st.sampled_from(["ddp", "fsdp", "fsdp2", "fsdp-grad-op", "zero1", "zero2", "zero3"]),
    few=st.integers(1, 64),
    more=st.integers(1, 64),
    accumulation=st.integers(1, 4),
)
def test_more_ranks_never_send_less_in_all(
    strategy: str, few: int, more: int, accumulation: int
) -> None:
    sums = []
    for ranks in sorted((few, more)):
        mesh = Mesh(ranks, 1) if strategy == "ddp" else Mesh(1, ranks)
        sums.append(ranks * total(setup(strategy, mesh=mesh, accumulation=accumulation)))
    assert sums[0] <= sums[1] * (1 + 1e-12)


@given(nodes=st.integers(1, 32), inside=st.sampled_from([1, 2, 4, 8]))
def test_all_links_together_carry_what_a_ring_carries(nodes: int, inside: int) -> None:
    ranks = nodes * inside
    asked = setup("ddp", mesh=Mesh(ranks, 1), world_per_node=inside)
    assert total(asked) == pytest.approx(2 * (ranks - 1) / ranks * 2 * P)
    assert on("network", asked) == pytest.approx(2 * (nodes - 1) / nodes / inside * 2 * P)


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
    cp=st.sampled_from([1, 2]),
    shard=st.sampled_from([1, 2, 4]),
    replicate=st.sampled_from([1, 2]),
)
def test_bytes_are_never_negative_and_a_rank_alone_is_silent(
    tp: int, pp: int, cp: int, shard: int, replicate: int
) -> None:
    mesh = Mesh(replicate, shard, tp, pp, cp)
    found = list_volumes(setup("fsdp2", mesh=mesh, recipe=MIXED, micro=8), A100)
    assert all(volume.bytes > 0 for volume in found)
    assert bool(found) == (mesh.world > 1)


@pytest.mark.parametrize(
    ("framework", "when"), [("megatron-deepspeed", "update"), ("megatron", "last")]
)
def test_deepspeeds_pipeline_reduces_gradients_after_its_last_backward_pass(
    framework: str, when: str
) -> None:
    asked = setup("zero1", mesh=Mesh(1, 4, pp=2), framework=framework)
    reduced = [one.when for one in list_traffic(asked) if one.of == "gradients"]
    assert reduced == [when]


def test_fsdp1_keeps_its_root_gathered_once_beside_experts_too() -> None:
    asked = setup("fsdp", model=SPARSE, mesh=Mesh(1, 8))
    found = sent(asked)
    assert found["all-gather of parameters"] == pytest.approx(7 / 8 * 2 * SPARSE.count)
    again = 7 / 8 * 2 * (SPARSE.count - SPARSE.outside)
    assert found["all-gather of parameters again"] == pytest.approx(again)


def test_adapters_leave_no_gradients_of_the_root_to_reduce() -> None:
    asked = setup("fsdp", mesh=Mesh(1, 8), adapters=Adapters(8, ()))
    firsts = {one.of: one.first for one in list_traffic(asked)}
    assert firsts["parameters"] == 2 * (max(x.count for x in SMALL.layers) + SMALL.outside)
    assert 0 < firsts["gradients"] < 0.1 * firsts["parameters"]
