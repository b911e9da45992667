"""What the cells of a published run mean: ``benchmarks/planner_rows.py`` and what it imports."""

from __future__ import annotations

import csv

import pytest

from tests.strategy.memory.published import ROWS, benchmark, read, score


@pytest.mark.parametrize(
    ("cells", "missing"), [({"mbs": ""}, "no micro-batch"), ({"optimizer": ""}, "no optimizer")]
)
def test_a_row_without_micro_batch_or_optimizer_is_not_scored(
    cells: dict[str, str], missing: str
) -> None:
    assert len(score().score_memory([read()])) == 1
    assert read(**cells).missing == missing
    assert score().score_memory([read(**cells)]) == []


def test_cells_that_say_the_same_in_other_words_are_the_same_setup() -> None:
    """As an engineer wrote them who did not know which words are looked for."""
    words = ROWS.with_name("planner_words.csv")
    with words.open(newline="", encoding="utf-8") as file:
        pairs = [*csv.DictReader(file)]
    assert len(pairs) == 184
    for column, said, otherwise in (pair.values() for pair in pairs):
        plain, other = read(**{column: said}), read(**{column: otherwise})
        assert (plain.setup, plain.metric, plain.missing) == (
            other.setup,
            other.metric,
            other.missing,
        ), otherwise


@pytest.mark.parametrize(
    ("otherwise", "said"),
    [
        ("samples packed into sequences of 4096", "packed to 4096"),
        ("cross-entropy computed chunk by chunk", "chunked loss"),
        ("sequence parallel off (our inference)", "no sequence parallelism is inferred"),
        ("double quantization off", "without double quantization"),
        ("samples of varying length cut at max_length", "variable-length data"),
        ("pipeline cuts the local batch of 8 into microbatches", "local batch 8 split in PP"),
        ("all-gather in float8", "float8 all-gather"),
        ("whole logits in float32", "full fp32 logits"),
    ],
)
def test_notes_that_say_the_same_in_other_words_are_the_same_setup(
    otherwise: str, said: str
) -> None:
    for cells in ({}, {"precision": "nf4 base + bf16", "trainable": "QLoRA r=8 q,v"}, {"pp": "4"}):
        assert read(**cells, notes=otherwise).setup == read(**cells, notes=said).setup
    assert read(notes=said).setup is not None


def test_a_row_of_tier_x_is_not_scored() -> None:
    assert score().score_memory([read(tier="X")]) == []
    assert score().score_steps([read(tier="X")]) == []


def test_seconds_of_one_micro_batch_are_recognised() -> None:
    whole = read(mbs="2", gas="8", gbs="", tok_s_gpu="", step_s="24")
    assert whole.step == 24
    each = read(mbs="2", gas="8", gbs="", tok_s_gpu="", step_s="3", notes="s per micro-batch")
    assert each.step == 24
    # 16,384 tokens of an 8B model eight times are too much for three seconds, but not once
    too_fast = read(mbs="2", gas="8", gbs="", tok_s_gpu="", step_s="3")
    assert too_fast.step == 24
    assert read(mbs="2", gas="8", gbs="", tok_s_gpu="", step_s="0.01").step is None


def test_adapters_beside_all_linear_layers_are_not_those_of_attention_alone() -> None:
    attention = read(trainable="LoRA r=8 q,k,v,o").setup.adapters
    every = read(trainable="LoRA r=8 q,k,v,o,gate,up,down").setup.adapters
    assert "q_proj" in attention.targets
    assert every.targets == ()
    mlp = read(source="a table", trainable="LoRA r=10 gate,up,down").setup.adapters
    assert mlp.targets == ("gate_proj", "up_proj", "down_proj")
    most = read(source="a table", trainable="LoRA r=64 q,k,v,gate,up,down").setup.adapters
    assert {"v_proj", "down_proj"} < set(most.targets)
    assert "o_proj" not in most.targets


@pytest.mark.parametrize(
    ("precision", "bits"),
    [
        ("NVFP4", 4),
        ("MXFP8", 8),
        ("FP8-CS", 8),
        ("bf16 mixed + mxfp8 linear (fp32 params/grads/opt)", 8),
        ("nf4 base + fp16", 16),
        ("bf16 mixed", 16),
    ],
)
def test_precision_says_how_many_bits_linear_layers_multiply(precision: str, bits: int) -> None:
    assert read(precision=precision).setup.recipe.product_bits == bits


