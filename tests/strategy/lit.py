"""A program of Lightning: one layer, its batch and its sharding as ``$JOBGEN_STRATEGY`` says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch._dynamo  # noqa: F401 - before the process group: see examples/digits-ddp/train.py
import torch.distributed as dist
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

STRATEGY = json.loads(Path(os.environ["JOBGEN_STRATEGY"]).read_text())


class Model(BoringModel):
    """Lightning's own smallest model."""

    def configure_model(self) -> None:
        if "fsdp2" in STRATEGY:
            fully_shard(self.layer, mesh=self.device_mesh["data_parallel"], **STRATEGY["fsdp2"])

    def train_dataloader(self) -> Any:
        return DataLoader(RandomDataset(32, 64), batch_size=STRATEGY["micro_batch"])

    def on_train_end(self) -> None:
        kind = type(self.trainer.strategy).__name__
        parameter = next(self.parameters())
        local = getattr(parameter, "to_local", lambda: parameter)()
        where = Path(self.trainer.default_root_dir)
        said = {"strategy": kind, "steps": self.trainer.global_step, "elements": local.numel()}
        (where / f"rank{self.global_rank}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    quiet = {"logger": False, "max_steps": 2, "enable_progress_bar": False}
    LightningCLI(Model, save_config_callback=None, trainer_defaults=quiet)
    # by then gloo's threads have freed the last tensors: Python aborts if one does while it ends
    dist.barrier()
    dist.destroy_process_group()
