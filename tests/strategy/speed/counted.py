"""The cost of a step of a model of transformers, operation by operation, on fake tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from jobgen.payload.measure_model.operation_costs import list_segments, make_counter
from jobgen.payload.measure_model.unit_chain import UnitChain
from tests.strategy.memory import traced


def count(kind: str, layers: int, vocab: int) -> tuple[dict[str, Any], int]:
    """What the payload counts of the whole model in 16 bits, and what torch's own counter does,
    which knows no attention of CPUs."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        sizes = traced.config(kind, layers, vocab)
        model = traced._model(sizes, torch.bfloat16, "causal")
        words = torch.zeros(traced.BATCH, traced.SEQ, dtype=torch.long)
        counter = make_counter(UnitChain(torch, model, []))
        with FlopCounterMode(display=False) as known, counter:
            loss = model(input_ids=words, labels=words, use_cache=False).loss
            counter.backward = True
            loss.backward()
    return list_segments(counter, 1), known.get_total_flops()
