"""Train a small model with DeepSpeed's engine; all settings stand in its configuration file."""

from __future__ import annotations

import argparse
import json
import os
import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import get_accelerator
from deepspeed.utils.logging import set_log_level_from_string
from hooks import run_hooks
from torch import nn


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--resume")
    parser.add_argument("--log-level", default="warning")
    parser.add_argument(
        "--force-fp16", action="store_true", help="on a CPU, where DeepSpeed refuses it"
    )
    parser.add_argument("--save")
    return deepspeed.add_config_arguments(parser).parse_args()


def main() -> None:
    args = parse()
    torch.set_num_threads(1)
    set_log_level_from_string(args.log_level)
    deepspeed.init_distributed(dist_backend="gloo")
    if args.force_fp16:
        get_accelerator().is_fp16_supported = lambda: True
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(args.width, 64), nn.GELU(), nn.Linear(64, 1))
    engine, _, _, _ = deepspeed.initialize(
        args=args, model=model, model_parameters=model.parameters()
    )
    if args.resume:
        path, _ = engine.load_checkpoint(args.resume)
        print(f"resumed from {path}", flush=True)
    for step in range(1, args.steps + 1):
        run_hooks(step, rank)
        x = torch.randn(engine.train_micro_batch_size_per_gpu(), args.width)
        x = x.to(next(model.parameters()).dtype)
        loss = engine(x).pow(2).mean()
        engine.backward(loss)
        engine.step()
        if rank == 0 and step % 5 == 0:
            print(json.dumps({"step": step, "loss": round(loss.item(), 5)}), flush=True)
    if args.save:
        engine.save_checkpoint(args.save)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
