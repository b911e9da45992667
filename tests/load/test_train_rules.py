"""``train:`` in job.yaml, before any cluster: what is read, and what no cluster could mend."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.errors import Diagnostic, Invalid
from jobgen.load import load_job
from jobgen.model.parallel import STRATEGIES
from jobgen.model.train import Train
from jobgen.model.trained import ModelShape

JOB = "name: demo\nnodes: 2\ngpus_per_node: 8\ntime: 2h\nrun: train.py\n"


def read(train: str, text: str = JOB) -> Train:
    found = load_job(f"{text}train: {train}\n", "job.yaml").value.train
    assert found is not None
    return found


def problems(train: str, text: str = JOB) -> tuple[Diagnostic, ...]:
    with pytest.raises(Invalid) as caught:
        read(train, text)
    return caught.value.problems


def problem(train: str, text: str = JOB) -> Diagnostic:
    (one,) = problems(train, text)
    return one


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        *((name, name) for name in STRATEGIES),
        ("FSDP", "fsdp"),
        ("hybrid", "fsdp-hybrid"),
        ("HYBRID_SHARD", "fsdp-hybrid"),
        ("full_shard", "fsdp"),
        ("shard_grad_op", "fsdp-grad-op"),
        ("zero-3", "zero3"),
        ("ZeRO3", "zero3"),
    ],
)
def test_a_strategy_is_known_by_its_names(word: str, wanted: str) -> None:
    assert read(f"{{strategy: {word}}}").strategy.type == wanted


def test_a_word_and_a_mapping_are_the_same() -> None:
    assert read("{strategy: fsdp2}") == read("{strategy: {type: fsdp2}}")
    assert read("{strategy: zero3, offload: both}") == read(
        "{strategy: zero3, offload: {what: both, to: cpu}}"
    )


def test_sizes_are_a_mapping_and_a_file_is_a_path() -> None:
    shape = read("{model: {layers: 2, hidden: 64, heads: 4}}").model
    assert isinstance(shape, ModelShape)
    assert shape.kv_heads is None
    assert read("{model: model/config.json}").model == "model/config.json"
    assert problem("{model: /models/config.json}").code == "J136"


def test_a_typo_is_answered_with_the_word() -> None:
    found = problem("{strategy: fsdp3}")
    assert "fsdp" in f"{found.message} {found.hint}"
    found = problem("{gradient_acumulation: 2}")
    assert "gradient_accumulation" in f"{found.message} {found.hint}"


def test_a_key_without_a_space_behind_its_colon_is_answered_with_one() -> None:
    found = problem("{lora: {rank:16}}")
    assert found.message == "train.lora.rank:16 is empty (null)"
    assert found.hint == "write 'rank: 16', with a space after the colon"


@pytest.mark.parametrize(
    ("written", "hint", "instead"),
    [
        ("precision: fp8", "set train.fp8: true", "precision: bf16, fp8: true"),
        ("precision: FP8", "set train.fp8: true", "fp8: true"),
        ("activation_checkpointing: true", ": full", "activation_checkpointing: full"),
        ("activation_checkpointing: false", ": none", "activation_checkpointing: none"),
        ("lora: true", "lora: 16", "lora: 16"),
        ("lora: false", "remove lora", ""),
    ],
)
def test_what_other_tools_write_is_told_the_value_of_here(
    written: str, hint: str, instead: str
) -> None:
    found = problem(f"{{{written}}}")
    assert hint in found.hint
    assert found.place is not None
    assert read(f"{{strategy: fsdp2, {instead}}}")
    assert problem("{precision: fp9}").hint == "known: fp32, bf16, fp16"


@pytest.mark.parametrize("place", ["cpu", "nvme"])
def test_a_place_instead_of_what_is_offloaded_is_told_how_both_are_written(place: str) -> None:
    found = problem(f"{{strategy: zero3, offload: {place}}}")
    assert found.code == "J123"
    written = re.search(r"offload: \{.*?\}", found.hint)
    assert written is not None
    assert read(f"{{strategy: zero3, {written[0]}}}").offload.to == place


@pytest.mark.parametrize(
    ("train", "code", "key"),
    [
        ("{strategy: zero3, pp: 2}", "J232", "pp"),
        ("{strategy: ddp, offload: both}", "J235", "offload"),
        ("{strategy: zero2, offload: params}", "J235", "offload"),
        ("{strategy: zero3, offload: {what: both, to: nvme}}", "J235", "to"),
        ("{strategy: {type: fsdp, bucket_mb: 50}}", "J236", "bucket_mb"),
        ("{framework: megatron, strategy: fsdp}", "J236", "framework"),
        ("{global_batch: 100, micro_batch: 3}", "J230", "global_batch"),
        ("{strategy: 3d, tp: 3, model: {layers: 2, hidden: 64, heads: 4}}", "J233", "tp"),
        ("{strategy: 3d, tp: 3, model: meta-llama/Llama-3.1-8B}", "J233", "tp"),
        ("{strategy: 3d, tp: 32}", "J231", "tp"),
        ("{dp: 3}", "J231", "dp"),
    ],
)
def test_what_no_cluster_could_mend_is_refused_at_its_key(train: str, code: str, key: str) -> None:
    found = problem(train)
    assert found.code == code
    assert found.message.startswith("train: ")
    assert found.hint
    assert found.place is not None
    assert found.place.line == 6
    value = train.index(f"{key}: ") + len(f"{key}: ")
    assert found.place.col == len("train: ") + value + 1


def test_a_key_that_is_not_there_is_pointed_at_through_train() -> None:
    text = JOB.replace("gpus_per_node: 8\n", "gpus_per_node: 8\nlauncher: deepspeed\n")
    found = problem("{framework: lightning}", text)
    assert (found.code, found.hint) == ("J236", "set launcher: srun")


def test_without_the_ranks_only_what_every_world_has_is_said() -> None:
    text = JOB.replace("gpus_per_node: 8\n", "")
    assert read("{global_batch: 100, micro_batch: 3, dp: 3}", text).dp == 3
    assert problem("{strategy: zero3, pp: 2}", text).code == "J232"


def test_two_faults_are_both_said() -> None:
    codes = [p.code for p in problems("{strategy: fsdp, pp: 2, framework: megatron}")]
    assert sorted(codes) == ["J232", "J236"]


words = st.sampled_from([*STRATEGIES, "megatron", "bf16", "full", "none", "", "~", "1", "x: y"])
anything = st.recursive(
    words | st.integers(-2, 2**70).map(str) | st.floats().map(str) | st.just("null"),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda v: f"[{', '.join(v)}]")
        | st.dictionaries(st.sampled_from([*Train.keys, "type", "what"]), inner, max_size=3).map(
            lambda d: "{" + ", ".join(f"{k}: {v or 'null'}" for k, v in d.items()) + "}"
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(list(Train.keys)), anything, max_size=5))
def test_whatever_is_written_is_read_or_refused_with_a_place(keys: dict[str, Any]) -> None:
    text = "{" + ", ".join(f"{k}: {v or 'null'}" for k, v in keys.items()) + "}"
    try:
        refused: tuple[Diagnostic, ...] = ()
        read(text)
    except Invalid as error:
        refused = error.problems
    assert all(p.place and p.message for p in refused)


def test_a_model_may_have_trillions_of_parameters() -> None:
    model = read("{model: {params: 1.04e12, layers: 61, hidden: 7168, heads: 64}}").model
    assert isinstance(model, ModelShape)
    assert model.params == 1.04e12


@pytest.mark.parametrize(
    ("params", "hint"), [("-1", "use 0 or more"), ("2e15", "use less than 1e+15")]
)
def test_the_hint_names_the_limit_that_is_passed(params: str, hint: str) -> None:
    model = f"params: {params}, layers: 61, hidden: 7168, heads: 64"
    assert problem(f"{{model: {{{model}}}}}").hint == hint


@pytest.mark.parametrize(
    ("sizes", "message", "hint"),
    [
        (
            "hidden: 4096, heads: 30",
            "train.model: heads 30 does not divide hidden 4096, and head_dim is not set",
            "set heads: 32, or head_dim",
        ),
        (
            "hidden: 4096, heads: 32, kv_heads: 6",
            "train.model: kv_heads 6 does not divide heads 32",
            "set kv_heads: 4",
        ),
        (
            "hidden: 4096, heads: 32, kv_heads: 64",
            "train.model: kv_heads 64 does not divide heads 32",
            "set kv_heads: 32",
        ),
        (
            "hidden: 64, heads: 8, experts: 4, experts_active: 8",
            "train.model: experts_active 8 is more than experts 4",
            "set experts_active: 4 or less",
        ),
    ],
)
def test_sizes_that_no_model_has_together_are_refused(sizes: str, message: str, hint: str) -> None:
    found = problem(f"\n  model:\n    layers: 2\n    {sizes.replace(', ', chr(10) + '    ')}")
    assert (found.code, found.message, found.hint) == ("J138", message, hint)
    assert found.place is not None
    assert found.place.line == 8 + sizes.count(",") + 1
    assert read("{model: {layers: 2, hidden: 64, heads: 6, head_dim: 16}}")


def test_hints_about_sizes_that_conflict_go_together() -> None:
    shape = "{layers: 2, hidden: 4096, heads: 30, kv_heads: 7}"
    train = f"{{strategy: 3d, tp: 4, model: {shape}}}"
    hints = [found.hint for found in problems(train)]
    assert hints == ["set heads: 32, or head_dim", "set kv_heads: 8"], "tp 4 divides both"
    read(f"{{strategy: 3d, tp: 4, model: {shape.replace('30', '32').replace('7', '8')}}}")
    found = problem("{model: {layers: 2, hidden: 4096, heads: 36, kv_heads: 12}}")
    assert found.hint == "set heads: 32 and kv_heads: 16, or head_dim"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("vocab: 32000, ffn: 11008, params: 7e9", False),  # a 6.74 billion model, rounded
        ("vocab: 32000, ffn: 11008, params: 13e9", True),
        ("ffn: 11008, params: 7e9", False),  # without vocab, embeddings are not counted
    ],
)
def test_parameters_that_the_sizes_do_not_make_are_named(more: str, said: bool) -> None:
    train = f"{{model: {{layers: 32, hidden: 4096, heads: 32, {more}}}}}"
    notes = load_job(f"{JOB}train: {train}\n", "job.yaml").warnings
    found = [note for note in notes if note.code == "J138"]
    assert [note.severity for note in found] == (["warning"] if said else [])
    for note in found:
        assert note.message.startswith(
            "train.model: params is 1.3e+10, but the sizes make 6.738e+09"
        )
        assert note.place is not None
        assert note.place.line == 6


def test_a_missing_space_after_a_colon_is_named() -> None:
    text = "name: a\ntime: 1h\nrun: t.py\ntrain: {strategy: ddp}\n"
    with pytest.raises(Invalid) as caught:
        load_job(text, "job.yaml", sets=["train.lora={rank:16,bits:4}"])
    assert caught.value.problems[0].hint == "write 'rank: 16', with a space after the colon"