@pytest.mark.parametrize(
    ("notes", "copies"), [("torch 2.0.1", 2), ("torch 2.1", 1), ("torch 2.10", 1), ("", 1)]
)
def test_a_step_makes_one_temporary_since_torch_2_1(notes: str, copies: int) -> None:
    assert read(source="a table", notes=notes).setup.step_copies == copies


def test_accelerate_keeps_gradients_of_fsdp2_whole_since_its_release_1_11() -> None:
    for date, whole in (("2025-08", False), ("2025-10", True)):
        assert read(source=f"a table ({date})").setup.unsynced == whole, date
    assert read(source="a table", strategy="FSDP full").setup.unsynced


def test_nemo_automodel_is_not_megatron() -> None:
    source = "https://github.com/NVIDIA-NeMo/{} README.md"
    megatron, own = (read(source=source.format(name)).setup for name in ("NeMo", "Automodel"))
    assert (megatron.framework, own.framework) == ("megatron", "automodel")
    assert (megatron.overlap_tp, own.overlap_tp) == (True, False)
    apart = read(source=source.format("NeMo"), notes="without tp_comm_overlap").setup
    assert not apart.overlap_tp


def test_the_notes_of_a_row_say_how_tokens_reach_their_experts() -> None:
    words = {"source": "megatron", "dp": "8", "ep": "8", "tp": "2"}
    plain, fused = read(**words).setup, read(**words, notes="ETP 1; HybridEP").setup
    assert (plain.fused_dispatch, plain.overlap_experts, plain.mesh.expert_tp) == (False, False, 2)
    assert (fused.fused_dispatch, fused.overlap_experts, fused.mesh.expert_tp) == (True, False, 1)
    beside = read(**words, notes="with overlap_moe_expert_parallel_comm").setup
    assert (beside.fused_dispatch, beside.overlap_experts) == (False, True)
    assert read(**words | {"dp": "4"}).setup.mesh.expert_tp == 1  # ep needs the ranks of tp


def test_moments_in_16_bits_leave_16_bits_of_the_master_parameters() -> None:
    words = {"source": "megatron", "precision": "bf16 mixed"}
    recipe = read(**words, optimizer="distributed Adam, bf16 moments").setup.recipe
    assert (recipe.master, recipe.moments) == (2, 4)


def test_a_table_of_own_kernels_and_of_hugging_face_has_rows_of_both() -> None:
    source = "https://github.com/unslothai/unsloth README.md"
    assert read(source=source, locator="Unsloth").setup.loss == "fused"
    assert read(source=source, locator="Hugging Face + FA2").setup.loss == "plain"


def test_litgpts_models_in_thunders_benchmark_are_read_as_litgpts() -> None:
    setup = read(
        source="https://github.com/Lightning-AI/lightning-thunder/pull/1",
        notes="benchmark_litgpt.py",
        precision="pure bf16",
        optimizer="AdamW",
    ).setup
    sizes = setup.model.sizes
    assert (sizes.fused_qkv, sizes.rotary, setup.repeat_kv) == (True, "part", True)
    assert (setup.loss, setup.keeps_full_copy, setup.fused_step) == ("narrow", False, True)


def test_the_optimizers_column_names_kernels_that_a_framework_does_not_have_now() -> None:
    steps = ("AdamW", "AdamW (foreach)")
    assert [read(optimizer=one).setup.fused_step for one in steps] == [True, False]
    trainer = {"source": "https://github.com/huggingface/trl", "precision": "pure bf16"}
    steps = ("AdamW", "AdamW (apex, fused)")
    assert [read(**trainer, optimizer=one).setup.fused_step for one in steps] == [False, True]


def test_hybrid_shards_lie_on_a_node_and_copies_on_others() -> None:
    mesh = read(strategy="FSDP HYBRID_SHARD", dp="128", n_gpus="128", tp="1").setup.mesh
    assert (mesh.replicate, mesh.shard) == (16, 8)


