"""What ``strategy: auto`` becomes, and whether the plan fits."""

from __future__ import annotations

import json
import re

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from tests.resolve.made import CPUS, GPUS, job, plan

MODEL = "model: meta-llama/Llama-3.1-8B, seq_len: 4096, micro_batch: 1"


def trained(words: str, cluster: str = GPUS, **facts: object) -> dict[str, str]:
    """Decisions of a plan with this ``train``: key → value and why."""
    made = plan(job(train=f"{{{words}}}"), cluster, **facts)
    return {key: f"{found.value}: {found.why}" for key, found in made.other.items()}


def test_auto_becomes_the_simplest_that_fits_and_says_so() -> None:
    text = job(train=f"{{{MODEL}, strategy: auto, activation_checkpointing: full}}")
    made = plan(text)
    told = made.other["strategy"]
    assert told.value in {"FSDP SHARD_GRAD_OP", "FSDP2"}
    assert "auto: simplest strategy that fits" in told.why
    (file,) = [f for f in made.files if f.path == "strategy.json"]
    assert json.loads(file.content)["strategy"] in {"fsdp-grad-op", "fsdp2"}


def test_the_step_is_estimated_for_what_the_programs_words_overlap() -> None:
    train = f"{{{MODEL}, framework: megatron, strategy: zero1, tp: 8}}"
    found = [
        plan(job(run=f"pretrain_gpt.py {words}", train=train)).estimate
        for words in ("", "--tp-comm-overlap")
    ]
    waits, overlaps = (each.seconds for each in found if each is not None)
    assert 0 < overlaps < waits


def test_auto_of_a_small_model_is_ddp() -> None:
    assert trained("model: gpt2, strategy: auto")["strategy"].startswith("DDP: auto")


def test_where_nothing_fits_the_reason_names_the_memory_that_is_short() -> None:
    words = MODEL.replace("8B", "405B") + ", strategy: auto"
    assert "nothing fits; this one needs least GPU memory, " in trained(words)["strategy"]
    told = trained(words, re.sub(r"mem: \w+", "mem: 64GiB", GPUS))["strategy"]
    assert re.search(r"least GPU memory, .* per GPU, but needs \d+ of 64 GiB of host memory", told)


def test_auto_without_gpus_is_ddp() -> None:
    found = trained("model: gpt2, strategy: auto", CPUS)
    assert found["strategy"].startswith("DDP: auto: the simplest strategy")


@pytest.mark.parametrize(
    ("words", "cluster", "said"),
    [
        ("strategy: auto", GPUS, "train.model is not set"),
        ("strategy: auto, model: acme/none-8b", GPUS, "unknown sizes of 'acme/none-8b'"),
    ],
)
def test_auto_says_what_it_would_have_to_know(words: str, cluster: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        trained(words, cluster)
    (problem,) = caught.value.problems
    assert (problem.code, said in problem.message) == ("J250", True), problem.message


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (f"{MODEL}, strategy: ddp", "fail"),
        (f"{MODEL}, strategy: fsdp2, activation_checkpointing: full", "ok"),
        ("model: gpt2, strategy: ddp", "ok"),
    ],
)
def test_a_plan_says_whether_it_fits(words: str, status: str) -> None:
    made = plan(job(train=f"{{{words}}}"))
    found = [check for check in made.checks if "GiB" in check.message]
    assert [check.status for check in found] == [status]
    assert found[0].message.endswith("GiB of the GPU's 79.2 GiB")


