"""The catalogue of DeepSpeed's configuration keys, read out of the installed DeepSpeed.

``python -m tests.strategy.deepspeed_catalogue`` writes jobgen/data/deepspeed_keys.csv anew; a test
compares the two. Three sources: the fields of the pydantic models; the keys that DeepSpeedConfig
looks up in a mapping that remembers; and names that are read later, by their constant or attribute.
"""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterator, KeysView
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_args

FILE = Path(__file__).parents[2] / "jobgen" / "data" / "deepspeed_keys.csv"


class Row(NamedTuple):
    """A key: its path, what its value is, whether it is still read, and where that stands."""

    path: str
    kind: str
    """``block``: a mapping whose keys are known; ``free``: anything; ``value``; ``auto``: a value
    for which DeepSpeed itself knows "auto"."""
    status: str
    """Empty, ``deprecated`` or ``removed``."""
    instead: str
    source: str


MODELS = {
    "zero_optimization": "runtime.zero.config.DeepSpeedZeroConfig",
    "bf16": "runtime.precision_config.DeepSpeedBF16Config",
    "bfloat16": "runtime.precision_config.DeepSpeedBF16Config",
    "fp16": "runtime.precision_config.DeepSpeedFP16Config",
    "comms_logger": "comm.config.CommsLoggerConfig",
    "tensorboard": "monitor.config.TensorBoardConfig",
    "wandb": "monitor.config.WandbConfig",
    "csv_monitor": "monitor.config.CSVConfig",
    "comet": "monitor.config.CometConfig",
    "hybrid_engine": "runtime.config.HybridEngineConfig",
    "weight_quantization": "inference.config.WeightQuantConfig",
    "compile": "compile.config.CompileConfig",
    "timers.throughput": "utils.config.DeepSpeedThroughputTimerConfig",
    "tensor_parallel": "runtime.tensor_parallel.config.TPTrainingConfig",
}
"""Block → the pydantic model that reads it."""

FREE = (
    "optimizer.params",
    "scheduler.params",
    "datastates_ckpt",
    "autotuning.arg_mappings",
    "autotuning.model_info",
)
"""Blocks whose contents DeepSpeed hands on."""

_DATA = "runtime.data_pipeline.constants"
_CURRICULUM = "data_efficiency.data_sampling.curriculum_learning"
_METRIC = f"{_CURRICULUM}.curriculum_metrics.*"
_LTD = "data_efficiency.data_routing.random_ltd"
CONSTANTS: dict[str, dict[str, tuple[str, ...]]] = {
    _DATA: {
        _CURRICULUM: (
            "CURRICULUM_LEARNING_ENABLED",
            "CURRICULUM_LEARNING_CLUSTER_PATH",
            "CURRICULUM_LEARNING_METRICS",
        ),
        _METRIC: (
            "CURRICULUM_LEARNING_SAMPLE_PATH",
            "CURRICULUM_LEARNING_METRIC_PATH",
            "CURRICULUM_LEARNING_CLUSTERING_TYPE",
            "CURRICULUM_LEARNING_DIFFICULTY_TYPE",
            "CURRICULUM_LEARNING_MIN_DIFFICULTY",
            "CURRICULUM_LEARNING_MAX_DIFFICULTY",
            "CURRICULUM_LEARNING_SCHEDULE_TYPE",
            "CURRICULUM_LEARNING_SCHEDULE_CONFIG",
        ),
        f"{_METRIC}.schedule_config": (
            "CURRICULUM_LEARNING_SCHEDULE_DIFFICULTY",
            "CURRICULUM_LEARNING_SCHEDULE_MAX_STEP",
            "CURRICULUM_LEARNING_SCHEDULE_TOTAL_STEP",
            "CURRICULUM_LEARNING_SCHEDULE_DIFFICULTY_STEP",
            "CURRICULUM_LEARNING_SCHEDULE_ROOT_DEGREE",
        ),
        "data_efficiency.data_sampling.dynamic_batching": (
            "DYNAMIC_BATCHING_METRICS_PATH",
            "DYNAMIC_BATCHING_MAX_TOKENS",
        ),
        _LTD: (
            "RANDOM_LTD_ENABLED",
            "RANDOM_LTD_TOTAL_LAYER_NUM",
            "RANDOM_LTD_LAYER_NUM",
            "RANDOM_LTD_LAYER_ID",
            "RANDOM_LTD_MODEL_MASK_NAME",
            "RANDOM_LTD_MODEL_TYPE",
            "RANDOM_LTD_MICRO_BATCH_SIZE",
            "RANDOM_LTD_GLOBAL_BATCH_SIZE",
            "RANDOM_LTD_HIDDEN_STATE_ORDER",
            "RANDOM_LTD_SCHEDULER",
            "RANDOM_LTD_LAYER_TOKEN_LR_SCHEDULE",
        ),
        f"{_LTD}.random_ltd_schedule": (
            "RANDOM_LTD_MAX_VALUE",
            "RANDOM_LTD_MIN_VALUE",
            "RANDOM_LTD_SCHEDULE_CONFIG",
            "RANDOM_LTD_SCHEDULER_TYPE",
        ),
        f"{_LTD}.random_ltd_schedule.schedule_config": (
            "RANDOM_LTD_INCREASE_STEP",
            "RANDOM_LTD_REQUIRE_STEP",
        ),
        f"{_LTD}.layer_token_lr_schedule": (
            "RANDOM_LTD_LAYER_TOKEN_LR_ENABLED",
            "RANDOM_LTD_TOTAL_LAYER_TOKENS",
            "RANDOM_LTD_WARMUP_TYPE",
            "RANDOM_LTD_WARMUP_LAYER_TOKENS",
        ),
    },
    "runtime.constants": {
        "": ("VOCABULARY_SIZE",),
        "optimizer": ("TYPE", "OPTIMIZER_PARAMS", "LEGACY_FUSION"),
        "scheduler": ("TYPE", "SCHEDULER_PARAMS"),
        "torch_autocast": (
            "TORCH_AUTOCAST_DTYPE",
            "TORCH_AUTOCAST_LOWER_PRECISION_SAFE_MODULES",
        ),
    },
}
"""Module → block → its constants that name keys which are read after the start, or only then."""

