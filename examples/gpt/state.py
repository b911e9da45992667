"""Checkpoints of a sharded training: every rank its shards, or the whole by rank 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from run import Progress
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


class Sharded(NamedTuple):
    """Model, optimizer and, for fp16, the scaler. Any number of ranks can read either form."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    full: bool = False
    """Rank 0 writes everything into one file that plain torch can read, and holds it in its
    CPU's memory for that; else every rank writes its shards, which is faster."""
    scaler: ShardedGradScaler | None = None

    def save(self, folder: Path, _: Progress) -> None:
        state = self._state()
        if not self.full:
            dcp.save(state, checkpoint_id=folder / "shards")
        elif dist.get_rank() == 0:
            torch.save(state, folder / "training.pt")

    def load(self, folder: Path, _: Progress) -> None:
        if self.full:
            # rank 0 reads, and each rank is sent its shards
            state = {"model": {}, "optimizer": {}, "scaler": {}}
            if dist.get_rank() == 0:
                state = torch.load(folder / "training.pt", map_location="cpu", weights_only=True)
            scales = [state["scaler"]]
            dist.broadcast_object_list(scales)
            state["scaler"] = scales[0]
        else:
            state = self._state()  # dcp reads into what is there, as it is divided now
            dcp.load(state, checkpoint_id=folder / "shards")
        options = StateDictOptions(full_state_dict=self.full, broadcast_from_rank0=self.full)
        # set_state_dict would leave the model out on the ranks that have nothing of it yet
        set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"], options=options)
        set_model_state_dict(self.model, state["model"], options=options)
        if self.scaler and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])

    def _state(self) -> dict[str, Any]:
        # FSDP1 frees what it gathered while it moves it; without a GPU there is nothing to move
        moved = self.full and torch.cuda.is_available()
        options = StateDictOptions(full_state_dict=self.full, cpu_offload=moved)
        model, optimizer = get_state_dict(self.model, self.optimizer, options=options)
        scaler = self.scaler.state_dict() if self.scaler else {}
        return {"model": model, "optimizer": optimizer, "scaler": scaler}
