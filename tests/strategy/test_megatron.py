"""Megatron-LM's words: read back by its own argument list, and by megatron-core's configurations.

Its parser is in no package of PyPI; tests/facts/megatron has every argument of it, with the source.
"""

from __future__ import annotations

import argparse
import json
import shlex
import warnings
from typing import Any

import pytest

from jobgen.shell import Raw
from jobgen.strategy.frameworks import Configured, FrameworkRequest
from tests.strategy.made import BATCH, CHECKPOINTS, EXPERTS, SHAPE, grid, made, request, train
from tests.strategy.megatron import make_parser

PARSER = make_parser(defaults=False)


def read(given: Configured) -> argparse.Namespace:
    """What Megatron-LM has of these words; an unknown one, or a wrong value, is an error."""
    assert all(isinstance(arg, str) for arg in given.args)
    return PARSER.parse_args([str(arg) for arg in given.args])


def meant(one: FrameworkRequest) -> dict[str, Any]:
    """What the strategy says, in Megatron-LM's names; None where nothing is to be said."""
    strategy = one.strategy
    mesh, batch = strategy.mesh, strategy.batch
    assert batch is not None
    full = strategy.recompute == "full"
    return {
        "tensor_model_parallel_size": mesh.tp,
        "pipeline_model_parallel_size": mesh.pp,
        "context_parallel_size": mesh.cp if mesh.cp > 1 else None,
        "expert_model_parallel_size": mesh.ep if mesh.ep > 1 else None,
        "expert_tensor_parallel_size": mesh.expert_tp if mesh.tp > 1 and mesh.ep > 1 else None,
        "sequence_parallel": mesh.tp > 1,
        "micro_batch_size": batch.micro,
        "global_batch_size": batch.micro * batch.accumulation * mesh.data,
        "bf16": strategy.precision == "bf16",
        "fp16": strategy.precision == "fp16",
        "use_distributed_optimizer": strategy.name == "zero1",
        "overlap_param_gather": strategy.name == "zero1",
        "optimizer_cpu_offload": strategy.offload.optimizer,
        "use_precision_aware_optimizer": strategy.offload.optimizer,
        "recompute_granularity": None if strategy.recompute == "none" else strategy.recompute,
        "recompute_method": "uniform" if full else None,
        "recompute_num_layers": 1 if full else None,
        "clip_grad": strategy.clipping,
        "seq_length": strategy.seq_len,
        "max_position_embeddings": strategy.seq_len,
        "num_layers": 8,
        "hidden_size": 64,
        "num_attention_heads": 8,
        "kv_channels": 8,
        "ffn_hidden_size": 256,
        "swiglu": True,
        "normalization": "RMSNorm",
        "add_bias_linear": False,
        "position_embedding_type": "rope",
        "rotary_percent": 1.0,
        "untie_embeddings_and_output_weights": True,
        "num_experts": 4,
        "moe_router_topk": 2,
        "moe_ffn_hidden_size": 256,
        "moe_layer_freq": "1",
        "group_query_attention": True,
        "num_query_groups": 4,
        "grad_reduce_in_bf16": "bf16" in (strategy.settings.hook, strategy.settings.reduce_dtype),
        "distributed_timeout_minutes": strategy.timeout and -(-strategy.timeout // 60),
        "save": CHECKPOINTS,
        "load": CHECKPOINTS,
        "save_interval": 500,
        "ckpt_format": "torch_dist",
        "exit_signal_handler": True,
        "overlap_grad_reduce": strategy.name == "zero1",
    }


def test_every_word_is_an_argument_and_means_what_was_decided() -> None:
    untouched = vars(PARSER.parse_args([]))
    count = 0
    for one, given in grid("megatron"):
        count += 1
        expected = {k: v for k, v in meant(one).items() if v is not None}
        assert vars(read(given)) == {**untouched, **expected}
    assert count > 100


def test_experts_are_whole_where_ep_needs_the_ranks_of_tp() -> None:
    size = "--expert-tensor-parallel-size"
    for keys, etp in (({"ep": 2}, 4), ({"ep": 4}, 1), ({"ep": 2, "etp": 2}, 2)):
        words = made("megatron", strategy="zero1", tp=4, model=EXPERTS, **keys).args
        assert words[words.index(size) + 1] == str(etp), keys


def test_it_traces_steps_with_its_own_profiler() -> None:
    given = made("megatron", profile={"steps": "10-12", "ranks": [0, 8]})
    said = PARSER.parse_args(shlex.split(" ".join(map(str, given.args))))
    assert said.profile
    assert said.use_pytorch_profiler
    # it counts from 0, and stops before the last
    assert (said.profile_step_start, said.profile_step_end) == (9, 12)
    assert said.profile_ranks == [0, 8]
    assert said.tensorboard_dir == "$JOBGEN_RUN_DIR/profile"
    own = made("megatron", profile="10-12", words=("--tensorboard-dir", "/mine"))
    assert "--tensorboard-dir" not in own.args


def test_checkpoints_are_one_word_of_bash() -> None:
    given = made("megatron")
    assert [arg for arg in given.args if isinstance(arg, Raw)] == [CHECKPOINTS, CHECKPOINTS]


def test_what_run_says_of_checkpoints_stays() -> None:
    words = ("--save=/mine", "--load", "/mine", "--save-interval", "10", "--ckpt-format", "torch")
    args = made("megatron", words=words).args
    assert not {"--save", "--load", "--save-interval", "--ckpt-format"} & set(args)


def test_the_one_variable_comes_with_tp_or_cp_alone() -> None:
    for one, given in grid("megatron"):
        wanted = one.strategy.mesh.tp > 1 or one.strategy.mesh.cp > 1
        assert ("CUDA_DEVICE_MAX_CONNECTIONS" in given.env) is wanted
    assert made("megatron", strategy="3d", tp=2).env["CUDA_DEVICE_MAX_CONNECTIONS"].value == "1"


def test_sizes_of_a_config_file_are_not_passed_on_and_said_so() -> None:
    text = json.dumps({"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4})
    one = request(train("megatron", model="model/config.json", seq_len=64, **BATCH))
    assert one.strategy.sizes.name == "model/config.json"
    from jobgen.strategy.frameworks import configure
    from jobgen.strategy.model_sizes import read_sizes

    known, found = read_sizes(train("megatron", model="c.json"), {"c.json": text.encode()})
    assert not found
    given = configure(one._replace(strategy=one.strategy._replace(sizes=known)))
    assert read(given).num_layers is None
    assert read(given).seq_length == 64
    assert any("c.json is not passed on" in note.message for note in given.notes)


def test_buckets_are_counted_in_parameters() -> None:
    kind = {"type": "ddp", "bucket_mb": 50}
    sizes = {}
    for precision in ("bf16", "fp16"):
        args = read(made("megatron", strategy=kind, precision=precision))
        assert args.overlap_grad_reduce
        sizes[precision] = args.ddp_bucket_size
    assert sizes == {"bf16": 50 * 2**20 // 4, "fp16": 50 * 2**20 // 2}


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"micro_batch": None, "gradient_accumulation": None}, ("micro_batch",)),
        ({"strategy": {"type": "zero1", "reduce_dtype": "fp16"}}, ("strategy", "reduce_dtype")),
        ({"strategy": {"type": "ddp", "hook": "fp16"}}, ("strategy", "hook")),
        ({"strategy": {"type": "ddp", "hook": "bf16"}, "precision": "fp32"}, ("strategy", "hook")),
        ({"wrap": ["Block"]}, ("wrap",)),
        ({"gpus": False}, ("framework",)),
        ({"strategy": "3d", "tp": 4, "model": SHAPE, "seq_len": 126}, ("seq_len",)),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_way_out(
    keys: dict[str, Any], path: tuple[str, ...]
) -> None:
    if keys.get("micro_batch", 1) is None:
        from jobgen.strategy.frameworks import configure

        given = configure(request(train("megatron")))
    else:
        given = made("megatron", **keys)
    (fault,) = given.faults
    assert fault.path == path
    assert fault.hint
    assert not given.args


def test_the_hinted_sequence_length_is_taken() -> None:
    (fault,) = made("megatron", strategy="3d", tp=4, cp=2, seq_len=124).faults
    length = int(fault.hint.rsplit(" ", 1)[1])
    assert length >= 124
    assert made("megatron", strategy="3d", tp=4, cp=2, seq_len=length).args


def quietly(kind: Any, **keys: Any) -> Any:
    """One of megatron-core's configurations, without its words on defaults of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**keys)


@pytest.mark.train("torch", "megatron")
def test_core_configurations_accept_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their checks are those that ``validate_args`` leaves to them. No GPU is needed."""
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Transformer Engine and Apex are not there
        from megatron.core.distributed import DistributedDataParallelConfig
        from megatron.core.optimizer import OptimizerConfig
        from megatron.core.transformer import TransformerConfig
    torch = pytest.importorskip("torch")
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    seen = set()
    for one, given in grid("megatron"):
        args = read(given)
        model = quietly(
            TransformerConfig,
            num_layers=args.num_layers,
            hidden_size=args.hidden_size,
            num_attention_heads=args.num_attention_heads,
            num_query_groups=args.num_query_groups,
            ffn_hidden_size=args.ffn_hidden_size,
            num_moe_experts=args.num_experts,
            add_bias_linear=False,
            tensor_model_parallel_size=args.tensor_model_parallel_size,
            pipeline_model_parallel_size=args.pipeline_model_parallel_size,
            context_parallel_size=args.context_parallel_size or 1,
            expert_model_parallel_size=args.expert_model_parallel_size or 1,
            expert_tensor_parallel_size=args.expert_tensor_parallel_size,
            sequence_parallel=args.sequence_parallel,
            recompute_granularity=args.recompute_granularity,
            recompute_method=args.recompute_method,
            recompute_num_layers=args.recompute_num_layers,
            bf16=args.bf16,
            fp16=args.fp16,
            params_dtype=dtypes[one.strategy.precision],
            pipeline_dtype=dtypes[one.strategy.precision],
        )
        data = DistributedDataParallelConfig(
            grad_reduce_in_fp32=args.bf16 and not args.grad_reduce_in_bf16,
            overlap_grad_reduce=args.overlap_grad_reduce,
            overlap_param_gather=args.overlap_param_gather,
            use_distributed_optimizer=args.use_distributed_optimizer,
        )
        optimizer = OptimizerConfig(
            bf16=args.bf16,
            fp16=args.fp16,
            params_dtype=dtypes[one.strategy.precision],
            use_distributed_optimizer=args.use_distributed_optimizer,
            # offload asks for the version of Transformer Engine, which needs a GPU's toolkit
            clip_grad=1.0 if args.clip_grad is None else args.clip_grad,
        )
        assert model.sequence_parallel == (one.strategy.mesh.tp > 1)
        assert data.use_distributed_optimizer == optimizer.use_distributed_optimizer
        seen.add(model.recompute_granularity)
    assert seen == {None, "selective", "full"}
