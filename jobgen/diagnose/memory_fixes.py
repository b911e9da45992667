"""What to do where a GPU had no memory left, in the order in which it helps with this error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.diagnose.allocator_message import format_size, read_allocator_message
from jobgen.model.cause import FailureCause

_LOSS = re.compile(r"/loss(?:es|_utils)?\.py\"|\bin \w*(?:cross_entropy|CausalLMLoss)|log_softmax")
"""Frames of a loss over logits: transformers 5.23, loss/loss_utils.py; torch 2.13,
nn/functional.py; torchtitan 0.3, components/loss.py."""
_FRAME = re.compile(r"\s*File \"")
_CHANGES_LOSS, _CHANGES_ALLOCATOR = " train.loss=", "ALLOC_CONF="


def order_memory_fixes(fixes: Sequence[str], cause: FailureCause) -> list[str]:
    """The fixes of ``gpu_memory`` for this error.

    Where unused blocks are as large as what was wanted, the allocator's setting stands first, under
    the name that the message has; where all that is free and unused is less, it is left out. Where
    the loss failed, what makes its logits smaller goes before the rest.
    """
    allocator = [fix for fix in fixes if _CHANGES_ALLOCATOR in fix]
    loss = [fix for fix in fixes if _CHANGES_LOSS in fix]
    rest = [fix for fix in fixes if fix not in allocator]
    if _is_in_loss(cause.lines):
        rest = [*loss, *(fix for fix in rest if fix not in loss)]
    message = read_allocator_message(cause.text)
    if message is None:
        return [*rest, *allocator]
    named = [re.sub(r"PYTORCH_(?:\w+_)?ALLOC_CONF", message.variable, fix) for fix in allocator]
    unused, wanted = format_size(message.unallocated), format_size(message.wanted)
    numbers = f"{unused} is reserved but unallocated, {wanted} was wanted"
    named = [f"{fix.partition('  # ')[0]}  # {numbers}" for fix in named]
    if message.is_fragmented:
        return [*named, *rest]
    enough = message.free + message.unallocated >= message.wanted
    return [*rest, *(named if enough else [])]


def _is_in_loss(lines: Sequence[str]) -> bool:
    """Whether the innermost frame that is shown is one of a loss."""
    begins = [at for at, line in enumerate(lines) if _FRAME.match(line)]
    return bool(begins) and _LOSS.search("\n".join(lines[begins[-1] :])) is not None
