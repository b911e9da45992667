"""Handwritten digits on several nodes: DistributedDataParallel that stops in time and goes on.

The program knows nothing of its launcher: rank, world size and meeting point come from the
environment (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), which is the same under
torchrun, srun, deepspeed and accelerate. It also runs alone: ``python train.py``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch

# DDP and optimizers import it. Where that is after the process group was made, it keeps the group:
# gloo's threads go on, and Python aborts if one of them frees a tensor while it ends
import torch._dynamo
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EVERY_FIFTH = 5  # picture is kept for the test


@dataclass(frozen=True)
class World:
    """Who we are among all processes of the job."""

    rank: int
    size: int
    device: torch.device

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, the same on every rank."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def say(self, text: str) -> None:
        """Print once, not once per rank."""
        if self.rank == 0:
            print(text, flush=True)


@dataclass
class Training:
    """What a checkpoint holds: the weights, the optimizer, and how far we have come."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    step: int = 0

    def save(self) -> None:
        """Write the checkpoint whole or not at all: a job may be killed at any moment."""
        path = checkpoint()
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**state, "epoch": self.epoch, "step": self.step}, part)
        part.replace(path)

    def load(self) -> bool:
        """Go back to the last checkpoint, if there is one."""
        path = checkpoint()
        if path is None or not path.exists():
            return False
        found = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        self.epoch, self.step = found["epoch"], found["step"]
        return True


def main(words: Sequence[str] | None = None) -> None:
    """Meet the other processes, train, part."""
    args = arguments(words)
    torch.set_num_threads(1)  # several ranks share the cores of a node
    world = join(args.timeout)
    where = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    # every rank leaves a line that no other can: so it can be seen that all logs arrive whole
    nonce = secrets.token_hex(16)
    print(f"rank {world.rank}/{world.size} on {where} {world.device} nonce {nonce}", flush=True)
    if world.rank == args.fail_rank:
        raise SystemExit(f"rank {world.rank} fails, as --fail-rank asks")
    train(args, world)
    if world.size > 1:
        # by then gloo's threads have let go of the last tensors: Python aborts where one is freed
        # by another thread while it ends
        dist.barrier()
        dist.destroy_process_group()


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0, help="seconds to sleep after an epoch")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds to wait for others")
    parser.add_argument("--fail-rank", type=int, default=-1, help="a rank that ends with an error")
    return parser.parse_args(words)


def join(timeout: float) -> World:
    """NCCL where this process has a GPU of its own, gloo otherwise."""
    rank, size, local = (
        int(os.environ.get(name, default))
        for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
    )
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if size > 1:
        # a node that falls silent is noticed after this time, and not before
        limit = timedelta(seconds=timeout)
        dist.init_process_group("nccl" if gpu else "gloo", timeout=limit)
    return World(rank, size, device)


def train(args: argparse.Namespace, world: World) -> None:
    """All epochs, from where the last start of this job left off."""
    pictures, test_set = digits()
    torch.manual_seed(args.seed)  # every rank begins with the same weights
    model = network().to(world.device)
    state = Training(model, torch.optim.AdamW(model.parameters(), lr=args.lr))
    if state.load():
        world.say(f"going on from epoch {state.epoch + 1}, step {state.step}")
    parallel = DistributedDataParallel(model) if world.size > 1 else model
    sampler = DistributedSampler(pictures, world.size, world.rank, seed=args.seed)
    batches = DataLoader(pictures, max(1, args.batch_size // world.size), sampler=sampler)
    while state.epoch < args.epochs:
        sampler.set_epoch(state.epoch)  # a new order every epoch, the same order after a restart
        loss = one_epoch(state, parallel, batches, world)
        if loss is None:
            if world.rank == 0:
                stopped(state)
            return
        state.epoch, state.step = state.epoch + 1, 0
        right = accuracy(model, test_set, world)
        world.say(f"epoch {state.epoch:2}  loss {loss:.4f}  test accuracy {right:.2%}")
        if world.rank == 0:
            state.save()
        time.sleep(args.pause)


def one_epoch(
    state: Training,
    model: nn.Module,
    batches: DataLoader[tuple[Tensor, ...]],
    world: World,
) -> float | None:
    """The mean loss, over all ranks, of what was left of the epoch; None when asked to stop."""
    model.train()
    total = torch.zeros(2, device=world.device)
    for number, (picture, label) in enumerate(batches):
        if number < state.step:  # done before the restart
            continue
        if stop_asked(world):
            return None
        loss = nn.functional.cross_entropy(model(picture.to(world.device)), label.to(world.device))
        state.optimizer.zero_grad()
        loss.backward()  # the gradients of all ranks are averaged here
        state.optimizer.step()
        state.step = number + 1
        total += torch.stack([loss.detach() * len(label), torch.ones_like(loss) * len(label)])
    summed, count = world.sum(total).tolist()
    return float(summed / max(1, count))


def stop_asked(world: World) -> bool:
    """Whether any rank sees the stop file. All must decide alike, or the others would hang."""
    path = os.environ.get("JOBGEN_STOP_FILE")
    seen = torch.tensor(float(path is not None and Path(path).exists()), device=world.device)
    return bool(world.sum(seen) > 0)


def stopped(state: Training) -> None:
    """Save, and tell the job that it may end here: it is requeued and goes on later."""
    state.save()
    print(f"asked to stop: saved at epoch {state.epoch + 1}, step {state.step}", flush=True)
    if path := os.environ.get("JOBGEN_STOPPED_FILE"):
        Path(path).touch()


@torch.no_grad()
def accuracy(model: nn.Module, pictures: TensorDataset, world: World) -> float:
    """The share of test pictures that are read rightly; each rank looks at its part of them."""
    model.eval()
    picture, label = (part[world.rank :: world.size].to(world.device) for part in pictures.tensors)
    right = (model(picture).argmax(1) == label).sum()
    right, count = world.sum(torch.stack([right, torch.tensor(len(label)).to(right)])).tolist()
    return float(right / count)


def network() -> nn.Module:
    """Two convolutions and a linear layer, 19 thousand weights."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1797 pictures of 8 by 8 grey values for training and test.

    They come with scikit-learn. Its file is read directly: to import the package for it would
    cost every rank a second or more.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the digits come with scikit-learn: pip install scikit-learn")
    file = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    rows = torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.float32))
    picture, label = rows[:, :64].reshape(-1, 8, 8) / 16, rows[:, 64].long()
    test = torch.arange(len(rows)) % EVERY_FIFTH == 0
    return TensorDataset(picture[~test], label[~test]), TensorDataset(picture[test], label[test])


def checkpoint() -> Path | None:
    """Where the checkpoint lies; without a place for it none is written."""
    folder = os.environ.get("JOBGEN_CHECKPOINT_DIR")
    return Path(folder, "digits.pt") if folder else None


if __name__ == "__main__":
    main()