OTHERS = {
    "allgather_size": ("deprecated", "zero_optimization.allgather_bucket_size"),
    "pipeline.use_reentrant": ("", ""),
    "expert_parallel.load_balance_coeff": ("", ""),
    "expert_parallel.expert_w3": ("", ""),
    "sequence_parallel_size": ("", ""),
}
"""Keys whose names stand in DeepSpeed's source as plain strings, which a test looks for."""

_INSTEAD = {
    "zero_optimization.cpu_offload_use_pin_memory": "zero_optimization.offload_optimizer.pin_memory"
}


class Remembering(dict[str, Any]):
    """A mapping that remembers which keys were asked for, and with what default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.setdefault(key, default)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.setdefault(key, None)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self.asked.setdefault(key, None)
        return super().__contains__(key)

    def keys(self) -> KeysView[str]:
        return _Keys(self)

    def __copy__(self) -> Remembering:
        return self


class _Keys(KeysView[str]):
    def __init__(self, of: Remembering) -> None:
        self.of = of

    def __contains__(self, key: object) -> bool:
        return key in self.of

    def __iter__(self) -> Iterator[str]:
        return iter(dict.keys(self.of))

    def __len__(self) -> int:
        return len(self.of)


def rows() -> list[Row]:
    """Every key, sorted by its path."""
    found = {
        row.path: row for row in (*_read(), *_models(), *_constants(), *_others(), *_removed())
    }
    for path in sorted({above for key in found for above in _above(key)}):
        row = found.get(path, Row(path, "", "", "", "the keys in it"))
        found[path] = row._replace(kind="block")
    found |= {path: found[path]._replace(kind="free") for path in FREE}
    inside = {path for path in found if any(path.startswith(f"{free}.") for free in FREE)}
    return [found[path] for path in sorted(found.keys() - inside)]


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition(".")[0]:
        yield path


def _models() -> Iterator[Row]:
    for path, name in MODELS.items():
        yield from _fields(path, _symbol(name))
    for old, new in (("bfloat16", "bf16"),):
        yield Row(old, "block", "deprecated", new, "runtime.constants.BFLOAT16_OLD")


def _fields(path: str, model: Any) -> Iterator[Row]:
    from deepspeed.runtime.config_utils import DeepSpeedConfigModel

    source = f"{model.__module__.removeprefix('deepspeed.')}.{model.__name__}"
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra or {}
        status = "deprecated" if extra.get("deprecated") else ""
        instead = extra.get("new_param", "")
        instead = f"{path}.{instead}" if instead else ""
        kind = "auto" if field.default == "auto" else "value"
        nested = [
            t
            for t in (field.annotation, *get_args(field.annotation))
            if isinstance(t, type) and issubclass(t, DeepSpeedConfigModel)
        ]
        kind = "block" if nested else kind
        if dict in (getattr(field.annotation, "__origin__", None), field.annotation):
            kind = "free"
        if any(getattr(t, "__origin__", None) is dict for t in get_args(field.annotation)):
            kind = "free"
        for each in filter(None, (name, field.alias)):
            key = f"{path}.{each}"
            yield Row(key, kind, status, _INSTEAD.get(key, instead), source)
            for inner in nested:
                yield from _fields(key, inner)


def _read() -> Iterator[Row]:
    """What DeepSpeedConfig asks its mapping for, block by block."""
    top = _asked(())
    for name, default in top.items():
        yield from _descend((name,), default)


def _descend(path: tuple[str, ...], default: Any) -> Iterator[Row]:
    dotted = ".".join(path)
    kind = "auto" if default == "auto" else "value"
    yield Row(dotted, kind, "", "", "DeepSpeedConfig")
    if dotted in MODELS or len(path) > 4:
        return
    for name, inner in _asked(path).items():
        yield from _descend((*path, name), inner)


def _asked(path: tuple[str, ...]) -> dict[str, Any]:
    """The keys that are looked up in the mapping at this path."""
    from deepspeed.runtime.config import DeepSpeedConfig

    asked: dict[str, Any] = {}
    for enabled in ({}, {"enabled": True}):
        inner = Remembering(enabled)
        outer: dict[str, Any] = {"train_batch_size": 1}
        if path:
            held: Any = inner
            for name in reversed(path[1:]):
                held = {"enabled": True, name: held}
            outer[path[0]] = held
        else:
            inner = Remembering(outer)
            outer = inner
        with suppress(Exception):
            DeepSpeedConfig(outer)
        asked |= {k: v for k, v in inner.asked.items() if k not in asked}
    return {k: v for k, v in asked.items() if k not in _gone(path)}


def _gone(path: tuple[str, ...]) -> set[str]:
    from deepspeed.runtime import config

    return set() if path else set(config._REMOVED_TOP_LEVEL_CONFIG_KEYS)


def _constants() -> Iterator[Row]:
    for module, blocks in CONSTANTS.items():
        for block, names in blocks.items():
            for name in names:
                value = _symbol(f"{module}.{name}")
                path = f"{block}.{value}" if block else value
                yield Row(path, "value", "", "", f"{module}.{name}")


def _others() -> Iterator[Row]:
    from deepspeed.runtime.config import get_pipeline_config

    for name, default in get_pipeline_config({}).items():
        kind = "auto" if default == "auto" else "value"
        yield Row(f"pipeline.{name}", kind, "", "", "runtime.config.get_pipeline_config")
    for path, (status, instead) in OTHERS.items():
        yield Row(path, "value", status, instead, "a string in the source")


def _removed() -> Iterator[Row]:
    from deepspeed.runtime import config

    tables = (
        ("", config._REMOVED_TOP_LEVEL_CONFIG_KEYS, "_REMOVED_TOP_LEVEL_CONFIG_KEYS"),
        ("zero_optimization.", config._REMOVED_ZERO_CONFIG_KEYS, "_REMOVED_ZERO_CONFIG_KEYS"),
    )
    for block, table, name in tables:
        for key in table:
            yield Row(f"{block}{key}", "free", "removed", "", f"runtime.config.{name}")


def _symbol(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"deepspeed.{module}"), attribute)


def main() -> None:
    """Write the table anew."""
    with FILE.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(Row._fields)
        out.writerows(rows())
    sys.stdout.write(f"{FILE.name}: {sum(1 for _ in FILE.open()) - 1} keys\n")


if __name__ == "__main__":
    main()
