"""Requests to frameworks made of a few words, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from jobgen.model.parallel import STRATEGIES, Parallel
from jobgen.model.train import FRAMEWORKS, Train
from jobgen.strategy import RankLayout, check_train, decide
from jobgen.strategy.frameworks import Configured, FrameworkRequest, configure
from jobgen.strategy.model_sizes import find_architecture, read_sizes
from jobgen.strategy.spec import TRAITS, TrainDiagnostic

SHAPE = {"layers": 8, "hidden": 64, "heads": 8, "kv_heads": 4, "ffn": 256}
LLAMA_CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 100,
}
"""A config.json as small as one can be."""
EXPERTS = {**SHAPE, "experts": 4}
BATCH = {"micro_batch": 2, "gradient_accumulation": 4}
CHECKPOINTS = '"$JOBGEN_CHECKPOINT_DIR"'

DEGREES: tuple[Mapping[str, int], ...] = (
    {},
    {"tp": 2},
    {"pp": 2},
    {"cp": 2},
    {"ep": 2},
    {"tp": 2, "pp": 2},
    {"tp": 4, "ep": 2},
    {"tp": 4, "ep": 4},
    {"tp": 4, "ep": 2, "etp": 2},
    {"tp": 2, "cp": 2},
    {"tp": 2, "pp": 2, "cp": 2},
)
SETTINGS: tuple[Mapping[str, Any], ...] = (
    {},
    {"seq_len": 128, "gradient_clipping": 0.5},
    {"precision": "fp16"},
    {"precision": "fp32", "activation_checkpointing": "selective"},
    {"activation_checkpointing": "full", "micro_batch": 1, "gradient_accumulation": 8},
    {"offload": {"what": "both"}},
    {"offload": {"what": "optimizer"}},
    {"timeout": "90s", "fused": True},
    {"wrap": {"min_params": 1_000_000}},
)
KINDS: tuple[Mapping[str, Any], ...] = (
    *({"type": name} for name in TRAITS),
    {"type": "ddp", "hook": "bf16"},
    {"type": "ddp", "bucket_mb": 50, "static_graph": True},
    {"type": "ddp", "find_unused_parameters": True, "broadcast_buffers": False},
    {"type": "ddp", "gradient_as_bucket_view": False},
    {"type": "fsdp", "reduce_dtype": "fp32", "buffer_dtype": "bf16", "state_dict": "full"},
    {"type": "fsdp2", "reduce_dtype": "fp32", "state_dict": "full"},
    {"type": "zero1", "reduce_dtype": "bf16"},
    {"type": "zero3", "reduce_dtype": "fp32"},
    {"type": "fsdp2", "reshard_after_forward": False},
    {"type": "fsdp2", "shard": 2},
    {"type": "fsdp-hybrid", "shard": 2},
)


_axis = st.sampled_from([1, 1, 1, 2, 3, 4, 8, 16])
_count = st.none() | st.integers(1, 512)
worlds: st.SearchStrategy[RankLayout] = st.builds(
    RankLayout,
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from(["infiniband", "ethernet", None]),
    gpus=st.booleans(),
)
_keys = {
    "strategy": st.builds(
        lambda kind, reshard, shard: {
            "type": kind,
            **({"reshard_after_forward": reshard} if kind == "fsdp2" else {}),
            **({"shard": shard} if shard and kind in {"fsdp2", "fsdp-hybrid"} else {}),
        },
        st.sampled_from(STRATEGIES),
        st.sampled_from([True, False, 2, 3, 4]),
        st.none() | st.sampled_from([2, 3, 4, 8]),
    ),
    "framework": st.none() | st.sampled_from(FRAMEWORKS),
    "model": st.none()
    | st.fixed_dictionaries(
        {
            "layers": st.integers(1, 48),
            "hidden": st.just(768),
            "heads": st.sampled_from([1, 2, 6, 12, 16, 32]),
            "kv_heads": st.sampled_from([1, 2, 4, 6]),
            "experts": st.sampled_from([1, 3, 8]),
        }
    ),
    **dict.fromkeys(("tp", "pp", "cp", "ep"), _axis),
    "etp": st.none() | st.sampled_from([1, 2]),
    "dp": st.none() | st.sampled_from([1, 2, 4, 16]),
    "seq_len": st.none() | st.integers(1, 4096),
    **dict.fromkeys(("micro_batch", "gradient_accumulation", "global_batch"), _count),
    "offload": st.sampled_from(["none", "optimizer", "params", "both"]).map(
        lambda what: {"what": what}
    ),
}
jobs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(_keys).map(
    lambda keys: {k: v for k, v in keys.items() if v is not None}
)


def train(framework: str, **keys: Any) -> Train:
    """What the job says."""
    kind = keys.pop("strategy", "ddp")
    kind = Parallel(**({"type": kind} if isinstance(kind, str) else kind))
    return Train(framework=framework, strategy=kind, **keys)


def refused(asked: Train, world: RankLayout) -> list[TrainDiagnostic]:
    """What the strategy itself says against it."""
    return list(check_train(asked, read_sizes(asked, {})[0], world, launcher="torchrun"))


def request(asked: Train, nodes: int = 2, each: int = 4, **more: Any) -> FrameworkRequest:
    """What its framework is asked. The strategy has nothing against it."""
    world = RankLayout(nodes, each, "infiniband")
    assert refused(asked, world) == []
    decided = decide(asked, read_sizes(asked, {})[0], world, launcher="torchrun")
    return FrameworkRequest(decided, nodes, each, **{"model": find_architecture(asked, {}), **more})


def made(
    framework: str, *, words: tuple[str, ...] = (), gpus: bool = True, **keys: Any
) -> Configured:
    """What this framework's programs are given on two nodes of four ranks."""
    return configure(request(train(framework, **{**BATCH, **keys}), run_args=words, gpus=gpus))


def grid(framework: str) -> Iterator[tuple[FrameworkRequest, Configured]]:
    """All that strategy and framework have nothing against: kinds x degrees x settings."""
    for kind in KINDS:
        for degrees in DEGREES:
            for setting in SETTINGS:
                keys = {"model": EXPERTS, **BATCH, **degrees, **setting}
                asked = train(framework, strategy=kind, **keys)
                if refused(asked, RankLayout(2, 4, "infiniband")):
                    continue
                one = request(asked)
                given = configure(one)
                if not given.faults:
                    yield one, given