@pytest.mark.parametrize(
    ("keys", "expandable"),
    [
        ({}, False),
        ({"env": "{PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True'}"}, True),
        ({"env": "{PYTORCH_ALLOC_CONF: 'max_split_size_mb:512, expandable_segments: true'}"}, True),
        ({"setup": "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}, True),
        ({"env": "{PYTORCH_ALLOC_CONF: 'expandable_segments:False'}"}, False),
        (
            {
                "setup": "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                "env": "{PYTORCH_ALLOC_CONF: 'max_split_size_mb:512'}",
            },
            False,
        ),
    ],
)
def test_expandable_segments_leave_less_of_the_cache_unused(
    keys: dict[str, str], expandable: bool
) -> None:
    found = plan(job(train=f"{{{MODEL}, strategy: fsdp2}}", **keys)).estimate
    assert found is not None
    assert (found.reserved / found.allocated < 1.14) == expandable


@pytest.mark.parametrize(
    ("keys", "rounds"),
    [
        ({}, False),
        ({"env": "{TORCH_ALLOW_TF32_CUBLAS_OVERRIDE: '1'}"}, True),
        ({"container": "nvcr.io/nvidia/pytorch:25.09-py3"}, True),
        ({"container": "docker://nvcr.io/nvidia/pytorch:25.09-py3"}, True),
        ({"container": "acme/pytorch:2.9"}, False),
        (
            {
                "container": "nvcr.io/nvidia/pytorch:25.09-py3",
                "env": "{TORCH_ALLOW_TF32_CUBLAS_OVERRIDE: '0'}",
            },
            False,
        ),
        ({"run": "train.py --tf32 True"}, True),
        ({"run": "train.py --tf32"}, True),
        ({"run": "train.py --tf32=False"}, False),
    ],
)
def test_fp32_is_faster_where_products_are_rounded_to_tf32(
    keys: dict[str, str], rounds: bool
) -> None:
    train = f"{{{MODEL}, strategy: fsdp2, precision: fp32}}"
    found = plan(job(train=train, **keys)).estimate
    assert found is not None
    assert found.seconds is not None
    assert (found.seconds < 4) == rounds, found.seconds


@pytest.mark.parametrize(
    ("train", "line"),
    [
        ("{strategy: ddp, model: meta-llama/Llama-3.1-70B}", 5),
        ("\n  model: meta-llama/Llama-3.1-70B\n  strategy: ddp", 7),
        ("\n  framework: torch\n  model: meta-llama/Llama-3.1-70B", 7),
    ],
)
def test_what_does_not_fit_stands_at_the_key_that_decides_it(train: str, line: int) -> None:
    (check,) = [one for one in plan(job(train=train)).checks if one.status == "fail"]
    assert check.message == "does not fit: needs about 1355 GiB of the GPU's 79.2 GiB"
    assert check.place is not None
    assert (check.place.line, check.place.col > 1) == (line, True)


@pytest.mark.parametrize(("gpu", "warned"), [("A100-SXM4-80GB", True), ("H100-SXM5-80GB", False)])
def test_8_bit_products_need_gpus_that_have_them(gpu: str, warned: bool) -> None:
    cluster = GPUS.replace("A100-SXM4-80GB", gpu)
    made = plan(job(train="{model: meta-llama/Llama-3.1-8B, strategy: fsdp2, fp8: true}"), cluster)
    assert any("8-bit floats" in check.message for check in made.checks) is warned


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({}, ""),
        ({"model_type": "mamba_next"}, "unknown model_type 'mamba_next': counted like Llama"),
        ({"vision_config": {"hidden_size": 64}}, "only the text part is counted"),
        (
            {"layer_types": ["mamba"] * 24 + ["full_attention"] * 8},
            "24 of 32 layers are mamba, counted as attention",
        ),
        (
            {"layer_types": ["linear_attention", "full_attention", "sliding_attention"]},
            "1 of 3 layers are linear_attention",
        ),
    ],
)
def test_sizes_in_doubt_are_a_warning_beside_the_estimate(
    differs: dict[str, object], words: str
) -> None:
    sizes = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "vocab_size": 32000,
    }
    texts = {"config.json": json.dumps({**sizes, **differs}).encode()}
    train = "{model: config.json, strategy: fsdp2, framework: none, seq_len: 4096, micro_batch: 1}"
    made = plan(job(train=train), texts=texts)
    assert made.estimate is not None
    warned = [check for check in made.checks if check.code == "J267"]
    assert len(warned) == bool(words)
    assert all(words in check.message and check.status == "warn" for check in warned)


