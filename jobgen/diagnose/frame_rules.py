"""Exceptions whose message alone says too little: where they were raised tells the cause."""

from __future__ import annotations

import re

from jobgen.diagnose.failure_rules import Level, Rule
from jobgen.diagnose.tracebacks import Traceback


def _rule(cause: str) -> Rule:
    retry = "yes" if cause == "data_worker" else ""  # it vanished, and nothing shows why
    return Rule(cause, Level.ROOT, "rank", (), re.compile(""), "", retry, "CPython, PyTorch")


_MULTIPROCESSING = r"multiprocessing/(?:connection|resource_sharer|reduction|managers|pool)\.py"
_FRAMEWORKS = (
    r"deepspeed/runtime/(?:config|zero/config)\w*\.py|accelerate/utils/dataclasses\.py"
    r"|transformers/training_args\.py|lightning\S*/(?:connectors|strategies)/"
    r"|fsdp/(?:_init_utils|_wrap_utils|wrap|fully_sharded)\w*\.py"
)
ROWS = (
    (
        r"Errno (?:28|12)\]|Bus error",
        r"multiprocessing/(?:synchronize|shared_memory|heap|queues)|_share_\w+_cpu_",
        "shared_memory",
    ),
    (
        r"^(?:Connection\w+Error|EOFError|BrokenPipeError|OSError: \[Errno 9\])",
        _MULTIPROCESSING,
        "data_worker",
    ),
    (
        r"^(?:OSError: \[Errno 22\]|EOFError|\w*DecodeError|KeyError|\w+: .*header)",
        r"torch/serialization\.py|safetensors/\w+\.py|in safe_open|zipfile\.py",
        "checkpoint_damaged",
    ),
    (
        r"^(?:AssertionError|ValueError|RuntimeError|KeyError|TypeError|NotImplementedError)",
        r"device_mesh\.py|/megatron/core/parallel_state\.py|parallel_dims\.py",
        "parallel_size",
    ),
    (
        r"^(?:AssertionError|ValueError|KeyError|TypeError|NotImplementedError|ImportError)",
        _FRAMEWORKS,
        "framework_config",
    ),
)
"""Message, innermost frames, cause; for exceptions that no row of failure_rules.csv explains."""
_TABLE = tuple(
    (re.compile(message), re.compile(place), _rule(cause)) for message, place, cause in ROWS
)
_INNERMOST = 4
"""Frames that are looked at."""


def classify_frames(traceback: Traceback) -> Rule | None:
    """What the place of an exception says of its cause."""
    frames = "\n".join(line for frame in traceback.frames[-_INNERMOST:] for line in frame)
    return next(
        (
            rule
            for message, place, rule in _TABLE
            if message.search(traceback.text) and place.search(frames)
        ),
        None,
    )
