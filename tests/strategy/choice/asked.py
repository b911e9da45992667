"""Questions to the planner, for its tests."""

from __future__ import annotations

from typing import Any

from jobgen.data import gpus
from jobgen.model.train import Train
from jobgen.strategy.choice.setups import VARIED, Ask
from jobgen.strategy.model_sizes import read_sizes
from jobgen.strategy.shapes import build_model, find_model
from jobgen.strategy.spec import RankLayout
from jobgen.strategy.speed.machine_model import build_machine

A100 = "A100-SXM4-80GB"
H100 = "H100-SXM5-80GB"


def ask(name: str, nodes: int = 2, *, gpu: str = A100, ranks: int = 8, **train: Any) -> Ask:
    """The job of this ``train`` on nodes of eight such GPUs, with an InfiniBand card for each."""
    found = find_model(name)
    assert found is not None
    words = {"strategy": "ddp", "seq_len": 4096, "micro_batch": 1, **train}
    asked = Train(model=name, **words)
    machine = build_machine(gpus()[gpu], ranks, 25e9, "infiniband", memory=1e12)
    fixed = frozenset(key for key in VARIED if key in train)
    world = RankLayout(nodes, ranks, "infiniband")
    return Ask(
        asked, build_model(found), read_sizes(asked, {})[0], world, machine, "torchrun", fixed
    )
