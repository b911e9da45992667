"""Train a small model with Lightning."""

from __future__ import annotations

import argparse

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch: tuple[Tensor, ...], index: int) -> Tensor:
        loss = self.net(batch[0]).pow(2).mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--resume")
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.set_num_threads(1)
    data = DataLoader(TensorDataset(torch.randn(128, 32)), batch_size=8, shuffle=True)
    trainer = lightning.Trainer(
        accelerator=args.accelerator,
        devices=args.devices,
        num_nodes=args.nodes,
        strategy=args.strategy,
        precision=args.precision,
        max_epochs=args.epochs,
        enable_checkpointing=False,
        logger=False,
        log_every_n_steps=1,
    )
    trainer.fit(Model(), data, ckpt_path=args.resume)


if __name__ == "__main__":
    main()
