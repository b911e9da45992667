"""What frameworks keep beyond states and activations, against torch and Megatron-LM."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jobgen.strategy.choice.setups import choose_channels
from jobgen.strategy.estimate import GIB
from jobgen.strategy.memory import count_in_flight, estimate, list_moments
from jobgen.strategy.memory.activations import compute_kept
from jobgen.strategy.memory.layer import keep_score
from jobgen.strategy.memory.memory_states import (
    count_trained,
    count_whole_grads,
    divide_states,
    list_stages,
)
from jobgen.strategy.memory.outside import CHANNEL, compute_context
from jobgen.strategy.memory.recipes import RECIPES, get_recipe
from jobgen.strategy.memory.transient import compute_transient
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Batch, Mesh, Offloaded
from tests.waiting import HANG

SHAPE = Architecture("small", 8, 1024, 8, 8, 128, 4096, 32000)
FSDP = Setup(
    build_model(SHAPE), "fsdp", Mesh(1, 4), Batch(2, 8, 4), 4096, RECIPES["autocast"], "full"
)
LORA = FSDP._replace(adapters=Adapters(8, ()), recipe=RECIPES["pure"])


@cache
def run(name: str) -> list[dict[str, Any]]:
    """What a script of this folder says of each case."""
    script = Path(__file__).with_name(name)
    ran = subprocess.run(
        [sys.executable, str(script)], check=True, capture_output=True, text=True, timeout=HANG
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def activations(setup: Setup) -> float:
    """Bytes of activations when the first layer goes backward."""
    from jobgen.strategy.memory import _moments

    return [parts.activations for parts in _moments(setup, list_stages(setup)[0])][2]


@pytest.mark.train("torch")
def test_fsdp1_keeps_frozen_reentrant_inputs_until_the_end() -> None:
    kinds = {"fsdp1": "fsdp", "fsdp2": "fsdp2"}
    cases = [case for case in run("kept_by_fsdp.py") if "reentrant" in case]
    assert len(cases) == 8
    for case in cases:
        setup = (LORA if case["frozen"] else FSDP)._replace(
            strategy=kinds[case["kind"]], reentrant=case["reentrant"]
        )
        every = activations(setup) > 1.5 * 8 * compute_kept(setup).layer  # inputs and gradients
        assert every == (case["alive"] == 8), case


@pytest.mark.train("torch")
def test_fsdp1_lets_go_of_inputs_where_checkpoints_lie_inside_its_units() -> None:
    cases = [case for case in run("kept_by_fsdp.py") if "inside" in case]
    assert len(cases) == 2
    for case in cases:
        setup = (LORA if case["frozen"] else FSDP)._replace(reentrant=True, checkpoints_inside=True)
        assert case["alive"] <= 1, case
        assert activations(setup) == compute_kept(setup).layer, case


@pytest.mark.train("torch")
def test_no_sync_keeps_whole_gradients_in_the_type_that_torch_does() -> None:
    kinds = {"fsdp1": "fsdp", "fsdp2": "fsdp2"}
    cases = [case for case in run("kept_by_fsdp.py") if "bytes" in case]
    assert len(cases) == 4
    for case in cases:
        setup = FSDP._replace(
            strategy=kinds[case["kind"]],
            recipe=RECIPES["autocast" if case["narrow"] else "fp32"],
            unsynced=True,
        )
        stage = list_stages(setup)[0]
        each = count_whole_grads(setup, stage) / stage.params
        assert each == case["bytes"] / case["elements"], case


@pytest.mark.train("torch")
def test_fsdp1_joins_the_gradients_of_a_unit_beside_the_whole_ones_that_no_sync_keeps() -> None:
    frozen, every = (case for case in run("kept_by_fsdp.py") if "joined" in case)
    for case in (frozen, every):
        layers = [joined for joined in case["joined"] if joined[1] == case["unit"]]
        assert layers == [[case["unit"], case["unit"]]] * 8
    (root,) = every["joined"][8:]
    padded = -(-every["root"] // 4) * 4  # on 4 ranks
    assert root == [padded, padded], "joined when all layers have gone backward"
    setup = FSDP._replace(unsynced=True, loss="held")
    (stage,) = list_stages(setup)
    added = list_moments(setup)[-3:-1]
    whole = count_whole_grads(setup, stage)
    assert [(parts.moment, parts.grads) for _, parts in added] == [("backward", whole)] * 2
    unit, outside = (setup.recipe.compute * part for part in (stage.largest, stage.outside))
    assert [parts.buckets for _, parts in added] == [unit, outside]
    held = compute_kept(setup).held
    assert held == 4 * setup.tokens * SHAPE.vocab
    assert added[1][1].temporary == held + outside
    # the first of two micro-batches adds to nothing
    two = list_moments(setup._replace(batch=Batch(2, 2, 4)))[-3:-1]
    assert [parts.buckets for _, parts in two] == [0, 0]
    assert len(list_moments(setup)) == len(list_moments(setup._replace(strategy="fsdp2"))) + 2


@pytest.mark.train("torch")
def test_frozen_weights_in_the_flat_parameter_of_an_adapter_have_gradients_too() -> None:
    frozen, _ = (case for case in run("kept_by_fsdp.py") if "joined" in case)
    assert frozen["computed"]
    assert frozen["held"] == 8 * frozen["unit"] * 4, "of layers, and not of a root that is frozen"
    flat = LORA._replace(adapters=Adapters(8, (), dropout=False, width=2, flattened=True))
    (stage,) = list_stages(flat)
    trained, _ = count_trained(flat, stage)
    unsynced = flat._replace(unsynced=True)
    assert count_whole_grads(unsynced, stage) == 2 * (stage.inside + trained)
    assert divide_states(flat, stage).grads == pytest.approx(2 * (stage.inside + trained) / 4)
    # so that all keep their inputs, as where all is trained
    once = flat._replace(recompute="none")
    assert compute_kept(once).layer == compute_kept(once._replace(adapters=None)).layer
    assert estimate(unsynced).nvidia_smi > estimate(LORA).nvidia_smi + 2 * stage.inside


def test_of_micro_batches_that_are_shorter_than_the_first_gradients_alone_are_counted() -> None:
    setup = FSDP._replace(unsynced=True, longest_first=True)
    (stage,) = list_stages(setup)
    whole = count_whole_grads(setup, stage)
    forward, begun, *ended = (parts for _, parts in list_moments(setup))
    assert (forward.grads, begun.grads) == (0, 0)
    first, last, *added, step = ended
    assert first.grads == last.grads == whole
    assert [(parts.grads, parts.activations) for parts in added] == [(whole, 0)] * 2
    assert step.grads < whole


@pytest.mark.train("torch")
def test_a_softcap_in_single_operations_keeps_its_output() -> None:
    (case,) = run("kept_by_softcap.py")
    capped = build_model(SHAPE._replace(softcap=True))
    setup = LORA._replace(model=capped, flash=False, recompute="none", loss="held-chunks")
    assert keep_score(setup) == case["score"]
    plain = setup._replace(model=LORA.model)
    more = compute_kept(setup).logits - compute_kept(plain).logits
    assert more == case["logit"] * setup.tokens * SHAPE.vocab


def test_accumulation_needs_more_only_where_gradients_stay_whole() -> None:
    once = FSDP._replace(batch=Batch(2, 1, 4))
    assert estimate(FSDP._replace(unsynced=True)).nvidia_smi > estimate(FSDP).nvidia_smi
    assert estimate(once._replace(unsynced=True)) == estimate(once)


def test_gradients_in_a_pool_are_reserved_and_not_allocated() -> None:
    # with no gradients yet, eight micro-batches hold a shard of them that one does not
    plain = FSDP._replace(recompute="none")
    once = plain._replace(batch=Batch(2, 1, 4))
    several, one = estimate(plain), estimate(once)
    grads = next(part.bytes for part in several.components if part.name == "grads")
    assert grads > 0
    assert several.get_peak("allocated") - one.get_peak("allocated") == pytest.approx(grads)
    assert several.get_peak("reserved") - one.get_peak("reserved") < grads / 2


@pytest.mark.train("torch", "megatron")
def test_megatrons_cross_entropy_works_in_the_memory_of_its_fp32_copy() -> None:
    setup = FSDP._replace(framework="megatron", loss="in-place")
    each = run("kept_by_megatron.py")[0]["bytes"]
    assert compute_kept(setup).logits == each * setup.tokens * SHAPE.vocab


@pytest.mark.train("torch", "megatron")
def test_megatrons_gated_activation_keeps_its_input_only() -> None:
    each = run("kept_by_megatron.py")[1]["kept"]  # beside what the next layer keeps of its input
    eager = FSDP._replace(recompute="none", recipe=RECIPES["main-grads"])
    less = compute_kept(eager).layer - compute_kept(eager._replace(fused_activation=True)).layer
    assert less == (3 - each) * 2 * SHAPE.ffn * eager.tokens


def test_a_norm_that_is_one_kernel_keeps_its_input_and_no_copy_in_fp32() -> None:
    eager = FSDP._replace(recompute="none", recipe=RECIPES["main-grads"])
    less = compute_kept(eager).layer - compute_kept(eager._replace(fused_norms=True)).layer
    assert less == 2 * 4 * SHAPE.hidden * eager.tokens


SPARSE = build_model(SHAPE._replace(experts=Experts(8, 2, 4096)))
MEGATRON = FSDP._replace(
    model=SPARSE, strategy="zero1", framework="megatron", recipe=RECIPES["main-grads"]
)


@pytest.mark.parametrize("strategy", ["zero1", "fsdp2"])
def test_ranks_that_share_experts_do_not_divide_their_states_once_more(strategy: str) -> None:
    whole, split = (
        divide_states(setup, list_stages(setup)[0])
        for ep in (1, 8)
        for setup in [MEGATRON._replace(strategy=strategy, mesh=Mesh(1, 8, ep=ep))]
    )
    assert split.moments == pytest.approx(whole.moments)
    assert split.master == pytest.approx(whole.master)
    experts = SPARSE.count_kinds("expert") * 2
    fewer = {"zero1": experts * 7 / 8, "fsdp2": 0}[strategy]  # FSDP had divided them already
    assert whole.params - split.params == pytest.approx(fewer)


def test_all_ranks_together_hold_one_copy_of_the_optimizers_state() -> None:
    """Megatron-LM divides that of an expert over the ranks that hold this expert."""
    for mesh in (
        Mesh(1, 8),
        Mesh(1, 4, cp=2, ep=8),
        Mesh(1, 4, tp=2, ep=4),
        Mesh(1, 4, tp=2, ep=8, etp=1),
        Mesh(1, 1, tp=8, ep=4, etp=2),
    ):
        setup = MEGATRON._replace(mesh=mesh)
        states = divide_states(setup, list_stages(setup)[0])
        assert mesh.world * states.moments == pytest.approx(8 * SPARSE.count), mesh


def test_each_rank_holds_its_part_of_the_experts() -> None:
    for mesh, parts in ((Mesh(1, 4, 4, ep=4), 16), (Mesh(1, 1, 4, ep=4, etp=1), 4)):
        stage = list_stages(MEGATRON._replace(mesh=mesh))[0]
        assert stage.experts == SPARSE.count_kinds("expert") / parts


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_an_optimizer_on_the_cpu_makes_no_fp32_gradients_on_the_gpu(strategy: str) -> None:
    setup = FSDP._replace(
        strategy=strategy, framework="deepspeed", recipe=RECIPES["mixed"], mesh=Mesh(1, 2)
    )
    stage = list_stages(setup)[0]
    gathered = {"zero2": 2.0 * stage.params, "zero3": 0.0}[strategy]
    here = compute_transient(setup, stage).step
    away = compute_transient(setup._replace(offload=Offloaded(optimizer=True)), stage).step
    assert away == gathered < here


def test_autocast_copies_adapters_and_no_frozen_weight() -> None:
    """What is frozen has 16 bits or fewer; a head that peft has prepared is fp32."""
    plain = LORA._replace(strategy="ddp", mesh=Mesh(1, 1), recipe=RECIPES["autocast"])
    stage = list_stages(plain)[0]
    trained, _ = count_trained(plain, stage)
    assert compute_transient(plain, stage).forward == 2 * trained
    assert plain.adapters is not None
    prepared = plain._replace(adapters=plain.adapters._replace(prepared=True))
    head = SHAPE.vocab * SHAPE.hidden
    assert compute_transient(prepared, stage).forward == 2 * (trained + head)
    pure = plain._replace(recipe=RECIPES["pure"])
    assert compute_kept(plain).layer == pytest.approx(compute_kept(pure).layer, rel=0.01)


@pytest.mark.train("torch", "megatron")
def test_interleaved_stages_hold_as_many_micro_batches_as_megatron_warms_up() -> None:
    for case in run("kept_by_megatron.py")[2:]:
        setup = FSDP._replace(
            strategy="3d",
            mesh=Mesh(1, 1, pp=case["stages"]),
            batch=Batch(1, 64, 1),
            chunks=case["chunks"],
        )
        for stage, warm in zip(list_stages(setup), case["warm"], strict=True):
            assert count_in_flight(setup, stage) == (warm + 1) / case["chunks"], case


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_deepspeed_allocates_its_bucket_however_little_is_trained(strategy: str) -> None:
    setup = LORA._replace(strategy=strategy, framework="deepspeed", reduce_bucket=200_000_000)
    stage = list_stages(setup)[0]
    buffers = 2 if strategy == "zero2" else 1  # overlap_comm has two
    assert compute_transient(setup, stage).buckets == buffers * 200_000_000 * 2


def test_activations_take_over_what_fsdp2_reduced_but_not_what_fsdp1_did() -> None:
    stage = list_stages(FSDP)[0]
    first, second = (
        compute_transient(FSDP._replace(strategy=name), stage) for name in ("fsdp", "fsdp2")
    )
    assert first.reduced == second.reduced > 0
    assert (first.buckets, second.buckets) == (first.reduced, 0)
    assert first.first_inputs == 0 < second.first_inputs


@pytest.mark.train("torch")
def test_fsdp2_reduces_one_root_last_and_an_output_layer_of_its_own_first() -> None:
    one, two = (case for case in run("kept_by_fsdp.py") if "apart" in case)
    layer = one["reduced"][0]
    assert one["reduced"] == [layer] * 8 + [one["reduced"][-1]]
    assert one["reduced"][-1] >= one["embed"] + one["head"]
    assert two["reduced"][1:-1] == [layer] * 8
    assert two["head"] <= two["reduced"][0] < two["embed"] + two["head"]
    whole = FSDP._replace(strategy="fsdp2", recompute="none")
    stage = list_stages(whole)[0]
    apart = compute_transient(whole._replace(split_root=True), stage)
    both = compute_transient(whole, stage)
    assert both.first_inputs == 4 * stage.largest
    assert apart.first_inputs == 4 * max(stage.largest, stage.outside / 2)
    assert apart.inputs <= both.inputs
    assert both.forward - apart.forward == pytest.approx(2 * stage.outside / 2)


def test_the_output_layers_gradient_comes_after_the_loss_unless_both_are_fused() -> None:
    stage = list_stages(FSDP)[0]
    plain, fused = (
        compute_transient(FSDP._replace(loss=loss), stage) for loss in ("plain", "fused")
    )
    assert plain.returning == fused.returning == fused.forward > plain.forward


def test_an_fp32_copy_of_shards_steps_with_fp32_gradients() -> None:
    setup = FSDP._replace(recipe=RECIPES["mixed"])
    stage = list_stages(setup)[0]
    own, none = (compute_transient(each, stage).step for each in (setup, FSDP))
    assert own - none == 4 * stage.params / 4


def test_expandable_segments_leave_less_unused() -> None:
    plain, expandable = (
        estimate(FSDP._replace(expandable=each)).get_peak("reserved") for each in (False, True)
    )
    assert 0.92 < expandable / plain < 0.95


def test_a_loop_that_holds_its_logits_has_them_in_fp32_beside_the_loss_and_all_layers() -> None:
    held, plain = (compute_kept(FSDP._replace(loss=loss)) for loss in ("held", "plain"))
    logits = 4 * FSDP.tokens * SHAPE.vocab
    for part in ("logits", "working", "ending"):
        assert getattr(held, part) - getattr(plain, part) == pytest.approx(logits), part


def test_what_is_not_sharded_steps_over_what_is_trained() -> None:
    setup = LORA._replace(strategy="fsdp-no-shard", mesh=Mesh(4, 1), fused_step=False)
    whole = setup._replace(adapters=None)
    stage = list_stages(setup)[0]
    small, large = (compute_transient(each, stage).step for each in (setup, whole))
    assert small < large / 10


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2"])
def test_the_root_is_reduced_when_the_first_layer_has_gone_backward(strategy: str) -> None:
    wide = FSDP._replace(model=build_model(SHAPE._replace(vocab=500_000)), strategy=strategy)
    stage = list_stages(wide)[0]
    layer, root = [parts for _, parts in list_moments(wide) if parts.moment == "backward"][-2:]
    assert layer.temporary > 0 == root.temporary
    reduced = wide.recipe.reduce
    assert layer.buckets == reduced * stage.largest
    assert root.buckets == reduced * stage.outside
    assert root.gathered == 2 * wide.recipe.compute * stage.outside  # and its gradients


def test_weights_that_are_gathered_in_float8_take_half_and_their_copies_as_much_again() -> None:
    wide = FSDP._replace(strategy="fsdp-grad-op")
    narrow = wide._replace(narrow_gather=True)
    stage = list_stages(wide)[0]
    plain, half = (compute_transient(setup, stage).forward for setup in (wide, narrow))
    assert plain - half == stage.inside
    assert compute_transient(narrow._replace(narrow_copies=True), stage).forward == plain


def test_an_optimizer_in_8_bits_steps_parameter_by_parameter() -> None:
    setup = FSDP._replace(recipe=get_recipe("pure", "adamw8bit"), fused_step=False)
    stage = list_stages(setup)[0]
    assert compute_transient(setup, stage).step == 0
    assert compute_transient(setup._replace(recipe=RECIPES["pure"]), stage).step > 0


def test_a_loop_that_holds_keys_and_values_has_those_of_two_steps_at_the_loss() -> None:
    plain = FSDP._replace(recompute="full")
    sizes = plain.model.sizes
    cache = 2 * 2 * sizes.kv_heads * sizes.head_dim * sizes.layers * plain.tokens
    pairs = zip(list_moments(plain), list_moments(plain._replace(keeps_cache=True)), strict=True)
    more = {(b.moment, b.activations - a.activations) for (_, a), (_, b) in pairs}
    assert more == {("forward", 2 * cache), ("backward", cache), ("step", 0)}


@pytest.mark.train("torch")
def test_inputs_in_a_graphs_attributes_are_there_as_often_as_counted() -> None:
    quantized = LORA._replace(
        strategy="ddp", mesh=Mesh(1, 1), recompute="none", adapters=Adapters(8, (), bits=4)
    )
    sizes = quantized.model.sizes
    read = 2 * (2 * sizes.hidden + sizes.heads * sizes.head_dim + sizes.ffn)
    once = read * sizes.layers * quantized.tokens
    for case in run("kept_by_graph.py"):
        kept = "twice" if case["holds"] else "once"
        keeping = quantized._replace(adapters=quantized.adapters._replace(keeps_inputs=kept))
        pairs = zip(list_moments(quantized), list_moments(keeping), strict=True)
        more = {(b.moment, (b.activations - a.activations) / once) for (_, a), (_, b) in pairs}
        assert more == {("forward", case["forward"]), ("backward", 1), ("step", 0)}
        assert case["backward"] == 1


@pytest.mark.train("torch")
def test_a_loss_whose_ranks_share_the_vocabulary_needs_one_more_copy_in_eager() -> None:
    (case,) = run("kept_by_shared_loss.py")
    shared = FSDP._replace(framework="torchtitan", mesh=Mesh(1, 4, tp=2), loss="plain")
    logits = shared.tokens * shared.model.sizes.vocab / 2
    assert compute_kept(shared).logits / logits == pytest.approx(case["backward"], rel=0.01)
    assert case["forward"] < case["backward"]
    compiled = shared._replace(loss="compiled", compiled=True)
    assert compute_kept(compiled).logits / logits == 4


def test_a_frozen_base_in_fp32_takes_twice_as_much_and_so_does_the_stream() -> None:
    narrow = LORA._replace(strategy="ddp", mesh=Mesh(1, 1), recipe=RECIPES["autocast"])
    wide = narrow._replace(adapters=Adapters(8, (), bits=32))
    stage = list_stages(wide)[0]
    assert count_trained(wide, stage)[1] == 2 * count_trained(narrow, stage)[1]
    assert compute_kept(wide).input == 2 * compute_kept(narrow).input
    # FSDP's MixedPrecision gathers an embedding that is stored in fp32 in 16 bits
    sharded = wide._replace(strategy="fsdp", mesh=Mesh(1, 8))
    assert compute_kept(sharded).input == compute_kept(narrow).input


def test_mixed_precision_of_fsdp_makes_the_stream_of_a_frozen_fp32_base_narrow() -> None:
    cast = LORA._replace(recipe=RECIPES["autocast"], adapters=Adapters(8, (), bits=32))
    assert compute_kept(cast._replace(strategy="ddp")).input == 2 * compute_kept(cast).input


def test_the_root_of_a_quantized_model_is_gathered_in_16_bits() -> None:
    quantized = LORA._replace(adapters=Adapters(8, (), bits=4))
    stage = list_stages(quantized)[0]
    plain, four = (compute_transient(setup, stage) for setup in (LORA, quantized))
    units = plain.forward - 2 * stage.outside
    assert four.forward == pytest.approx(2 * stage.outside + units * 0.516 / 2, rel=0.01)


def test_scales_of_four_bits_stay_whole_on_every_gpu() -> None:
    def params(offload: bool, **changes: bool) -> float:
        adapters = Adapters(8, (), bits=4, **changes)
        quantized = LORA._replace(adapters=adapters, offload=Offloaded(offload, offload))
        return divide_states(quantized, list_stages(quantized)[0]).params

    linear = LORA.model.count - LORA.model.outside
    away, wide = params(offload=True), params(offload=True, nested=False)
    assert away == pytest.approx(0.127 / 8 * linear, rel=0.01)
    assert wide == pytest.approx(4 / 64 * linear, rel=0.01)
    here = params(offload=False, nested=False) - params(offload=False)
    assert here == pytest.approx(wide - away)


def test_scales_of_torchaos_four_bits_are_sharded_with_their_weights() -> None:
    quantized = LORA._replace(adapters=Adapters(8, (), bits=4))
    one = list_stages(quantized)[0]
    whole, divided = (
        divide_states(quantized._replace(framework=name), one).params
        for name in ("transformers", "torchtune")
    )
    scales = 0.127 / 8 * (LORA.model.count - LORA.model.outside)
    assert whole - divided == pytest.approx(scales * (1 - 1 / LORA.mesh.shard), rel=0.01)


def test_a_part_that_comes_from_the_host_lies_in_a_pool_of_its_own() -> None:
    away = FSDP._replace(offload=Offloaded(optimizer=True, params=True))
    stage = list_stages(FSDP)[0]
    before, after = (compute_transient(each, stage) for each in (FSDP, away))
    part = 2 * max(stage.outside, stage.largest) / FSDP.mesh.shard
    assert (before.staged, after.staged) == (0, part)
    assert after.forward - before.forward == pytest.approx(part)
    two = compute_transient(away._replace(strategy="fsdp2"), stage)
    assert two.staged == 0


def test_every_second_layer_that_is_kept_counts_whole() -> None:
    none, full = (compute_kept(FSDP._replace(recompute=each)) for each in ("none", "full"))
    half = compute_kept(FSDP._replace(recompute="full", recompute_every=2))
    assert half.layer == pytest.approx((none.layer + full.layer) / 2)
    assert half.working == full.working


def test_gathers_without_a_limit_hold_all_layers() -> None:
    ahead, stage = FSDP._replace(gathers_ahead=True), list_stages(FSDP)[0]
    assert compute_transient(ahead, stage).forward == 2 * stage.params


def test_trl_makes_ends_of_a_prepared_model_narrow_again() -> None:
    lora = Adapters(8, (), bits=4, prepared=True)
    prepared = LORA._replace(mesh=Mesh(1, 1), strategy="ddp", adapters=lora)
    trl = prepared._replace(adapters=lora._replace(narrow_ends=True))
    stage = list_stages(prepared)[0]
    ends = LORA.model.count_kinds("embedding", "head")
    before, after = (divide_states(each, stage).params for each in (prepared, trl))
    assert before - after == 2 * ends
    # a norm of single operations returns fp32, as its weight is; one kernel what it was given
    stream = compute_kept(prepared).input
    assert compute_kept(trl).input == stream
    assert compute_kept(trl._replace(fused_norms=True)).input == stream / 2


def test_zero3_without_its_own_linear_layer_keeps_gathered_weights() -> None:
    large = FSDP._replace(model=build_model(SHAPE._replace(layers=100)), strategy="zero3")
    stage = list_stages(large)[0]
    assert stage.params > 1e9  # max_live_parameters
    assert compute_transient(large, stage).forward == 2 * 1e9
    assert compute_transient(large._replace(reshard=False), stage).forward == 2 * stage.params


def test_modules_that_are_loaded_at_once_take_a_gibibyte_more() -> None:
    one = FSDP._replace(mesh=Mesh(1, 1))
    more = compute_context(one._replace(lazy_modules=False)) - compute_context(one)
    assert more / GIB == pytest.approx(1573 / 1024 - 0.5)


def test_nccl_has_fewer_channels_where_only_pcie_joins_the_gpus() -> None:
    few = FSDP._replace(channels=choose_channels("RTX-4090-24GB"))
    assert choose_channels("H100-SXM5-80GB") == FSDP.channels == 24
    assert compute_context(FSDP) - compute_context(few) == CHANNEL * 22
    assert choose_channels("a GPU of no catalogue") == 24


def test_a_prepared_quantized_model_has_wide_norms_embeddings_and_stream() -> None:
    plain = LORA._replace(mesh=Mesh(1, 1), adapters=Adapters(8, (), bits=4))
    prepared = plain._replace(adapters=Adapters(8, (), bits=4, prepared=True))
    root = sum(tensor.count for tensor in plain.model.root)
    norms = plain.model.count_kinds("norm") - SHAPE.hidden  # the last one is in the root
    before, after = (
        next(p.bytes for p in estimate(each).components if p.name == "params")
        for each in (plain, prepared)
    )
    assert after - before == 2 * (root + norms)
    assert compute_kept(prepared).input == 2 * compute_kept(plain).input
