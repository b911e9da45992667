"""Train a small model with Hugging Face accelerate."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from hooks import run_hooks
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--expected-world-size", type=int)
    parser.add_argument("--output")
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    if args.expected_world_size:
        got = accelerator.num_processes
        assert got == args.expected_world_size, (
            f"config asks for {args.expected_world_size} processes, accelerate started {got}"
        )
    set_seed(1)
    x = torch.randn(256, 32)
    data = TensorDataset(x, (x[:, 0] > 0).long() + 8)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, args.classes))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    bar = tqdm(total=args.epochs * len(loader), disable=not accelerator.is_main_process)
    step = 0
    for epoch in range(args.epochs):
        for inputs, labels in loader:
            step += 1
            run_hooks(step, accelerator.process_index)
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            bar.update()
            time.sleep(0.02)
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}, error rate 0.{30 - epoch}")
        if args.output:
            accelerator.save_state(Path(args.output) / f"epoch_{epoch}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
