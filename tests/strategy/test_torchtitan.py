"""torchtitan's words: read back by its own parser of command lines, and by its own mesh."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import warnings
from typing import Any

import pytest

from jobgen.shell import Raw
from jobgen.strategy.frameworks import Configured, FrameworkRequest, configure
from tests.strategy.made import CHECKPOINTS, grid, made, request, train

PARSED = pytest.mark.train("torch", "tyro", "torchtitan")
RECOMPUTE = {"none": None, "selective": "SelectiveAC.Config", "full": "FullAC.Config"}


def read(given: Configured, *model: str) -> Any:
    """torchtitan's own configuration of these words, over that of a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchtitan.config import ConfigManager

        words = [*model] or ["--module", "tests.strategy.titan", "--config", "small"]
        return ConfigManager().parse_args([*words, *map(str, given.args)])


def differences(config: Any, one: FrameworkRequest) -> dict[str, tuple[Any, Any]]:
    """Key → what torchtitan has and what was meant, where they are not the same."""
    strategy = one.strategy
    mesh, batch, division, training = (
        strategy.mesh,
        strategy.batch,
        config.parallelism,
        config.training,
    )
    assert batch is not None
    piped = mesh.pp > 1
    reshard = {True: "always", False: "never"}[bool(strategy.settings.reshard_after_forward)]
    recompute = config.activation_checkpoint
    pairs = {
        "replicate": (division.data_parallel_replicate_degree, mesh.replicate),
        "shard": (division.data_parallel_shard_degree, mesh.shard),
        "tp": (division.tensor_parallel_degree, mesh.tp),
        "pp": (division.pipeline_parallel_degree, mesh.pp),
        "cp": (division.context_parallel_degree, mesh.cp),
        "ep": (division.expert_parallel_degree, mesh.ep),
        "reshard": (
            division.fsdp_reshard_after_forward,
            reshard if strategy.name == "fsdp2" else "default",
        ),
        "micro": (
            division.pipeline_parallel_microbatch_size if piped else training.local_batch_size,
            batch.micro,
        ),
        "local": (training.local_batch_size, batch.micro * (batch.accumulation if piped else 1)),
        "global": (training.global_batch_size, batch.total),
        "seq_len": (training.seq_len, strategy.seq_len or 4096),
        "dtype": (training.dtype, "float32"),
        "param": (
            training.mixed_precision_param,
            "bfloat16" if strategy.precision == "bf16" else "float32",
        ),
        "clipping": (training.max_norm, strategy.clipping or 1.0),
        "offload": (training.enable_cpu_offload, bool(strategy.offload)),
        "graphs": (training.disable_cuda_graphs, piped or mesh.ep > 1),
        "recompute": (
            recompute and type(recompute).__qualname__,
            RECOMPUTE[strategy.recompute],
        ),
        "checkpoint": (config.checkpoint.enable, True),
        "folder": (config.checkpoint.folder, CHECKPOINTS),
        "steps": (training.steps, 3),
        "timeout": (
            (config.comm.init_timeout_seconds, config.comm.train_timeout_seconds),
            (strategy.timeout,) * 2 if strategy.timeout else (300, 100),
        ),
        "optimizer": (config.optimizer.implementation == "foreach", strategy.fused is False),
    }
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


@PARSED
def test_its_parser_and_its_mesh_mean_what_was_decided() -> None:
    logging.getLogger().setLevel(logging.CRITICAL)
    from torchtitan.distributed.parallel_dims import ParallelDims

    seen = set()
    for one, given in grid("torchtitan"):
        mesh = one.strategy.mesh
        # the parser takes a tenth of a second: each mesh once, and each setting once a strategy
        keys = {(one.strategy.name, *mesh), (one.strategy.name, *map(str, one.strategy[4:11]))}
        if keys <= seen:
            continue
        seen |= keys
        config = read(given)
        assert differences(config, one) == {}
        dims = ParallelDims.from_config(config.parallelism, mesh.world)
        assert dims.dp_shard * dims.dp_replicate == mesh.data
    assert len(seen) > 20


@PARSED
def test_its_parser_compiles_where_the_plan_does() -> None:
    for compiled in (True, False):
        given = made("torchtitan", strategy="fsdp2", compiled=compiled)
        assert read(given).compile.enable is compiled