@pytest.mark.parametrize(
    ("differs", "words", "hint"),
    [
        (
            {"model_type": "qwen3_5_text"},
            "24 of 32 layers are gated delta nets, counted with the kernels of flash-linear",
            "install flash-linear-attention and causal-conv1d",
        ),
        (
            {"model_type": "falcon_h1", "mamba_n_heads": 64},
            "32 of 32 layers are Mamba-2 layers beside attention, counted with the kernels of mam",
            "install mamba-ssm and causal-conv1d",
        ),
        (
            {"model_type": "jamba", "num_experts": 1},
            "28 of 32 layers are Mamba layers, whose activations and time are counted as attention",
            "to measure the model",
        ),
        ({"model_type": "lfm2", "full_attn_idxs": [3, 7]}, "", ""),
        ({"model_type": "qwen3_5_text", "layer_types": ["full_attention"] * 32}, "", ""),
    ],
)
def test_layers_without_attention_are_a_warning_beside_the_estimate(
    differs: dict[str, object], words: str, hint: str
) -> None:
    sizes = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "vocab_size": 32000,
    }
    texts = {"config.json": json.dumps({**sizes, **differs}).encode()}
    made = plan(job(train="{model: config.json, strategy: fsdp2, micro_batch: 1}"), texts=texts)
    assert made.estimate is not None
    warned = [check for check in made.checks if check.code == "J267"]
    assert len(warned) == bool(words)
    assert all(words in check.message and check.hint.startswith(hint) for check in warned)


def test_a_file_without_the_sizes_of_a_language_model_is_to_be_measured() -> None:
    texts = {"config.json": b'{"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2}'}
    made = plan(job(train="{model: config.json, strategy: ddp}"), texts=texts)
    (check,) = [check for check in made.checks if check.code == "J267"]
    assert check.message.endswith("is missing; memory is not estimated")
    assert "set model: FILE.py:NAME" in check.hint
    with pytest.raises(Invalid) as caught:
        plan(job(train="{model: config.json, strategy: auto}"), texts=texts)
    (problem,) = caught.value.problems
    assert "set model: FILE.py:NAME" in problem.hint


def test_of_an_unknown_model_nothing_is_said() -> None:
    made = plan(job(train="{model: acme/none-8b, strategy: ddp}"))
    assert not [check for check in made.checks if "GiB" in check.message]
    assert made.estimate is None


@pytest.mark.parametrize("strategy", ["auto", "fsdp2"])
def test_the_plan_carries_the_estimate_that_it_was_checked_by(strategy: str) -> None:
    made = plan(job(train=f"{{{MODEL}, strategy: {strategy}, activation_checkpointing: full}}"))
    assert made.estimate is not None
    assert made.estimate.verdict == "fits"
    assert made.estimate.allocated < made.estimate.reserved < made.estimate.total
    assert _need(made) == round(made.estimate.needed / 2**30, 1)


def test_what_the_program_keeps_changes_what_fits() -> None:
    ddp = f"{MODEL}, strategy: ddp, activation_checkpointing: full"
    whole = plan(job(train=f"{{{ddp}}}"))
    lean = plan(job(train=f"{{{ddp}, lora: 16, pure: true}}"))
    assert "fail" in {check.status for check in whole.checks}
    assert "fail" not in {check.status for check in lean.checks}


@pytest.mark.parametrize("words", ["loss: fused", "loss: chunked", "compiled: true"])
def test_what_the_program_does_is_counted_and_changes_no_file(words: str) -> None:
    base = f"{MODEL}, strategy: fsdp2"
    before, after = (plan(job(train=f"{{{said}}}")) for said in (base, f"{base}, {words}"))
    need = [_need(made) for made in (before, after)]
    assert need[1] < need[0]
    assert after.files == before.files


def _need(made: Plan) -> float:
    """GiB of each GPU, as a check says."""
    (check,) = [one for one in made.checks if "GiB" in one.message]
    return float(check.message.partition(" about ")[2].split()[0])


def test_an_uneven_pipeline_is_taken_where_the_framework_balances_it() -> None:
    model = "model: meta-llama/Llama-3.1-405B, seq_len: 4096, global_batch: 64, micro_batch: 1"
    words = f"{model}, strategy: zero1, framework: megatron, tp: 8, pp: 8"
    text = job(train=f"{{{words}}}", nodes="8")
    made = plan(text)
    program = next(step.text for step in made.steps if step.name == "program")
    assert "--account-for-embedding-in-pipeline-split" in program, "126 layers and two over 8"
    with pytest.raises(Invalid, match="pp 5"):
        plan(text.replace("pp: 8", "pp: 5").replace("nodes: 8", "nodes: 5"))


def test_auto_for_sizes_without_a_vocabulary_names_the_key() -> None:
    with pytest.raises(Invalid) as caught:
        trained("strategy: auto, model: {layers: 32, hidden: 4096, heads: 32}")
    assert caught.value.problems[0].hint.startswith("add vocab: 128256")
