"""Own models measured on fake tensors, and real steps of them: ``measured_steps.py NAME…``.

Writes a line of JSON for each: the report of the payload, and what MemTracker counts on real CPU
tensors in a step with AdamW, by mode and recompute.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from jobgen.payload.measure_model.__main__ import measure
from jobgen.payload.measure_model.memory_points import spare_frozen
from jobgen.payload.measure_model.model_units import find_units, list_tensors
from jobgen.payload.measure_model.training_step import checkpoint_unit, find_loss
from jobgen.payload.measure_model.user_program import choose_words

FOLDER = Path(__file__).parent / "own_models"
WORDS = {"micro_batch": 16}
MODES = ("fp32", "autocast")


def report(name: str, recompute: str = "none", ranks: int = 0) -> dict[str, Any]:
    """What the payload measures."""
    path = f"{name}.py"
    request = {
        "workdir": str(FOLDER),
        "model": f"{path}:build_model",
        "batch": f"{path}:example_batch",
        "words": WORDS,
        "modes": MODES,
        "classes": [],
        "min_params": None,
        "shards": ranks,
        "recompute": recompute,
        "mixed_precision": False,
    }
    return measure(request)


def step(name: str, mode: str, recompute: str) -> int:
    """Bytes at the peak of a real step."""
    module = sys.modules[name]
    model = module.build_model()
    for _, unit in find_units(torch, model, [], None) if recompute == "full" else ():
        checkpoint_unit(unit)
    batch = module.example_batch(**choose_words(module.example_batch, WORDS, name))
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=True)
    for each in trained:  # so that moments exist, as in every step but the first
        each.grad = torch.zeros_like(each)
    optimizer.step()
    optimizer.zero_grad()
    tracker = MemTracker()
    spare_frozen(tracker, model)
    tracker.track_external(model, optimizer, *list_tensors(torch, batch))
    amp = torch.autocast("cpu", torch.bfloat16) if mode == "autocast" else nullcontext()
    with tracker:
        with amp:
            words = batch if isinstance(batch, (tuple, list)) else (batch,)
            output = model(**batch) if isinstance(batch, dict) else model(*words)
            loss = find_loss(torch, output)
            del output
        loss.backward()
        optimizer.step()
    return sum(each["Total"] for each in tracker.get_tracker_snapshot("peak").values())


def main() -> None:
    """A line for each name."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        found = report(name)
        real = {
            f"{each['mode']} {each['recompute']}": step(name, each["mode"], each["recompute"])
            for each in found["traces"]
        }
        print(json.dumps({"name": name, "report": found, "real": real}), flush=True)


if __name__ == "__main__":
    main()