def test_own_kernels_join_what_a_compiler_joins() -> None:
    words = {"compile": "0", "source": "https://github.com/Dao-AILab/flash-attention"}
    assert not read(**words).setup.compiled
    assert read(**words, notes="own kernels for dropout with norm, MLP and bias").setup.compiled


def test_the_first_qwens_projections_are_one_matrix_and_its_rotation_is_cast() -> None:
    with ROWS.open(newline="", encoding="utf-8") as file:
        line = next(one for one in csv.DictReader(file) if "QwenLM/Qwen " in one["source"])
    setup = benchmark().row(line).setup
    assert (setup.model.sizes.fused_qkv, setup.fused_norms, setup.wide_rotation) == (True,) * 3
    assert not read().setup.wide_rotation


def test_notes_say_how_adapters_are_multiplied() -> None:
    words = {"trainable": "LoRA r=16 q,v", "precision": "pure bf16", "strategy": "single"}
    found = [
        read(**words, notes=notes).setup.adapters
        for notes in ("", "without autocast", "triton norms, rotation and LoRA")
    ]
    assert [one.cast_back for one in found] == [True, False, True]
    assert [one.joined for one in found] == [False, False, True]


def test_flagscale_is_megatron_whose_runs_need_not_divide_the_sequence() -> None:
    for notes, divided in (("", True), ("no sequence parallelism", False)):
        setup = read(source="llama2-flagscale/README.md", notes=notes).setup
        assert (setup.framework, setup.sequence_parallel) == ("megatron", divided)


def test_a_note_that_a_loss_is_not_fused_is_understood() -> None:
    for notes, loss in (
        ("fused cross-entropy", "fused"),
        ("no fused cross-entropy", "plain"),
        ("Unsloth of that time, no fused cross-entropy", "plain"),
    ):
        assert read(source="a table", notes=notes).setup.loss == loss


def test_ligers_activation_is_one_kernel_except_where_its_loss_alone_is_taken() -> None:
    for source, fused in (("linkedin/Liger-Kernel", True), ("a table", False)):
        assert read(source=source).setup.fused_activation == fused, source
    assert not read(source="fms-acceleration", notes="liger loss").setup.fused_activation


def test_a_row_says_where_recomputation_is_not_reentrant() -> None:
    for recompute, reentrant in (("full", True), ("full (not reentrant)", False)):
        words = {"source": "a table (2023-07)", "recompute": recompute}
        assert read(**words).setup.reentrant == reentrant


def test_a_node_may_have_more_than_eight_gpus() -> None:
    one, two = (
        read(n_gpus="16", dp="16", inter=inter)
        for inter in ("one node of 16 GPUs", "8x200Gb/s IB HDR per node")
    )
    assert (one.setup.world_per_node, one.machine.node_gpus) == (16, 16)
    assert (two.setup.world_per_node, two.machine.node_gpus) == (8, 8)


def test_notes_say_what_is_stored_in_fp32_stays_gathered_or_is_held_by_the_loop() -> None:
    words = {"source": "a table", "trainable": "LoRA r=8 q,v"}
    for precision, bits in (("fp32", 32), ("bf16 mixed (fp32 params)", 32), ("bf16 base", 16)):
        assert read(**words, precision=precision).setup.adapters.bits == bits
    assert read(notes="the loop keeps keys and values").setup.keeps_cache
    setup = read(notes="float8 all-gather; float8 weights kept for the backward pass").setup
    assert setup.narrow_gather
    assert setup.narrow_copies
    assert read(notes="zero.Init with mem_efficient_linear=False").setup.reshard is False


@pytest.mark.parametrize(
    ("words", "memory", "name"),
    [
        ("H100-SXM-96GB(HBM2e,500W)", "96", "H100-SXM5-80GB"),
        ("H100 NVL", "94", "H100-NVL-94GB"),
        ("A100-80GB", "80", "A100-SXM4-80GB"),
        ("DGX-GB200", "186", "GB200-186GB"),
        ("MI300X", "192", "MI300X-192GB"),
    ],
)
def test_a_gpu_is_of_the_form_that_is_named(words: str, memory: str, name: str) -> None:
    machine = read(gpu=words, gpu_mem_gb=memory).machine
    assert machine.gpu == name
    assert bool(machine.fast8) == (machine.architecture != "Ampere")


