"""Exceptions whose message alone says too little: where they were raised tells the cause."""

from __future__ import annotations

import re

from jobgen.diagnose.failure_rules import Level, Rule
from jobgen.diagnose.tracebacks import Traceback


def _rule(cause: str, says: str = "") -> Rule:
    return Rule(cause, Level.ROOT, "rank", (), re.compile(""), says, "", "CPython, PyTorch")


FRAMES: tuple[tuple[re.Pattern[str], re.Pattern[str], Rule], ...] = (
    (
        re.compile(r"Errno (?:28|12)\]|Bus error"),
        re.compile(r"multiprocessing/(?:synchronize|shared_memory|heap|queues)|_share_\w+_cpu_"),
        _rule("shared_memory"),
    ),
    (
        re.compile(
            r"OSError: \[Errno 22\]|EOFError|OverflowError|UnicodeDecodeError|KeyError|ValueError"
        ),
        re.compile(r"torch/serialization\.py|safetensors/\w+\.py|in safe_open|zipfile\.py"),
        _rule("checkpoint_damaged"),
    ),
    (
        re.compile(
            r"^(?:AssertionError|ValueError|RuntimeError|KeyError|TypeError|NotImplementedError)"
        ),
        re.compile(r"device_mesh\.py|/megatron/core/parallel_state\.py|parallel_dims\.py"),
        _rule("parallel_size"),
    ),
    (
        re.compile(
            r"^(?:AssertionError|ValueError|KeyError|TypeError|NotImplementedError|ImportError)"
        ),
        re.compile(
            r"deepspeed/runtime/(?:config|zero/config)\w*\.py|accelerate/utils/dataclasses\.py"
            r"|transformers/training_args\.py|lightning\S*/(?:connectors|strategies)/"
            r"|fsdp/(?:_init_utils|_wrap_utils|wrap|fully_sharded)\w*\.py"
        ),
        _rule("framework_config"),
    ),
)
"""Message, innermost frames, cause; for exceptions that no row of the table of rules fits better."""
_INNERMOST = 4
"""Frames that are looked at."""


def classify_frames(traceback: Traceback) -> Rule | None:
    """What the place of an exception says of its cause."""
    frames = "\n".join(line for frame in traceback.frames[-_INNERMOST:] for line in frame)
    return next(
        (
            rule
            for message, place, rule in FRAMES
            if message.search(traceback.text) and place.search(frames)
        ),
        None,
    )
