"""A configuration for torchtitan's parser, of the sections that a strategy touches.

The models that torchtitan ships import Triton, datasets and TensorBoard; these classes do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torchtitan.components.checkpointer.dcp import CheckpointManager
from torchtitan.components.optimizer import OptimizersContainer
from torchtitan.config.configs import (
    CommConfig,
    CompileConfig,
    ParallelismConfig,
    TrainingConfig,
)
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig, SelectiveAC


@dataclass(kw_only=True)
class Config:
    """As ``torchtitan.trainer.Trainer.Config`` has them."""

    hf_assets_path: str = "."
    dump_folder: str = "./outputs"
    training: TrainingConfig = field(default_factory=TrainingConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    compile: CompileConfig = field(default_factory=CompileConfig)
    comm: CommConfig = field(default_factory=CommConfig)
    optimizer: OptimizersContainer.Config = field(default_factory=OptimizersContainer.Config)
    checkpoint: CheckpointManager.Config = field(default_factory=CheckpointManager.Config)
    activation_checkpoint: ActivationCheckpointingConfig = field(default_factory=SelectiveAC.Config)


def small() -> Config:
    """A function of a configuration, as ``--config`` names one."""
    return Config(training=TrainingConfig(local_batch_size=99, seq_len=4096, steps=3))
