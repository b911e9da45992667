"""The framework that a program trains with, from the files that its tracebacks name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FILE = re.compile(r'File "([^"\n]{1,400})", line \d')
_FRAMEWORKS = (
    ("axolotl", r"/axolotl/"),
    ("megatron", r"/megatron/(?:core|training|legacy)/"),
    ("torchtitan", r"/torchtitan/"),
    ("lightning", r"/(?:lightning/pytorch|pytorch_lightning)/"),
    ("hf-trainer", r"/transformers/trainer\w*\.py|/(?:trl/trainer|llamafactory|swift)/"),
    ("deepspeed", r"/deepspeed/runtime/"),
)
"""Framework → its files; what builds on another one stands before it."""


def recognize_framework(paths: Iterable[str]) -> str:
    """The framework that one of these Python files belongs to; empty if none does."""
    every = "\n".join(f"/{path}" for path in paths)
    return next((name for name, files in _FRAMEWORKS if re.search(files, every)), "")


def list_frame_files(texts: Iterable[str]) -> Iterator[str]:
    """The files that frames of tracebacks name."""
    for text in texts:
        yield from _FILE.findall(text)