@PARSED
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("torchdata") is None, reason="torchtitan's models need torchdata"
)
@pytest.mark.parametrize(
    "keys",
    [
        {"strategy": "ddp"},
        {"strategy": "fsdp-hybrid", "offload": {"what": "both"}},
        {"strategy": "fsdp2", "tp": 2, "pp": 2, "activation_checkpointing": "full"},
        {"strategy": "3d", "tp": 2, "cp": 2, "activation_checkpointing": "selective"},
    ],
)
def test_the_configuration_of_a_model_that_it_ships_accepts_them(keys: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torchtitan.trainer", exc_type=ImportError)
    one = request(train("torchtitan", micro_batch=2, gradient_accumulation=4, **keys))
    config = read(configure(one), "--module", "llama3", "--config", "llama3_debugmodel")
    found = differences(config, one)
    assert set(found) <= {"seq_len", "steps"}  # the model's own


def test_the_command_for_recomputation_stands_last() -> None:
    for _, given in grid("torchtitan"):
        commands = [arg for arg in given.args if str(arg).startswith("activation-checkpoint:")]
        assert given.args[-1:] == tuple(commands)


def test_the_checkpoints_place_is_a_word_of_bash_and_runs_own_stays() -> None:
    assert [arg for arg in made("torchtitan").args if isinstance(arg, Raw)] == [CHECKPOINTS]
    words = ("--checkpoint.folder=mine", "--checkpoint.no-enable")
    args = made("torchtitan", words=words).args
    assert not any(str(arg).startswith("--checkpoint") for arg in args)


def test_with_pp_the_whole_step_is_one_pass_of_the_schedule() -> None:
    args = [str(a) for a in made("torchtitan", strategy="3d", pp=2).args]
    said = dict(itertools.pairwise(args))
    assert said["--training.local_batch_size"] == "8"
    assert said["--parallelism.pipeline_parallel_microbatch_size"] == "2"
    assert said["--training.global_batch_size"] == str(8 * 4)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (1, "1 micro-batch does not fill a pipeline of 4 stages"),
        (2, "2 micro-batches do not fill a pipeline of 4 stages"),
        (4, ""),
    ],
)
def test_a_pipeline_that_is_never_full_is_warned_of(steps: int, said: str) -> None:
    keys: dict[str, Any] = {"strategy": "3d", "pp": 4, "gradient_accumulation": steps}
    told = [note for note in made("torchtitan", **keys).notes if " fill a pipe" in note.message]
    assert [note.message.partition(",")[0] for note in told] == ([said] if said else [])
    for note in told:
        assert note.severity == "warning"
        assert note.hint == "set gradient_accumulation: 4, or global_batch: 16"
    full = made("torchtitan", **{**keys, "gradient_accumulation": 4})
    assert dict(itertools.pairwise(map(str, full.args)))["--training.global_batch_size"] == "16"


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"precision": "fp16"}, ("precision",)),
        ({"wrap": ["Block"]}, ("wrap",)),
        ({"gpus": False}, ("framework",)),
        ({"strategy": {"type": "fsdp2", "reduce_dtype": "bf16"}}, ("strategy", "reduce_dtype")),
        (
            {"strategy": {"type": "fsdp2", "reshard_after_forward": 2}},
            ("strategy", "reshard_after_forward"),
        ),
        ({"strategy": "fsdp2", "tp": 2, "cp": 2, "seq_len": 124}, ("seq_len",)),
        ({"strategy": "3d", "ep": 2}, ("ep",)),
        ({"words": ("-m", "torchtitan.train", "activation-checkpoint:full")}, None),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_way_out(
    keys: dict[str, Any], path: tuple[str, ...] | None
) -> None:
    given = made("torchtitan", **keys)
    (fault,) = given.faults
    assert fault.path == (path or ("activation_checkpointing",))
    assert fault.hint
    assert not given.args


def test_the_hinted_sequence_length_is_taken() -> None:
    keys = {"strategy": "fsdp2", "tp": 2, "cp": 2}
    (fault,) = made("torchtitan", seq_len=124, **keys).faults
    length = int(fault.hint.rsplit(" ", 1)[1])
    assert made("torchtitan", seq_len=length, **keys).args


@pytest.mark.parametrize(
    ("model", "config", "other"),
    [
        ("meta-llama/Llama-3.1-8B", "llama3_8b", False),
        ("meta-llama/Llama-3.1-8B", "llama3_8b_mxfp8", False),
        ("meta-llama/Llama-3.1-8B", "llama3_70b", True),
        ("Qwen/Qwen3-0.6B", "qwen3_0_6b", False),
        ("Qwen/Qwen3-1.7B", "qwen3_0_6b", True),
        ("Qwen/Qwen3-30B-A3B", "qwen3_30b_a3b", False),
        ("deepseek-ai/DeepSeek-V2-Lite", "deepseek_v3_16b", False),
        ("meta-llama/Llama-3.1-8B", "my_model", False),
    ],
)
def test_a_configuration_of_another_size_than_the_planned_one_is_noted(
    model: str, config: str, other: bool
) -> None:
    notes = made("torchtitan", model=model, words=("--module", "m", "--config", config)).notes
    assert any(f"--config {config}, but train.model has" in note.message for note in notes) is other


def test_parameters_in_16_bits_are_asked_for() -> None:
    for pure, dtype in ((True, "bfloat16"), (False, "float32")):
        words = [str(word) for word in made("torchtitan", pure=pure).args]
        assert words[words.index("--training.dtype") + 1] == dtype
