"""Plan and training are one model: megatron-core builds what the arguments say, and counts it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from jobgen.data import shapes
from jobgen.model.train import Train
from jobgen.strategy import RankLayout, decide
from jobgen.strategy.frameworks import Configured, FrameworkRequest, configure
from jobgen.strategy.model_sizes import find_architecture, read_sizes
from jobgen.strategy.shapes import build_model, find_model
from jobgen.strategy.shapes.architecture import Architecture
from tests.strategy import megatron
from tests.strategy.made import request, train

SHAPES = {
    "only what everybody knows": "layers: 4, hidden: 512, heads: 8",
    "Llama's kind of that": "layers: 4, hidden: 512, heads: 8, ffn: 1376",
    "Llama 2 7B": "layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000",
    "Llama 3 8B": "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 128256",
    "Llama 3 70B": "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocab: 128256",
    "Llama 3.2 1B": "layers: 16, hidden: 2048, heads: 32, kv_heads: 8, vocab: 128256, tied: true",
    "Mistral 7B": "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 32000",
    "Qwen 2 7B": "layers: 28, hidden: 3584, heads: 28, kv_heads: 4, ffn: 18944, vocab: 152064, "
    "qkv_bias: true",
    "Qwen 3 32B": "layers: 64, hidden: 5120, heads: 64, kv_heads: 8, head_dim: 128, ffn: 25600, "
    "vocab: 151936, qk_norm: true",
    "GPT-2": "layers: 12, hidden: 768, heads: 12, vocab: 50257, positions: 1024, tied: true",
    "GPT-3": "layers: 96, hidden: 12288, heads: 96, vocab: 50257, positions: 2048, tied: true",
    "a GPT, rotary, without biases": "layers: 6, hidden: 512, heads: 8, vocab: 50257, "
    "norm: rmsnorm, bias: false",
    "Gemma 7B's sizes": "layers: 28, hidden: 3072, heads: 16, head_dim: 256, ffn: 24576, "
    "vocab: 256000, tied: true",
    "Mixtral 8x7B": "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 32000, "
    "experts: 8",
    "Qwen 3 30B-A3B": "layers: 48, hidden: 2048, heads: 32, kv_heads: 4, head_dim: 128, "
    "vocab: 151936, qk_norm: true, experts: 128, experts_active: 8, expert_ffn: 768",
    "a shared expert": "layers: 4, hidden: 512, heads: 8, vocab: 32000, experts: 16, "
    "experts_active: 4, expert_ffn: 176, shared_ffn: 352",
    "LayerNorm of queries and keys": "layers: 4, hidden: 512, heads: 8, ffn: 1376, vocab: 32000, "
    "norm: layernorm, qk_norm: true, bias: true",
}
NAMED = ("openai-community/gpt2", "meta-llama/Llama-3.1-8B", "stabilityai/stablelm-2-1_6b")
BUILT = (*NAMED, "Qwen/Qwen1.5-MoE-A2.7B", "deepseek-ai/DeepSeek-V2-Lite")
"""One of each kind of layer, and the two that are the most unlike the others."""


@pytest.fixture(scope="module")
def groups() -> Iterator[None]:
    with megatron.one_rank():
        yield


def read(text: str) -> dict[str, Any]:
    return dict(yaml.safe_load(f"{{{text}}}"))


def asked(shape: str | dict[str, Any], **keys: Any) -> Train:
    keys = {"strategy": "3d", "micro_batch": 1, "seq_len": 1024, **keys}
    return train("megatron", model=shape, **keys)


def described(one: Train, **more: Any) -> tuple[Configured, Architecture]:
    arch = find_architecture(one, {})
    assert arch is not None
    return configure(request(one, **more)), arch


def compare(given: Configured, arch: Architecture) -> None:
    """The plan's parameters, its vocabulary padded as Megatron-LM does, are the training's."""
    args = megatron.validated([str(word) for word in given.args])
    tokens = arch.vocab or 1000
    rows = megatron.pad_vocabulary(tokens, args)
    assert args.padded_vocab_size in {None, rows}
    padding = (rows - arch.vocab) * arch.hidden * (1 if arch.tied else 2)
    assert megatron.count_parameters(args, tokens) == build_model(arch).count + padding


@pytest.mark.train("torch", "megatron")
@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tp", [1, 4])
def test_the_model_that_is_trained_is_the_one_that_is_planned(name: str, tp: int) -> None:
    given, arch = described(asked(read(SHAPES[name]), tp=tp))
    assert not given.faults
    compare(given, arch)


@pytest.mark.train("torch", "megatron")
@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("name", [row.id for row in shapes()])
def test_a_model_of_the_catalogue_is_built_or_refused(name: str) -> None:
    one = asked(name)
    given, arch = described(one)
    if name in BUILT:
        assert not given.faults
    if given.faults:
        (fault,) = given.faults
        assert fault.code == "J252"
        assert name in fault.message
        return
    layers = min(arch.layers, 4)  # the others are like them
    arch = arch._replace(layers=layers)
    compare(configure(request(one)._replace(model=arch)), arch)


_shapes = st.fixed_dictionaries(
    {"layers": st.integers(1, 2), "hidden": st.just(32), "heads": st.sampled_from([2, 4])},
    optional={
        "kv_heads": st.sampled_from([1, 2]),
        "head_dim": st.sampled_from([4, 24]),
        "ffn": st.sampled_from([48, 128]),
        **dict.fromkeys(("gated", "tied", "bias", "qkv_bias", "qk_norm"), st.booleans()),
        "vocab": st.sampled_from([100, 256, 1000]),
        "positions": st.sampled_from([1024, 2048]),
        "norm": st.sampled_from(["rmsnorm", "layernorm"]),
        "experts": st.sampled_from([1, 4]),
        "experts_active": st.integers(1, 2),
        "expert_ffn": st.just(40),
        "shared_ffn": st.just(24),
    },
)


@pytest.mark.train("torch", "megatron")
@pytest.mark.usefixtures("groups")
@given(_shapes, st.sampled_from([1, 2]))
@example(read("layers: 2, hidden: 32, heads: 4, experts: 4, bias: true"), 1)
@example(read("layers: 2, hidden: 32, heads: 4, bias: true, qkv_bias: false"), 1)
def test_whatever_is_written_is_trained_as_planned_or_refused(
    shape: dict[str, Any], tp: int
) -> None:
    if tp > shape.get("kv_heads", tp):
        tp = 1
    given, arch = described(asked(shape, tp=tp))
    if not given.faults:
        compare(given, arch)
    for fault in given.faults:
        assert fault.code == "J252"
        assert fault.hint


@pytest.mark.parametrize(
    ("shape", "keys", "path", "word"),
    [
        ("bias: true, qkv_bias: false", {}, ("model", "qkv_bias"), "bias: true"),
        ("experts: 4, bias: true", {"tp": 2}, ("model", "bias"), "bias: false"),
        ("experts: 4, bias: true, shared_ffn: 8", {}, ("model", "bias"), "shared_ffn"),
    ],
)
def test_what_no_argument_can_say_of_a_mapping_is_refused_where_it_stands(
    shape: str, keys: dict[str, Any], path: tuple[str, ...], word: str
) -> None:
    whole = read(f"layers: 2, hidden: 64, heads: 4, {shape}")
    given, _ = described(asked(whole, **keys))
    assert [(fault.code, fault.path) for fault in given.faults] == [("J252", path)]
    assert word in given.faults[0].hint
    assert not given.args


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("google/gemma-2b", "GELU in a gated layer"),
        ("google/gemma-2-2b", "4 norms per layer"),
        ("facebook/opt-1.3b", "ReLU"),
        ("facebook/opt-350m", "narrower"),
        ("bigscience/bloom", "ALiBi"),
        ("tiiuae/falcon-rw-1b", "ALiBi"),
        ("tiiuae/falcon-7b", "1 norm per layer"),
        ("tiiuae/falcon-40b", "parallel to the feed-forward layer"),
        ("EleutherAI/pythia-1b", "parallel to the feed-forward layer"),
        ("EleutherAI/gpt-neo-1.3B", "biases in some"),
        ("allenai/OLMo-7B-hf", "no norms per layer"),
        ("allenai/OLMo-2-1124-7B", "over all heads"),
        ("CohereForAI/c4ai-command-r-v01", "LayerNorm without a bias"),
        ("microsoft/phi-2", "a bias in the output layer"),
        ("openai/gpt-oss-20b", "clamped"),
    ],
)
def test_a_model_that_no_argument_can_say_is_refused_with_all_reasons(name: str, why: str) -> None:
    (fault,) = described(asked(name))[0].faults
    assert fault.code == "J252"
    assert name in fault.message
    assert why in fault.message


LLAMA = "layers: 8, hidden: 64, heads: 8, ffn: 192, vocab: 1000"


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("--num-layers 12", "--num-layers 12 instead of 8"),
        ("--num-layers=12 --hidden-size 64", "--num-layers 12 instead of 8"),
        ("--normalization LayerNorm", "--normalization LayerNorm instead of RMSNorm"),
        ("--rotary-percent 0.5", "--rotary-percent 0.5 instead of 1.0"),
        ("--padded-vocab-size 512", "--padded-vocab-size 512 instead of 1024"),
        ("--add-qkv-bias --num-experts 8", "--add-qkv-bias, --num-experts"),
        ("--group-query-attention --num-query-groups 2", "--group-query-attention"),
    ],
)
def test_another_model_in_run_is_refused(words: str, other: str) -> None:
    given, _ = described(asked(read(LLAMA)), run_args=tuple(words.split()))
    (fault,) = given.faults
    assert (fault.code, fault.path) == ("J252", ("model",))
    assert fault.message.endswith(f": {other}")
    assert "remove them from run:" in fault.hint


def test_learned_positions_and_rotary_ones_in_run_are_two_models() -> None:
    words = ("--use-rotary-position-embeddings",)
    assert not described(asked(read(LLAMA)), run_args=words)[0].faults
    assert described(asked(read(f"{LLAMA}, positions: 1024")), run_args=words)[0].faults


@pytest.mark.parametrize(
    "words",
    [
        "--num-layers 8 --swiglu --normalization=RMSNorm --rotary-percent 1",
        "--num-layers $LAYERS",
        "--max-position-embeddings 4096",
        "--lr 1e-4 --data-path my/data",
    ],
)
def test_the_same_model_in_run_is_taken(words: str) -> None:
    assert not described(asked(read(LLAMA)), run_args=tuple(words.split()))[0].faults


def test_the_vocabulary_is_padded_as_run_asks() -> None:
    def rows(*words: str, tp: int = 1) -> int | None:
        given, _ = described(asked(read(LLAMA), tp=tp), run_args=words)
        assert not given.faults
        count = megatron.validated([str(word) for word in given.args]).padded_vocab_size
        return None if count is None else int(count)

    assert rows() == 1024
    assert rows(tp=8) == 1024
    assert rows("--make-vocab-size-divisible-by", "16") == 1008
    assert rows("--make-vocab-size-divisible-by=16", tp=8) == 1024
    assert rows("--padded-vocab-size", "2048") is None


def test_a_model_of_the_programs_own_is_left_to_it() -> None:
    for name in ("--yaml-cfg", "--use-checkpoint-args"):
        given, _ = described(asked("google/gemma-2b"), run_args=(name,))
        assert not given.faults
        assert "--num-layers" not in given.args
        assert any(name in note.message for note in given.notes)
    given, _ = described(asked(read(LLAMA)), run_args=("--spec", "my.layers", "spec"))
    assert "--num-layers" in given.args
    given, _ = described(asked("google/gemma-2b"), run_args=("--spec", "my.layers", "spec"))
    assert not given.faults
    assert "--num-layers" not in given.args


def test_layers_without_attention_are_left_to_the_program_that_brings_them() -> None:
    given, _ = described(asked("Qwen/Qwen3.5-9B"))
    (fault,) = given.faults
    assert "layers without attention, gated attention" in fault.message
    words = ("--experimental-attention-variant", "gated_delta_net")
    given, _ = described(asked("Qwen/Qwen3.5-9B"), run_args=words)
    assert not given.faults
    assert "--num-layers" not in given.args


def of_config(data: dict[str, Any], *words: str) -> Configured:
    texts = {"model/config.json": json.dumps(data).encode()}
    one = asked("model/config.json")
    known, found = read_sizes(one, texts)
    assert not found
    decided = decide(one, known, RankLayout(2, 4, "infiniband"), launcher="torchrun")
    model = find_architecture(one, texts)
    return configure(FrameworkRequest(decided, 2, 4, model=model, run_args=words))


CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "vocab_size": 1000,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    ("more", "base", "part"),
    [
        ({}, 10000, 1.0),
        ({"rope_theta": 500000.0}, 500000, 1.0),
        ({"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}}, 1000000, 0.5),
        ({"rope_theta": True, "partial_rotary_factor": 7}, 10000, 1.0),
        ({"rope_theta": 12.5}, 10000, 1.0),
    ],
)
def test_the_rotation_of_a_config_file_is_passed(
    more: dict[str, Any], base: int, part: float
) -> None:
    given = of_config({**CONFIG, **more})
    args = megatron.validated([str(word) for word in given.args])
    assert (args.num_layers, args.rotary_base, args.rotary_percent) == (4, base, part)
    (note,) = [note for note in given.notes if "defaults apply" in note.message]
    assert ("--rotary-base 10000" in note.message) is (base == 10000)
    unknown = "--rotary-base and --norm-epsilon" if base == 10000 else "--norm-epsilon"
    assert note.hint == (
        "model/config.json has no dropout: add --hidden-dropout 0.0 --attention-dropout 0.0 to "
        f"run:, and {unknown} if it has other values"
    )


def test_numbers_of_a_model_that_size_nothing_are_passed() -> None:
    given = of_config({**CONFIG, "rms_norm_eps": 1e-6, "rope_theta": 5e5})
    args = megatron.validated([str(word) for word in given.args])
    assert (args.layernorm_epsilon, args.rotary_base) == (1e-6, 500000)
    (note,) = [note for note in given.notes if "defaults apply" in note.message]
    assert "--norm-epsilon" not in note.message
    own = of_config({**CONFIG, "rms_norm_eps": 1e-6}, "--norm-epsilon", "1e-5")
    assert "--norm-epsilon" not in own.args


def test_a_mixture_of_the_catalogue_passes_its_loss_of_balance() -> None:
    arch = find_model("mistralai/Mixtral-8x7B-v0.1")
    assert arch is not None
    assert (arch.rotary_base, arch.norm_epsilon, arch.balance_loss) == (1000000, 1e-5, 0.02)
    given, _ = described(asked("mistralai/Mixtral-8x7B-v0.1"))
    words = [str(word) for word in given.args]
    assert words[words.index("--moe-aux-loss-coeff") + 1] == "0.02"


def test_what_the_program_cannot_start_without_is_a_warning_before_the_notes() -> None:
    given = of_config(CONFIG, "--seq-length", "128")
    first, *others = given.notes
    assert (first.severity, first.hint) == ("warning", "pass --tokenizer-type in run:")
    assert all(note.severity == "note" for note in others)


def test_what_the_hint_names_is_passed() -> None:
    given = of_config(CONFIG, *["--rotary-base", "500000"])
    (note,) = [note for note in given.notes if "defaults apply" in note.message]
    assert "--rotary-base" not in note.message


def test_a_file_that_leaves_doubts_is_not_passed_and_said_so() -> None:
    for data in ({**CONFIG, "model_type": "unheard"}, {**CONFIG, "vision_config": {}}):
        text = dict(data) if "vision_config" not in data else {"text_config": CONFIG, **data}
        given = of_config(text)
        assert not given.faults
        assert "--num-layers" not in given.args
        assert any("model/config.json is not passed on" in note.message for note in given.notes)


def test_what_the_mapping_leaves_open_is_shown_as_assumed() -> None:
    given, _ = described(asked(read("layers: 8, hidden: 64, heads: 8, ffn: 192, vocab: 1000")))
    for name in ("--swiglu", "--normalization", "--disable-bias-linear"):
        assert given.chosen[name].why.startswith("assumed: train.model does not set ")
    said = read("layers: 8, hidden: 64, heads: 8, ffn: 192, gated: true, norm: rmsnorm")
    given, _ = described(asked({**said, "bias": False, "positions": 1024}))
    assert not [name for name, setting in given.chosen.items() if "assumed" in setting.why]
