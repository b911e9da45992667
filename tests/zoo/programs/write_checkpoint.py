"""Write a checkpoint of train.py's model: ``write_checkpoint.py FILE [HIDDEN] [PREFIX]``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from train import Classifier

if __name__ == "__main__":
    path = Path(sys.argv[1])
    hidden, prefix, *_ = [*sys.argv[2:], *["64", ""][len(sys.argv) - 2 :]]
    model = Classifier(512, int(hidden), int(hidden))
    optimizer = torch.optim.AdamW(model.parameters())
    state = {prefix + name: value for name, value in model.state_dict().items()}
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save({"model": state, "optimizer": optimizer.state_dict(), "step": 10}, path)