@pytest.mark.parametrize(
    ("words", "memory", "rate"),
    [("V100-SXM3-32GB", "32", 13e9), ("A100-80GB", "80", 26e9), ("H100-80GB", "80", 55e9)],
)
def test_the_host_is_as_near_as_the_pcie_of_the_gpus_generation(
    words: str, memory: str, rate: float
) -> None:
    assert read(gpu=words, gpu_mem_gb=memory).machine.host == rate


def test_torchtitan_compiles_its_loss_since_april_2025() -> None:
    for date, loss in (("2025-01", "plain"), ("202506", "compiled"), ("2025", "compiled")):
        assert read(source=f"torchtitan ({date})", compile="1").setup.loss == loss, date


def test_torchtitans_script_makes_segments_expandable_where_torch_has_them() -> None:
    for cells, expandable in (
        ({}, True),
        ({"gpu": "MI300X"}, False),
        ({"notes": "torchrun"}, False),
    ):
        assert read(**cells).setup.expandable == expandable, cells
    assert not read(source="torchtune", notes="").setup.expandable


@pytest.mark.parametrize(
    ("source", "expandable"),
    [("axolotl README.md (2024-04)", False), ("axolotl (2024-12)", True), ("axolotl", True)],
)
def test_axolotl_makes_segments_expandable_since_december_2024(
    source: str, expandable: bool
) -> None:
    assert read(source=source).setup.expandable == expandable


@pytest.mark.parametrize(
    ("notes", "elements"),
    [
        ("buckets of 5e8", 500_000_000),
        ("reduce bucket 1e7, prefetch bucket 1e7", 10_000_000),
        ("", 200_000_000),
    ],
)
def test_deepspeeds_bucket_is_the_noted_one(notes: str, elements: int) -> None:
    cells = {"source": "a table", "strategy": "DeepSpeed ZeRO-2", "notes": notes}
    assert read(**cells).setup.reduce_bucket == elements


def test_litgpts_models_have_an_output_layer_of_their_own() -> None:
    cells = {"model": "Gemma-7B", "params": "8537680896", "vocab": "256000", "tied": "1"}
    shape = {"layers": "28", "hidden": "3072", "heads": "16", "kv_heads": "16", "head_dim": "256"}
    both = [read(**cells, **shape, source=source) for source in ("litgpt", "peft")]
    assert [one.setup.model.sizes.tied for one in both] == [False, True]


def test_litgpts_phi_has_one_kernel_for_gelu_and_no_dropout() -> None:
    cells = {"model": "Phi-2", "params": "2779683840", "vocab": "51200", "gated": "0"}
    shape = {"layers": "32", "hidden": "2560", "heads": "32", "kv_heads": "32", "head_dim": "80"}
    own, other = (
        read(**cells, **shape, ffn="10240", source=source, compile="0").setup
        for source in ("litgpt", "a table")
    )
    assert (own.model.sizes.activation, own.hidden_dropout) == ("fused", False)
    assert (other.model.sizes.activation, other.hidden_dropout) == ("eager", True)


def test_litgpts_gemma_2_has_its_scores_in_memory() -> None:
    cells = {"model": "Gemma-2-2B, untied", "params": "3204165888", "vocab": "256000", "tied": "0"}
    shape = {"layers": "26", "hidden": "2304", "heads": "8", "kv_heads": "4", "head_dim": "256"}
    both = [
        read(**cells, **shape, ffn="9216", source=source, flash_attn="1").setup
        for source in ("litgpt", "a table")
    ]
    sizes = both[0].model.sizes
    assert (sizes.norms, sizes.softcap, sizes.tied) == (4, True, False), "of the catalogue"
    assert [one.flash for one in both] == [False, True]


