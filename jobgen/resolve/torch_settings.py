"""What a job's environment sets in torch, as far as it changes memory or the time of a step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.resolve.container_image import find_container
from jobgen.resolve.inputs import Inputs
from jobgen.shell.python_command import read_long_options

_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables of the allocator; the first wins where both are set (torch,
c10/core/AllocatorConfig.cpp)."""
_ROUNDS = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
"""1 or 0, instead of what the program sets (torch, aten/src/ATen/Context.h)."""
_ROUNDING_IMAGE = re.compile(r"(^|/)nvcr\.io[/#]nvidia/(pytorch|nemo)\b")
"""Images that set it to 1 (MONAI, docs/source/precision_accelerating.md)."""


def has_expandable_segments(look: Inputs) -> bool:
    """Whether the cluster, setup or env turns on ``expandable_segments``, which ROCm does not have
    (torch, c10/cuda/CUDACachingAllocator.cpp)."""
    values = _read_variables(look)
    value = next((values[name] or "" for name in _ALLOCATOR if name in values), "")
    return "expandable_segments:true" in value.replace(" ", "").lower()


def rounds_to_tf32(look: Inputs, words: Sequence[str]) -> bool:
    """Whether products of fp32 are rounded to TF32: by a variable, by NVIDIA's image of PyTorch, or
    by ``--tf32`` among the programs' words, an option of transformers' ``TrainingArguments``.

    What a program sets in Python is not known.
    """
    values = _read_variables(look)
    if values.get(_ROUNDS) in {"0", "1"}:
        return values[_ROUNDS] == "1"
    container, _ = find_container(look)
    if container is not None and _ROUNDING_IMAGE.search(container.image):
        return True
    asked = {name: value for name, value, _, _ in read_long_options(words)}
    return "--tf32" in asked and str(asked["--tf32"]).lower() in {"none", "true", "1", "yes"}


def _read_variables(look: Inputs) -> Mapping[str, str | None]:
    """Name → value, of the cluster and of the job, whose own win."""
    every = (*look.profile.variables, *look.spec.variables)
    return {each.name: each.value for each in every}
