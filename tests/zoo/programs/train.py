"""Train a small text classifier with DistributedDataParallel."""

from __future__ import annotations

import argparse
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from data import VOCABULARY, Prefetcher, Shard
from hooks import run_hooks
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from tqdm import tqdm

log = logging.getLogger("train")


class Classifier(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, head: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.encoder = nn.Sequential(
            nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, hidden)
        )
        self.head = nn.Linear(head, 10)
        self.auxiliary = nn.Linear(hidden, 2)

    def forward(self, tokens: Tensor, *, auxiliary: bool) -> Tensor:
        x = self.encoder(self.embedding(tokens).mean(1))
        out = self.head(x)
        return out + 0 * self.auxiliary(x).sum() if auxiliary else out


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--head", type=int)
    parser.add_argument("--data", type=Path, default=Path("shards"))
    parser.add_argument("--vocabulary", type=Path, help="a file with one token a line")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", action="store_true")
    parser.add_argument("--one-epoch", action="store_true")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--no-auxiliary", dest="auxiliary", action="store_false")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ops", help="a library of fused operators")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--by-hand", action="store_true", help="average gradients without DDP")
    return parser.parse_args()


def forever(loader: DataLoader[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from loader


def build_model(args: argparse.Namespace, device: torch.device) -> nn.Module:
    vocabulary = VOCABULARY
    if args.vocabulary:
        vocabulary = len(args.vocabulary.read_text().splitlines())
    return Classifier(vocabulary, args.hidden, args.head or args.hidden).to(device)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Go on from a checkpoint; the step it was written at."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        model.load_state_dict(load_file(path))
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    log.info("resumed from %s at step %d", path, state["step"])
    return int(state["step"])


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    path = folder / f"step_{step}.pt"
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path)
    log.info("saved %s", path)


def check(loss: float, step: int, lr: float) -> None:
    if math.isnan(loss):
        raise FloatingPointError(f"loss is nan at step {step} (lr {lr:g}), stopping training")


def main() -> None:
    args = parse()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s %(levelname)s %(name)s [rank {rank}]: %(message)s",
        stream=sys.stdout,
    )
    torch.set_num_threads(1)
    device = torch.device(args.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    if args.ops:
        torch.ops.load_library(args.ops)
    dist.init_process_group(args.backend, timeout=timedelta(seconds=args.timeout))
    log.info("rank %d of %d on %s, pid %d", rank, world, socket.gethostname(), os.getpid())

    torch.manual_seed(0)
    module = build_model(args, device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=args.lr)
    first = load(args.resume, module, optimizer) if args.resume else 0
    model = module if args.by_hand else DistributedDataParallel(module)
    shard = Shard(args.data, rank, strict=args.strict)
    loader = DataLoader(
        shard, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True
    )
    endless = iter(loader) if args.one_epoch else forever(loader)
    batches = Prefetcher(endless) if args.prefetch else endless
    bar = tqdm(total=args.steps, desc="training", disable=rank != 0, mininterval=1)
    began = time.monotonic()
    for step, (tokens, labels) in enumerate(batches, first + 1):
        run_hooks(step, rank)
        logits = model(tokens.to(device), auxiliary=args.auxiliary)
        loss = nn.functional.cross_entropy(logits, labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        if args.by_hand:
            for parameter in module.parameters():
                dist.all_reduce(parameter.grad)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        check(loss.item(), step, args.lr)
        bar.update()
        if rank == 0 and step % 5 == 0:
            rate = step / (time.monotonic() - began)
            log.info("step %d | loss %.4f | %.1f it/s", step, loss.item(), rate)
        if args.output and step % args.save_every == 0:
            if rank == 0:
                save(args.output, step, module, optimizer)
            dist.barrier()
        if step >= args.steps:
            break
        time.sleep(args.pause)
    bar.close()
    if not args.one_epoch:
        dist.barrier()
    log.info("done after %d steps", args.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