def test_litgpts_fsdp_adds_up_whole_gradients_of_layers() -> None:
    cells = {"source": "litgpt", "strategy": "FSDP", "dp": "2", "tp": "1", "mbs": "4"}
    cells |= {"gbs": "", "gas": "", "precision": "bf16-true", "trainable": "LoRA r8 q,v"}
    notes = "longest Alpaca sample 1304 tokens"
    setup = read(**cells, notes=notes).setup
    assert (setup.unsynced, setup.longest_first, setup.keeps_full_copy) == (True, True, False)
    assert setup.adapters.flattened
    assert setup.batch.accumulation == 2, "16 samples on 2 GPUs"
    table = read(**cells | {"source": "litgpt resource-tables.md"}, notes=notes).setup
    assert table.batch.accumulation == 32, "128 samples on each"
    truncated = read(**cells, notes="512 truncates Alpaca2k").setup
    full = read(**cells | {"trainable": "all"}, notes=notes).setup
    assert (truncated.longest_first, full.longest_first) == (False, False)
    assert not read(**cells | {"strategy": "single"}).setup.adapters.flattened
    peft = read(**cells | {"source": "peft"}, notes=notes).setup
    assert (peft.adapters.flattened, peft.longest_first) == (False, False)


def test_litgpts_quantized_matrices_keep_their_inputs_until_2025() -> None:
    cells = {"trainable": "QLoRA r=8 q,v", "precision": "bf16-true + nf4 base"}
    rows = (
        ("litgpt (2024-04)", "max_seq_length 512 truncates Alpaca2k", "twice"),
        ("litgpt (2023-10)", "alpaca, at most 1304 tokens", "once"),
        ("litgpt (2025-03)", "", "no"),
        ("peft (2024-04)", "", "no"),
    )
    for source, notes, kept in rows:
        adapters = read(**cells, source=source, notes=notes).setup.adapters
        assert adapters.keeps_inputs == kept
    assert read(trainable="LoRA r=8 q,v", source="litgpt").setup.adapters.keeps_inputs == "no"


def test_litgpts_loss_takes_128_tokens_at_once_unless_noted() -> None:
    cells = {"source": "litgpt", "precision": "bf16-true"}
    assert read(**cells, notes="").setup.loss == "held-chunks"
    assert read(**cells, notes="its loss takes all logits at once").setup.loss == "narrow"


def test_internevo_steps_with_torchs_adamw_over_fp32_copies() -> None:
    setup = read(source="https://github.com/InternLM/InternEvo", strategy="ZeRO-1").setup
    assert (setup.fused_step, setup.unsynced) == (False, False)


def test_ddps_gradients_lie_beside_its_buckets_and_torch_2_lets_go_of_them() -> None:
    def find(**cells: str) -> tuple[bool, bool]:
        setup = read(strategy="DDP", **{"n_gpus": "8", "dp": "8", "notes": "", **cells}).setup
        return setup.copied_grads, setup.persistent_grads

    trainer = {"source": "https://github.com/huggingface/transformers"}
    assert find(**trainer) == (True, False)
    assert find(**trainer, notes="torch 1.10 or older") == (True, True)
    assert find(**trainer, n_gpus="1", dp="1") == (False, False)
    assert find(**trainer, notes="Megatron-LM 1.1.5") == (False, True)


def test_torchtune_shards_embedding_and_output_layer_apart_where_its_config_has_them() -> None:
    tune = {"source": "https://github.com/pytorch/torchtune", "strategy": "FSDP2 full"}
    assert not read(**tune, notes="").setup.split_root
    assert read(**tune, notes="units of FSDP (custom_sharded_layers)").setup.split_root


def test_a_run_on_gpus_of_unknown_power_is_not_timed() -> None:
    assert len(score().score_steps([read()])) == 1
    assert score().score_steps([read(notes="power limited B200")]) == []


@pytest.mark.parametrize(
    ("words", "memory", "name"),
    [
        ("4090", "24", "RTX-4090-24GB"),
        ("GeForce RTX 3090", "24", "RTX-3090-24GB"),
        ("A6000", "48", "RTX-A6000-48GB"),
        ("RTX6000Ada", "48", "RTX-6000-Ada-48GB"),
        ("Tesla V100-SXM2-32GB", "32", "V100-SXM2-32GB"),
    ],
)
def test_a_gpu_is_known_by_its_short_name(words: str, memory: str, name: str) -> None:
    assert read(gpu=words, gpu_mem_gb=memory).machine.gpu == name


def test_an_unknown_gpu_has_memory_but_no_time() -> None:
    """An RTX A4000 is no A40."""
    for words in ("RTX A4000", "TPU v4"):
        one = read(gpu=words, gpu_mem_gb="16")
        assert len(score().score_memory([one])) == 1, words
        assert score().score_steps([one]) == [], words


