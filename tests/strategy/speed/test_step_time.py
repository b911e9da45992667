"""The time of a step: what makes it longer, and runs that others published."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data import gpus
from jobgen.strategy.estimate import ClusterHardware, StepTime
from jobgen.strategy.setup import Adapters, Recipe, Setup
from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Mesh, Offloaded
from jobgen.strategy.speed import list_volumes
from jobgen.strategy.speed.attention import compute_attention
from jobgen.strategy.speed.compute import compute_neighbors
from jobgen.strategy.speed.machine_model import build_machine
from jobgen.strategy.speed.rates import SLOWEST, get_matmul_rate, get_memory_rate
from jobgen.strategy.speed.step_time import compute_step
from tests.strategy.speed.setups import A100, AUTOCAST, H100, LLAMA, MIXED, setup

PURE = Recipe("pure", 2, 2, 0, 4)
SMALLER = build_model(Architecture("llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, tied=True))
MPT = build_model(
    Architecture(
        "mpt-7b", 32, 4096, 32, 32, 128, 16384, 50368, gated=False, tied=True, layer_norm=True
    )
)
BODY = build_model(Architecture("body", 32, 4096, 32, 8, 128, 14336, 1024))
LARGE = build_model(Architecture("llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256))


def llama(**keys: Any) -> Setup:
    base: dict[str, Any] = {"model": LLAMA, "seq": 4096, "micro": 1, "recipe": AUTOCAST}
    return setup(keys.pop("strategy", "fsdp2"), **(base | keys))


def exposed(found: StepTime) -> float:
    return sum(volume.exposed for volume in found.volumes)


@pytest.mark.parametrize(
    ("asked", "machine", "rate"),
    [
        # meta-pytorch/torchtune, README.md: one A100, compiled, packed to 4096
        (
            setup(
                model=SMALLER,
                mesh=Mesh(1, 1),
                seq=4096,
                recipe=PURE,
                compiled=True,
                world_per_node=1,
            ),
            A100,
            8998,
        ),
        # mosaicml/llm-foundry, scripts/train/benchmarking/README.md: 8 A100, 8 and 512 H100
        (
            setup("fsdp", model=MPT, seq=2048, micro=6, accumulation=2, recipe=AUTOCAST),
            A100,
            4641,
        ),
        (setup("fsdp", model=MPT, seq=2048, micro=6, recipe=AUTOCAST), H100, 10643),
        (
            setup("fsdp", model=MPT, seq=2048, micro=6, recipe=AUTOCAST, mesh=Mesh(1, 512)),
            H100,
            9670,
        ),
        # pytorch/torchtitan, docs/performance.md: 64 A100, everything recomputed
        (
            setup(
                "fsdp2",
                model=LARGE,
                seq=8192,
                micro=1,
                recipe=AUTOCAST,
                mesh=Mesh(1, 64),
                recompute="full",
            ),
            A100,
            331,
        ),
    ],
    ids=["torchtune-3b", "mpt-7b-a100", "mpt-7b-h100", "mpt-7b-h100x512", "titan-70b"],
)
def test_published_runs_are_met_within_fifteen_per_cent(
    asked: Setup, machine: ClusterHardware, rate: float
) -> None:
    assert compute_step(asked, machine).rate == pytest.approx(rate, rel=0.15)


def test_legacy_layers_of_megatron_take_longer_by_operations_and_attention() -> None:
    asked = llama(strategy="3d", mesh=Mesh(1, 1), framework="megatron", fused_norms=True)
    asked = asked._replace(fused_attention=True)
    legacy = asked._replace(legacy=True, fused_attention=False, repeat_kv=True)
    assert 1.02 < compute_step(legacy, A100).seconds / compute_step(asked, A100).seconds < 1.15
    attention = [compute_attention(one, H100).forward for one in (asked, legacy)]
    assert attention[1] == pytest.approx(attention[0] * 0.55 * 989 / 320, rel=0.03)


@pytest.mark.parametrize("framework", ["megatron", "torch"])
def test_dropout_takes_time(framework: str) -> None:
    plain = llama(strategy="ddp", framework=framework)
    dropped = compute_step(plain._replace(hidden_dropout=True), A100).compute
    assert 1.0 < dropped / compute_step(plain, A100).compute < 1.03


def test_what_a_step_takes_is_the_sum_of_its_parts() -> None:
    asked = llama(mesh=Mesh(2, 8, tp=2, pp=2), accumulation=4, strategy="fsdp2")
    found = compute_step(asked, A100)
    parts = found.compute + exposed(found) + found.bubble + found.update + found.offload
    assert found.seconds == pytest.approx(parts)
    assert found.work == 16 * 4 * 4096
    assert found.rate == pytest.approx(found.work / found.seconds / 64)
    assert 0 < found.efficiency < 1


def test_why_names_each_formula_that_was_used_and_its_source() -> None:
    plain = " ".join(compute_step(llama(mesh=Mesh(1, 1)), A100).why)
    assert f"{LLAMA.count:,} active parameters" in plain
    assert "230 TFLOP/s" in plain
    assert "all-gather" not in plain
    assert "bubble" not in plain
    wide = " ".join(compute_step(llama(mesh=Mesh(1, 16, pp=2)), A100).why)
    assert all(word in wide for word in ("all-gather: ", "send: ", "2104.04473", "each NIC"))


def test_model_flops_are_six_for_each_parameter_and_token_and_attention() -> None:
    found = compute_step(llama(), A100)
    attention = 12 * 32 * 4096 * 4096
    assert found.flops == pytest.approx(4096 * (6 * LLAMA.count + attention))
    frozen = compute_step(llama(adapters=Adapters(8, ())), A100)
    assert frozen.flops == pytest.approx(4096 * (4 * LLAMA.count + attention))


def test_recomputing_all_costs_one_forward_pass_more() -> None:
    plain, again = (
        compute_step(llama(), A100).compute,
        compute_step(llama(recompute="full", reentrant=True), A100).compute,
    )
    some = compute_step(llama(recompute="selective"), A100).compute
    assert plain < some < again
    assert again / plain == pytest.approx(4 / 3, rel=0.05)


def test_the_bubble_is_what_other_stages_wait_for() -> None:
    def bubble(**keys: Any) -> float:
        asked = llama(strategy="3d", mesh=Mesh(1, 1, pp=4), model=BODY, **keys)
        found = compute_step(asked, H100)
        return found.bubble / found.compute

    assert bubble(accumulation=8) == pytest.approx(3 / 8, rel=0.03)
    assert bubble(accumulation=8, chunks=4) == pytest.approx(3 / 8 / 4, rel=0.03)


def test_stages_with_less_to_do_than_the_last_are_waited_for_less() -> None:
    # the output layer takes as long as some layers, and only the last stage has it
    asked = llama(strategy="3d", mesh=Mesh(1, 1, pp=4), accumulation=8)
    found = compute_step(asked, H100)
    assert found.bubble < 0.9 * 3 / 8 * found.compute
    # a micro-batch passes all stages once, as it passes the whole model; others wait for slow GPUs
    whole = SLOWEST * compute_step(asked._replace(mesh=Mesh(1, 1)), H100).compute / 8
    assert found.bubble + found.compute / 8 == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize("strategy", ["3d", "zero1"])
def test_what_is_not_reduced_beside_the_backward_pass_is_waited_for(strategy: str) -> None:
    mesh = Mesh(8, 1) if strategy == "3d" else Mesh(1, 8)
    asked = llama(strategy=strategy, framework="megatron", mesh=mesh)
    late = asked._replace(overlap_reduce=False, overlap_gather=False)
    found = compute_step(late, A100)
    assert exposed(found) == pytest.approx(sum(v.seconds for v in found.volumes))
    assert exposed(compute_step(asked, A100)) < 0.5 * exposed(found)


def test_tp_is_exposed_unless_it_is_made_to_overlap() -> None:
    asked = llama(strategy="3d", mesh=Mesh(1, 1, tp=2), micro=2, sequence_parallel=True)
    plain, hidden = compute_step(asked, H100), compute_step(asked._replace(overlap_tp=True), H100)
    assert exposed(plain) == pytest.approx(sum(v.seconds for v in plain.volumes))
    assert exposed(hidden) < 0.1 * exposed(plain)
    assert hidden.seconds < plain.seconds


def test_a_slow_network_shows_through_and_a_fast_one_does_not() -> None:
    asked = llama(mesh=Mesh(1, 32), micro=2)
    fast, slow = compute_step(asked, A100), compute_step(asked, A100._replace(network=1e9))
    assert exposed(fast) < 0.05 * fast.seconds
    assert exposed(slow) > 0.5 * slow.seconds
    assert {v.link for v in slow.volumes if v.exposed} == {"network"}


def test_ddp_waits_for_its_last_bucket_at_least() -> None:
    found = compute_step(setup("ddp", model=SMALLER, seq=4096), A100)
    assert 0 < exposed(found) < found.volumes[0].seconds


def test_fp8_is_faster_where_there_are_units_for_it() -> None:
    narrow = llama(recipe=AUTOCAST._replace(name="autocast, fp8"), compiled=True)
    wide = llama(compiled=True)
    assert 1.2 < compute_step(wide, H100).seconds / compute_step(narrow, H100).seconds < 2
    assert compute_step(narrow, A100).seconds >= compute_step(wide, A100).seconds


def test_fp32_does_without_tensor_cores() -> None:
    fp32 = Recipe("fp32", 4, 4, 0, 8, compute=4, reduce=4)
    assert compute_step(llama(recipe=fp32), A100).compute > 8 * compute_step(llama(), A100).compute


def test_tf32_takes_tensor_cores_at_half_their_rate_where_there_are_any() -> None:
    fp32 = llama(recipe=Recipe("fp32", 4, 4, 0, 8, compute=4, reduce=4))
    wide = compute_step(fp32._replace(tf32=True), A100).compute
    assert 1.7 < wide / compute_step(llama(), A100).compute < 2.2
    volta = A100._replace(architecture="Volta", gpu="V100-SXM2-32GB")
    for asked in (fp32, fp32._replace(flash=False)):
        plain, rounded = (compute_step(asked._replace(tf32=on), volta) for on in (False, True))
        assert plain.compute == pytest.approx(rounded.compute, rel=0.2)


def test_attention_of_fp32_is_no_faster_than_its_products() -> None:
    fp32 = llama(recipe=Recipe("fp32", 4, 4, 0, 8, compute=4, reduce=4))
    narrow, wide = (compute_attention(one, A100).forward for one in (llama(), fp32))
    assert wide > 5 * narrow


def test_torch_compile_leaves_complex_rotation_and_an_eager_loss_alone() -> None:
    def compute(**keys: Any) -> float:
        return compute_step(llama(compiled=True, **keys), A100).compute

    assert compute(framework="torchtitan") > 1.01 * compute()
    assert compute(loss="plain") > compute(loss="compiled")
    assert compute(repeat_kv=True) > compute()


def test_compiling_is_never_slower() -> None:
    assert compute_step(llama(compiled=True), A100).compute < compute_step(llama(), A100).compute


def test_offload_to_the_cpu_takes_the_time_of_cpu_adam() -> None:
    # 4.6 s for Llama-2-7B (deepspeedai/DeepSpeed, blogs/deepspeed-zenflow, figure 3)
    asked = llama(strategy="zero2", framework="deepspeed", offload=Offloaded(optimizer=True))
    found = compute_step(asked, A100)
    assert found.update == pytest.approx(LLAMA.count * 4.6 / 6.74e9, rel=0.02)
    assert found.offload > 0
    assert compute_step(
        asked._replace(offload=Offloaded(optimizer=True, to="nvme")), A100
    ).offload > (found.offload)


def test_heads_that_tensor_cores_cannot_read_are_slow_without_flash() -> None:
    def attention(heads: int, width: int) -> float:
        sizes = Architecture("odd", 4, heads * width, heads, heads, width, 4096, 1000, gated=False)
        return compute_step(
            llama(model=build_model(sizes), flash=False, recipe=MIXED), A100
        ).compute

    assert attention(32, 150) > 1.2 * attention(32, 152)


def test_small_batches_of_small_models_wait_for_python() -> None:
    tiny = setup(seq=128, micro=1)
    assert compute_step(tiny, A100).compute == pytest.approx(compute_step(tiny, H100).compute)


def test_small_batches_wait_for_zero3s_hooks_and_large_ones_do_not() -> None:
    def slower(seq: int) -> float:
        found = [
            compute_step(llama(strategy=name, seq=seq, mesh=Mesh(1, 8)), A100).compute
            for name in ("zero2", "zero3")
        ]
        return found[1] / found[0]

    assert slower(128) > 2
    assert slower(8192) < 1.1


def test_pefts_adapters_cast_their_input_and_megatrons_do_not() -> None:
    def cast(framework: str, width: int) -> float:
        adapters = Adapters(8, (), width=width)
        found = compute_step(llama(adapters=adapters, framework=framework), A100)
        return found.compute

    assert cast("transformers", 4) > 1.03 * cast("transformers", 2)
    assert cast("megatron", 4) == cast("megatron", 2)


@given(
    micro=st.integers(1, 8),
    accumulation=st.integers(1, 8),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
    shard=st.sampled_from([1, 8, 32]),
    recompute=st.sampled_from(["none", "selective", "full"]),
)
def test_time_is_positive_and_a_better_machine_never_slower(
    micro: int, accumulation: int, tp: int, pp: int, shard: int, recompute: str
) -> None:
    asked = llama(
        mesh=Mesh(1, shard, tp, pp), micro=micro, accumulation=accumulation, recompute=recompute
    )
    found = compute_step(asked, A100)
    assert found.seconds > 0
    assert all(0 <= v.exposed <= v.seconds * (1 + 1e-9) for v in found.volumes)
    faster = A100._replace(peak=400e12, bandwidth=3e12, link=400e9, network=50e9)
    assert compute_step(asked, faster).seconds <= found.seconds
    assert compute_step(asked._replace(batch=asked.batch._replace(micro=2 * micro)), A100).rate > (
        found.rate * (1 - 1e-9)
    )


def test_what_tp_sends_lies_beside_the_product_next_to_it_only() -> None:
    asked = llama(strategy="3d", mesh=Mesh(1, 1, tp=8), micro=2, sequence_parallel=True)
    apart, hidden = (
        exposed(compute_step(asked._replace(overlap_tp=beside), H100)) for beside in (False, True)
    )
    # on eight ranks products of attention take less time than what is sent; all computing, more
    assert 0.1 * apart < hidden < 0.5 * apart < compute_step(asked, H100).compute
    gathers, reduces, recomputed = compute_neighbors(asked, H100)
    assert gathers.mlp == pytest.approx(2 * reduces.mlp, rel=0.2)
    assert gathers.mlp > 3 * gathers.attention > 3 * reduces.attention
    # of queries, keys and values the second, of gate and up the last of two
    assert recomputed.attention < gathers.attention / 2
    assert recomputed.mlp == pytest.approx(gathers.mlp / 2)


def test_gradients_of_inputs_stay_exposed_in_torchs_asynchronous_tp() -> None:
    asked = llama(strategy="3d", mesh=Mesh(1, 1, tp=8), micro=2, sequence_parallel=True)
    titan = asked._replace(framework="torchtitan", overlap_tp=True, compiled=True)
    *_, last = (v for v in compute_step(titan, H100).volumes if v.what.startswith("reduce-scatter"))
    assert last.exposed == last.seconds
    one, rows = (
        compute_step(titan._replace(recipe=AUTOCAST._replace(name=name)), H100)
        for name in ("autocast, fp8", "autocast, fp8 rowwise")
    )
    gathered = [sum(v.exposed for v in each.volumes if "gather" in v.what) for each in (one, rows)]
    assert gathered[1] > 3 * gathered[0]


def test_what_peft_prepared_is_cast_around_every_quantized_product() -> None:
    def time(*, prepared: bool, bits: int = 4) -> float:
        adapters = Adapters(8, ("q_proj",), bits, prepared=prepared)
        return compute_step(llama(strategy="ddp", adapters=adapters), A100).compute

    cast = time(prepared=True) - time(prepared=False)
    # forward and backward, 6 bytes of each input and result; and a wider stream
    widths = 2 * 4096 + 2 * (4096 + 1024) + 2 * 4096 + 3 * (4096 + 14336)
    tokens = llama().tokens
    assert cast > SLOWEST * 2 * 6 * tokens * widths * 32 / get_memory_rate(A100)
    assert cast < 0.3 * time(prepared=False)


def test_a_scale_for_each_row_takes_longer_than_one_for_all() -> None:
    def time(name: str) -> float:
        recipe = AUTOCAST._replace(name=name)
        return compute_step(llama(recipe=recipe, compiled=True), H100).compute

    one = time("autocast, fp8")
    assert 1.03 * one < time("autocast, fp8 rowwise") < 1.2 * one
    assert time("autocast rowwise") == time("autocast") > one


def test_attention_of_an_mi300x_takes_the_shares_of_a_step_that_a_profile_has() -> None:
    # ROCm/rocm-blogs, primus-deep-dive: 7.48 % forward and 19.47 % backward, beside 67.43 % of
    # products, of Llama 3.1 70B where the forward pass is computed twice
    machine = build_machine(gpus()["MI300X-192GB"], 8, 50e9, "infiniband")
    asked = llama(model=LARGE, seq=8192, micro=3, framework="torchtitan")
    ahead, back = compute_attention(asked, machine)
    products = 8 * LARGE.layers[0].count * asked.tokens / get_matmul_rate(machine)
    assert back / (2 * ahead) == pytest.approx(19.47 / 7.48, rel=0.02)
    assert back / products == pytest.approx(19.47 / 67.43, rel=0.03)


def test_attention_of_transformer_engine_is_composable_kernels_on_rocm() -> None:
    machine = build_machine(gpus()["MI300X-192GB"], 8, 50e9, "infiniband")
    torch, engine = (
        sum(compute_attention(llama(fused_attention=fused), machine)) for fused in (False, True)
    )
    assert 0.4 * torch < engine < 0.6 * torch


def test_attention_of_packed_samples_stays_within_each() -> None:
    whole = llama(flash=True)
    packed = whole._replace(document=whole.seq // 8)
    ahead, back = compute_attention(whole, A100)
    assert compute_attention(packed, A100) == pytest.approx((ahead / 8, back / 8))
    scores = [compute_attention(one._replace(flash=False), A100) for one in (whole, packed)]
    assert scores[0] == scores[1]


def test_the_network_goes_on_while_layers_wait_for_links_inside_of_nodes() -> None:
    asked = llama(mesh=Mesh(1, 4, tp=8), framework="torchtitan", sequence_parallel=True, micro=16)
    slow = H100._replace(network=5e8)

    def hide(link: float) -> float:
        volumes = compute_step(asked, slow._replace(link=link)).volumes
        return sum(v.seconds - v.exposed for v in volumes if v.link == "network")

    def wait(link: float) -> float:
        volumes = compute_step(asked, slow._replace(link=link)).volumes
        return sum(v.exposed for v in volumes if v.link == "node" and "activations" in v.what)

    near, far = 450e9, 100e9
    assert hide(far) - hide(near) == pytest.approx(wait(far) - wait(near), rel=0.01)


def test_tokens_lie_beside_one_block_of_another_micro_batch_and_no_more() -> None:
    shape = BODY.sizes._replace(ffn=0, experts=Experts(8, 2, 1024))
    keys: dict[str, Any] = {"mesh": Mesh(1, 16, ep=8), "micro": 4, "accumulation": 16}
    keys |= {"framework": "megatron", "overlap_experts": True, "world_per_node": 2}
    asked = llama(strategy="zero1", model=build_model(shape), **keys)

    def wait(asked: Setup, network: float) -> float:
        volumes = compute_step(asked, H100._replace(network=network)).volumes
        return sum(v.exposed for v in volumes if "tokens" in v.what)

    def send(network: float) -> float:
        volumes = list_volumes(asked, H100._replace(network=network))
        return sum(v.seconds for v in volumes if "tokens" in v.what and v.link == "network")

    # longer than any block: what more it takes is waited for
    assert wait(asked, 5e9) - wait(asked, 1e10) == pytest.approx(send(5e9) - send(1e10))
    # shorter than any block: only the first and the last micro-batch wait
    assert wait(asked, 1e12) == pytest.approx(
        wait(asked._replace(overlap_experts=False), 1e12) / 16
    )
    # longer than one block and shorter than another: part of it, though all blocks have room for it
    assert send(5e10) < compute_step(asked, H100._replace(network=5e10)).compute
    assert wait(asked, 5e10) > 2 * send(5e10) / 16


def test_a_step_that_waits_for_the_network_takes_as_long_as_that_and_no_longer() -> None:
    # computing that is slowed down by what is sent leaves more time to send it
    asked = llama(mesh=Mesh(1, 32), micro=4)
    took = {
        network: compute_step(asked, H100._replace(network=network)).seconds
        for network in (1e9, 5e8)
    }
    sent = [
        sum(v.seconds for v in list_volumes(asked, H100._replace(network=network)))
        for network in took
    ]
    assert took[5e8] - took[1e9] == pytest.approx(sent[1] - sent[0], rel=0.02)


def test_what_torch_gathers_for_cp_lies_beside_its_first_step_only() -> None:
    asked = llama(
        strategy="3d", mesh=Mesh(1, 1, tp=8, cp=8), seq=65536, micro=1, framework="torchtitan"
    )
    gathered = (v for v in compute_step(asked, H100).volumes if v.what.startswith("all-gather"))
    slow = next(v for v in gathered if "keys" in v.what)
    assert 0.3 * slow.seconds < slow.exposed < slow.seconds
    compiled = compute_step(asked._replace(compiled=True), H100).volumes
    assert all(v.exposed == v.seconds for v in compiled if "keys" in v.what)
    ring = compute_step(asked._replace(framework="megatron"), H100)
    assert all(v.exposed == 0 for v in ring.volumes if "keys" in v.what)


def test_checkpoints_move_to_the_host_beside_computing_in_torchtune_only() -> None:
    asked = llama(recompute="full", offload_activations=True)
    moved = 2 * asked.tokens * 4096 * 32 * 2 / A100.host
    assert compute_step(asked, A100).offload == pytest.approx(moved)
    assert compute_step(asked._replace(framework="torchtune"), A100).offload == 0


def test_fsdp_casts_its_parameters_whenever_it_gathers_them() -> None:
    def update(*, reshard: bool) -> float:
        asked = llama(strategy="fsdp2", mesh=Mesh(1, 8), recipe=AUTOCAST)
        return compute_step(asked._replace(reshard=reshard), H100).update

    cast = llama().model.count / 8 * (4 + 2) / get_memory_rate(H100)
    assert update(reshard=True) - update(reshard=False) == pytest.approx(cast)


def test_every_second_layer_is_computed_again_in_half_the_time() -> None:
    def time(recompute: str, every: int = 1) -> float:
        asked = llama(strategy="fsdp2", recompute=recompute)
        return compute_step(asked._replace(recompute_every=every), H100).compute

    none, full = time("none"), time("full")
    assert time("full", 2) == pytest.approx((none + full) / 2)
