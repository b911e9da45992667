"""What accelerate and the Trainer say alike of FSDP: both hand it to accelerate's plugin.

Read: accelerate 1.15, utils/dataclasses.py, utils/fsdp_utils.py and state.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.frameworks import FrameworkRequest
from jobgen.strategy.frameworks.torch import SHARDING
from jobgen.strategy.spec import Strategy, TrainDiagnostic


class FsdpSetting(NamedTuple):
    """One setting of FSDP: its name without a prefix, its value, and why where jobgen chose it."""

    name: str
    value: str | bool | int
    why: str = ""


def list_settings(request: FrameworkRequest) -> Iterator[FsdpSetting]:
    """The settings, in the order of the file. ``choose_resharding`` says the strategy itself."""
    strategy = request.strategy
    version = 2 if strategy.trait.family == "fsdp2" else 1
    yield FsdpSetting("version", version)
    yield from _wrap(strategy)
    if strategy.settings.state_dict == "full":
        yield FsdpSetting("state_dict_type", "FULL_STATE_DICT")
    else:
        why = "sharded checkpoints, which load on any number of ranks"
        yield FsdpSetting("state_dict_type", "SHARDED_STATE_DICT", why)
    yield FsdpSetting("activation_checkpointing", strategy.recompute == "full")
    name = strategy.sizes.name
    hub = bool(name) and not name.endswith(".json") and request.gpus
    why = "only rank 0 reads the weights" if hub else "every rank creates the model itself"
    yield FsdpSetting("cpu_ram_efficient_loading", hub, why)
    if version == 1:
        yield from _first(request)


def _wrap(strategy: Strategy) -> Iterator[FsdpSetting]:
    if strategy.min_params is not None:
        yield FsdpSetting("auto_wrap_policy", "SIZE_BASED_WRAP")
        yield FsdpSetting("min_num_params", strategy.min_params)
        return
    why = "shard and recompute layer by layer"
    if not strategy.wrap:
        why += ": those in the model's _no_split_modules"
    yield FsdpSetting("auto_wrap_policy", "TRANSFORMER_BASED_WRAP", why)
    if strategy.wrap:
        yield FsdpSetting("transformer_layer_cls_to_wrap", ",".join(strategy.wrap))


def _first(request: FrameworkRequest) -> Iterator[FsdpSetting]:
    """What only FSDP1 has."""
    why = "broadcast rank 0's weights to all ranks"
    if not request.gpus:
        why = "every rank creates the model from the same seed; accelerate's broadcast needs a GPU"
    yield FsdpSetting("sync_module_states", request.gpus, why)
    why = "keep the names, groups and shapes of parameters"
    yield FsdpSetting("use_orig_params", value=True, why=why)
    why = "gather the next layer while computing this one's gradients; torch's default"
    yield FsdpSetting("backward_prefetch", "BACKWARD_PRE", why)


def choose_resharding(request: FrameworkRequest) -> str | bool:
    """The ShardingStrategy of FSDP1; whether FSDP2 frees what it gathered."""
    strategy = request.strategy
    if strategy.trait.family == "fsdp2":
        return bool(strategy.settings.reshard_after_forward)
    return SHARDING[strategy.name]


def check_plugin(request: FrameworkRequest, title: str) -> Iterator[TrainDiagnostic]:
    """What the plugin cannot say."""
    strategy, mesh = request.strategy, request.strategy.mesh
    reshard = strategy.settings.reshard_after_forward
    if not isinstance(reshard, bool):
        message = f"{title} accepts true or false for reshard_after_forward, not {reshard}"
        path = ("strategy", "reshard_after_forward")
        yield TrainDiagnostic("J236", message, path, "use true, or framework: torch")
    if strategy.name == "fsdp-hybrid" and not request.gpus:
        message = "HYBRID_SHARD shards over the GPUs of a node, but these ranks have no GPUs"
        yield TrainDiagnostic(
            "J236", message, ("strategy",), "set strategy: {type: fsdp2, shard: N}"
        )
    elif strategy.name == "fsdp-hybrid" and mesh.shard != request.ranks_per_node:
        message = (
            f"{title} with HYBRID_SHARD always shards over the {request.ranks_per_node} ranks "
            "of a node"
        )
        hint = f"remove shard, or set strategy: {{type: fsdp2, shard: {mesh.shard}}}"
        yield TrainDiagnostic("J236", message, ("strategy", "shard"), hint)