def test_gpus_joined_by_pcie_are_of_that_form() -> None:
    assert read(gpu="A100-80GB", gpu_mem_gb="80", intra="PCIe").machine.gpu == "A100-PCIE-80GB"


@pytest.mark.parametrize(
    ("cells", "strategy"),
    [
        ({"strategy": "DeepSpeed ZeRO stage 3"}, "zero3"),
        ({"strategy": "DeepSpeed", "zero_stage": "2"}, "zero2"),
        ({"strategy": "Megatron", "tp": "2", "optimizer": "distributed Adam"}, "zero1"),
        ({"strategy": "Megatron", "tp": "2"}, "3d"),
        ({"strategy": "fully_shard"}, "fsdp2"),
        ({"strategy": "fsdp full_shard"}, "fsdp"),
        ({"strategy": "single"}, "ddp"),
    ],
)
def test_a_strategy_is_known_by_its_usual_names(cells: dict[str, str], strategy: str) -> None:
    assert read(**cells).setup.strategy == strategy


@pytest.mark.parametrize(
    ("words", "recompute"),
    [
        ("gradient checkpointing", "full"),
        ("yes", "full"),
        ("AC", "full"),
        ("SAC", "selective"),
        ("no", "none"),
        ("", "none"),
    ],
)
def test_recomputation_is_known_by_its_usual_names(words: str, recompute: str) -> None:
    assert read(recompute=words).setup.recompute == recompute


def test_four_bits_are_known_by_the_precision_and_targets_by_their_modules() -> None:
    adapters = read(trainable="lora rank 16 q_proj, v_proj", precision="4-bit base + bf16")
    assert adapters.setup.adapters.bits == 4
    assert adapters.setup.adapters.rank == 16
    assert adapters.setup.adapters.targets == ("q_proj", "v_proj")


def test_a_file_may_lack_columns_and_have_numbers_as_they_are_printed() -> None:
    with ROWS.open(newline="", encoding="utf-8") as file:
        line = next(csv.DictReader(file))
    needed = ("id", "source", "model", "layers", "hidden", "mbs", "optimizer", "gpu", "mem_unit")
    short = {name: line[name] for name in needed}
    one = benchmark().row({**short, "seq": "8,192", "mem_value": "83,968", "mem_unit": "MiB"})
    assert (one.gib, one.setup.seq, one.missing) == (82.0, 8192, "")


def test_alpaca_is_cut_to_its_longest_sample_unless_it_is_packed() -> None:
    assert read(notes="padded, not packed (alpaca)").setup.seq == 1304
    assert read(notes="alpaca, packed to 8192").setup.seq == 8192


@pytest.mark.parametrize(
    ("source", "model", "fused"),
    [
        ("NVIDIA-NeMo/NeMo performance_summary.md@35029a0c84 (NeMo 24.03.01)", "Llama-2-7B", False),
        ("NVIDIA-NeMo/NeMo performance_summary.md@e2de75c15e (NeMo 24.07)", "Llama-2-7B", False),
        ("NVIDIA-NeMo/NeMo performance_summary.md@e2de75c15e (NeMo 24.07)", "GPT-3 175B", True),
        ("dgxc-benchmarking README_8b.md (NVIDIA-NeMo/NeMo 24.09, 2025-01)", "Llama-3-8B", True),
    ],
)
def test_nemos_launcher_turned_cudnns_attention_off_until_its_release_24_07(
    source: str, model: str, fused: bool
) -> None:
    assert read(source=source, model=model).setup.fused_attention == fused


def test_fms_fsdp_checkpoints_blocks_whole_and_not_reentrant() -> None:
    source = "foundation-model-stack/fms-fsdp README.md@4ffb9bd (2024-03)"
    run = read(source=source, strategy="FSDP", recompute="selective").setup
    assert (run.recompute, run.recompute_every, run.reentrant) == ("full", 2, False)
    run = read(source=source, strategy="FSDP", recompute="full").setup
    assert (run.recompute, run.recompute_every) == ("full", 1)
    assert read(source="a table (2024-03)", strategy="FSDP", recompute="full").setup.reentrant
