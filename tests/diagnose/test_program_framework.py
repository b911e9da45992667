"""The framework of a program, from the files that its tracebacks name."""

from __future__ import annotations

import pytest

from jobgen.diagnose.program_framework import list_frame_files, recognize_framework

SITE = "/envs/a/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("files", "framework"),
    [
        (("train.py", f"{SITE}/transformers/trainer.py"), "hf-trainer"),
        ((f"{SITE}/transformers/trainer.py", f"{SITE}/deepspeed/runtime/engine.py"), "hf-trainer"),
        ((f"{SITE}/swift/llm/train/sft.py",), "hf-trainer"),
        ((f"{SITE}/axolotl/cli/train.py", f"{SITE}/transformers/trainer.py"), "axolotl"),
        (("/src/Megatron-LM/megatron/training/training.py",), "megatron"),
        (("torchtitan/train.py",), "torchtitan"),
        ((f"{SITE}/deepspeed/runtime/engine.py",), "deepspeed"),
        ((f"{SITE}/lightning/pytorch/trainer/trainer.py",), "lightning"),
        (("train.py", f"{SITE}/torch/nn/modules/module.py"), ""),
    ],
)
def test_the_outermost_framework_of_a_traceback_is_the_programs(
    files: tuple[str, ...], framework: str
) -> None:
    frames = [f'[rank0]:   File "{file}", line 9, in step\n    step()\n' for file in files]
    assert recognize_framework(list_frame_files(frames)) == framework
