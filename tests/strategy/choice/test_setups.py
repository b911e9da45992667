"""What the planner counts of a strategy's settings."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.form import Refusal, check_form
from jobgen.model.parallel import Parallel
from jobgen.model.train import Train
from jobgen.model.trained import Lora
from jobgen.strategy import decide
from jobgen.strategy.choice.setups import build_setup
from jobgen.strategy.memory import find_peak
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed.products import is_narrow, is_rowwise
from tests.strategy.choice.asked import ask


def setup(framework: str = "torch", strategy: dict[str, Any] | None = None, **keys: Any) -> Setup:
    asked = ask(
        "meta-llama/Llama-3.2-1B",
        framework=framework,
        **{**keys, "strategy": Parallel(**(strategy or {"type": "ddp"}))},
    )
    decided = decide(asked.train, asked.sizes, asked.world, launcher="torchrun")
    return build_setup(decided, asked)


def peak(asked: Setup) -> float:
    """Bytes that torch has allocated at most."""
    return find_peak(asked).parts.allocated


@pytest.mark.parametrize(("framework", "found"), [("megatron", (4, True)), ("torch", (1, False))])
def test_words_of_the_program_say_how_megatron_sends(
    framework: str, found: tuple[int, bool]
) -> None:
    words = ("--num-virtual-stages-per-pipeline-rank", "4", "--tp-comm-overlap")
    asked = ask(
        "meta-llama/Llama-3.2-1B",
        framework=framework,
        strategy=Parallel(type="3d"),
        pp=2,
        tp=2,
        micro_batch=1,
        global_batch=16,
    )._replace(run_args=words)
    decided = decide(asked.train, asked.sizes, asked.world, launcher="torchrun")
    made = build_setup(decided, asked)
    assert (made.chunks, made.overlap_tp) == found


@pytest.mark.parametrize(
    ("words", "strategy", "beside"),
    [((), "3d", False), (("--overlap-grad-reduce",), "3d", True), ((), "zero1", True)],
)
def test_megatron_reduces_beside_the_backward_pass_where_it_is_passed_the_option(
    words: tuple[str, ...], strategy: str, beside: bool
) -> None:
    assert megatron(words, strategy).overlap_reduce is beside


def test_legacy_models_of_megatron_have_layers_of_single_operations() -> None:
    found, legacy = megatron(()), megatron(("--use-legacy-models",))
    assert (found.legacy, found.repeat_kv, found.fused_activation) == (False, False, True)
    assert (legacy.legacy, legacy.repeat_kv, legacy.fused_activation) == (True, True, False)


@pytest.mark.parametrize(
    ("words", "drops"),
    [
        ((), True),
        (("--hidden-dropout", "0.1"), True),
        (("--hidden-dropout", "$RATE"), True),
        (("--hidden-dropout", "0.0"), False),
        (("--hidden-dropout=0",), False),
    ],
)
def test_megatron_drops_out_unless_its_words_say_otherwise(
    words: tuple[str, ...], drops: bool
) -> None:
    assert megatron(words).hidden_dropout is drops
    assert not setup().hidden_dropout


@pytest.mark.parametrize(
    ("model", "hidden", "attention"),
    [
        ("openai-community/gpt2", True, True),
        ("facebook/opt-1.3b", True, False),
        ("microsoft/phi-2", True, False),
        ("microsoft/phi-1_5", False, False),
        ("EleutherAI/pythia-1b", False, False),
    ],
)
def test_models_of_transformers_drop_out_what_their_configuration_has(
    model: str, hidden: bool, attention: bool
) -> None:
    asked = ask(model, framework="hf-trainer", strategy=Parallel(type="ddp"))
    decided = decide(asked.train, asked.sizes, asked.world, launcher="torchrun")
    found = build_setup(decided, asked)
    assert (found.hidden_dropout, found.attention_dropout) == (hidden, attention)


def megatron(words: tuple[str, ...], strategy: str = "3d") -> Setup:
    """A program of Megatron-LM with these words."""
    asked = ask(
        "meta-llama/Llama-3.2-1B",
        framework="megatron",
        strategy=Parallel(type=strategy),
        pp=2,
        micro_batch=1,
        global_batch=16,
    )._replace(run_args=words)
    return build_setup(decide(asked.train, asked.sizes, asked.world, launcher="torchrun"), asked)


@pytest.mark.parametrize(
    ("framework", "view", "copied"),
    [
        ("torch", None, False),
        ("torch", False, True),
        ("accelerate", None, True),
        ("accelerate", True, False),
        ("hf-trainer", None, True),
        ("lightning", None, False),
    ],
)
def test_gradients_lie_in_ddps_buckets_or_beside_them(
    framework: str, view: bool | None, copied: bool
) -> None:
    found = setup(framework, {"type": "ddp", "gradient_as_bucket_view": view})
    assert (found.copied_grads, found.persistent_grads) == (copied, not copied)


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_a_model_that_is_quantized_is_prepared_whatever_its_bits(bits: int) -> None:
    found = setup("hf-trainer", lora=Lora(rank=8, bits=bits)).adapters
    assert found is not None
    assert found.prepared == (bits < 16)
    zero = setup("hf-trainer", {"type": "zero2"}, lora=Lora(rank=8, bits=bits)).adapters
    assert zero is not None
    assert not zero.prepared, "DeepSpeed makes the model 16 bits wide again"


@pytest.mark.parametrize(("framework", "kept"), [("torchtitan", True), ("megatron", False)])
def test_torchtitans_linear_layers_keep_what_tp_gathers(framework: str, kept: bool) -> None:
    found = setup(framework, {"type": "3d"}, tp=2)
    assert (found.sequence_parallel, found.keeps_gathered) == (True, kept)
    assert not setup(framework, {"type": "3d"}, pp=2).keeps_gathered


def test_torchtitans_norms_are_torchs_own_kernels() -> None:
    assert [setup(name).joined_norms for name in ("torchtitan", "torch")] == [True, False]


def test_copied_gradients_cost_their_bytes_once_more() -> None:
    def find(view: bool, **batch: int) -> Setup:
        return setup(strategy={"type": "ddp", "gradient_as_bucket_view": view}, **batch)

    added = {"micro_batch": 1, "global_batch": 64}
    apart, views = find(view=False, **added), find(view=True, **added)
    assert apart.batch.accumulation > 1
    more = peak(apart) - peak(views)
    assert more == pytest.approx(4 * apart.model.count, rel=0.01)
    # those of one micro-batch are None until the loss is computed, where memory is most
    assert peak(find(view=False)) == pytest.approx(peak(find(view=True)), rel=0.01)


def test_a_fused_optimizer_makes_no_temporaries() -> None:
    assert setup(fused=True).fused_step
    assert not setup(fused=False).fused_step
    assert not setup("hf-trainer", fused=False).fused_step
    assert peak(setup(fused=True)) <= peak(setup(fused=False))


@pytest.mark.parametrize(
    ("strategy", "width"),
    [
        ({"type": "fsdp2"}, 4),
        ({"type": "fsdp2", "reduce_dtype": "bf16"}, 2),
        ({"type": "ddp"}, 4),
        ({"type": "ddp", "hook": "bf16"}, 2),
        ({"type": "zero2"}, 2),
        ({"type": "zero2", "reduce_dtype": "fp32"}, 4),
    ],
)
def test_gradients_travel_in_the_type_that_the_job_asks_for(
    strategy: dict[str, Any], width: int
) -> None:
    kind = "deepspeed" if strategy["type"] == "zero2" else "torch"
    assert setup(kind, strategy).recipe.reduce == width


def test_a_full_state_dict_gathers_the_whole_model_once() -> None:
    assert setup(strategy={"type": "fsdp", "state_dict": "full"}).keeps_full_copy
    assert not setup(strategy={"type": "fsdp"}).keeps_full_copy


@pytest.mark.parametrize(
    ("written", "narrow", "rowwise"),
    [(True, True, False), ("rowwise", True, True), (False, False, False)],
)
def test_fp8_has_a_scale_for_each_tensor_or_for_each_row(
    written: object, *, narrow: bool, rowwise: bool
) -> None:
    train = check_form(Train)({"model": "gpt2", "fp8": written})
    found = setup(fp8=train.fp8)
    assert (is_narrow(found), is_rowwise(found)) == (narrow, rowwise)


def test_another_word_for_fp8_is_refused() -> None:
    with pytest.raises(Refusal, match="true, false or rowwise"):
        check_form(Train)({"model": "gpt2", "fp8": "columns"})


@pytest.mark.parametrize(
    ("framework", "keys", "micro"),
    [
        ("hf-trainer", {}, 8),  # TrainingArguments' default, because nothing is passed
        ("hf-trainer", {"gradient_accumulation": 2}, 1),
        ("hf-trainer", {"micro_batch": 2}, 2),
        ("torch", {}, 1),
    ],
)
def test_a_batch_that_the_job_does_not_set_is_that_of_the_program(
    framework: str, keys: dict[str, Any], micro: int
) -> None:
    keys = {"micro_batch": None, **keys}
    assert setup(framework, **keys).batch.micro == micro


@pytest.mark.parametrize(
    ("framework", "config", "own"),
    [
        ("deepspeed", None, True),
        ("lightning", None, True),
        ("accelerate", None, False),
        ("hf-trainer", None, False),
        ("accelerate", b"{}", False),
        ("accelerate", b'{"zero_force_ds_cpu_optimizer": true}', True),
        ("hf-trainer", b'{"optimizer": {"type": "AdamW"}}', True),
    ],
)
def test_a_config_decides_whose_adam_steps_on_the_host(
    framework: str, config: bytes | None, own: bool
) -> None:
    asked = ask("meta-llama/Llama-3.2-1B", framework=framework, strategy=Parallel(type="zero2"))
    decided = decide(asked.train, asked.sizes, asked.world, launcher="torchrun", config=config)
    assert build_setup(decided, asked).cpu_adam == own
