"""What of ``train:`` cannot work, as far as the job alone shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen import strategy
from jobgen.model.launchers import get_facts
from jobgen.strategy.model_sizes import read_sizes

if TYPE_CHECKING:
    from jobgen.load.tree import Path, Tree
    from jobgen.model.job import JobSpec
    from jobgen.model.train import Train


def check(tree: Tree, spec: JobSpec, train: Train) -> None:
    """Say it at the key that it is about."""
    if train.strategy.type == "auto":
        train = train.replace(strategy="ddp")  # what is wrong with every strategy
    known, _ = read_sizes(train, {})
    launcher = spec.launcher.type or ""
    for fault in strategy.check_train(train, known, _world(spec), launcher=launcher):
        path: Path = ("train", *fault.path)
        while len(path) > 1 and path not in tree.places:
            path = path[:-1]
        tree.say(fault.code, f"train: {fault.message}", path, fault.hint)


def _world(spec: JobSpec) -> strategy.RankLayout | None:
    """The ranks, where the job itself says them and every cluster would read it alike."""
    given = [n for n in (spec.gpus_per_node, spec.procs_per_node) if n]
    if len(given) != 1 or get_facts(spec.launcher.type or "").task == "command":
        return None
    return strategy.RankLayout(spec.nodes, given[0], fabric=None)
