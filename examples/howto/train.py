"""The least that a program for a cluster needs: meet the others, save, stop when asked, go on.

It knows nothing of its launcher: all that it needs is in the environment.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "100"))
CHECKPOINT = Path(os.environ.get("JOBGEN_CHECKPOINT_DIR", "checkpoints"), "state.pt")


def main() -> None:
    """A loop of steps, from where the last start left off."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    weights, first = torch.zeros(8, device=device), 0
    if CHECKPOINT.exists():
        found = torch.load(CHECKPOINT, map_location=device, weights_only=True)
        weights, first = found["weights"], found["step"]
    for step in range(first, STEPS):
        if stop_asked(device):
            save(weights, step, stopped=True)
            break
        weights += 1
        time.sleep(0.05)
    else:
        save(weights, STEPS)
    dist.destroy_process_group()


def stop_asked(device: torch.device) -> bool:
    """Whether any rank sees the stop file. All must decide alike, or the others would hang."""
    path = os.environ.get("JOBGEN_STOP_FILE", "")
    seen = torch.tensor(float(bool(path) and Path(path).exists()), device=device)
    dist.all_reduce(seen)
    return bool(seen > 0)


def save(weights: torch.Tensor, step: int, *, stopped: bool = False) -> None:
    """Write the checkpoint whole or not at all; if asked to stop, say that it is written."""
    if dist.get_rank() != 0:
        return
    CHECKPOINT.parent.mkdir(parents=True, exist_ok=True)
    part = CHECKPOINT.with_suffix(".part")
    torch.save({"weights": weights, "step": step}, part)
    part.replace(CHECKPOINT)
    print(f"saved at step {step}", flush=True)
    if stopped and "JOBGEN_STOPPED_FILE" in os.environ:
        Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()


if __name__ == "__main__":
    main()
