"""A second step of a job: read the checkpoint that the first has written, on fewer ranks."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    """Each rank takes its share of the weights; rank 0 prints what all have found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    found = torch.load(parser.parse_args().checkpoint / "state.pt", weights_only=True)
    dist.init_process_group("gloo")
    share = found["weights"].cpu()[dist.get_rank() :: dist.get_world_size()].sum()
    dist.all_reduce(share)
    if dist.get_rank() == 0:
        print(f"step {found['step']}: sum of the weights {share.item():g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
