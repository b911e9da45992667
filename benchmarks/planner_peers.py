#!/usr/bin/env python3
"""Compare memory estimators on published runs: ``planner_peers.py --rows FILE.csv``.

Each estimator answers the runs that it is made for, and jobgen's errors on the same runs stand
beside its own. Those of DeepSpeed and accelerate come with their packages; the others are read from
checkouts: of NVIDIA/Megatron-LM, of NVIDIA-NeMo/Megatron-Bridge, and of the branch of
pytorch/torchtitan's pull request 3798, which takes minutes. DeepSpeed's counts model states alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import planner_scores as scores
from planner_accuracy import read_rows
from planner_scores import Scored

from jobgen.strategy.estimate import GIB
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS, Offloaded

Estimator = Callable[[Setup], float | None]
"""Bytes that it expects on a GPU; None for a run that it has no words for."""
_ON_ONE_GPU = 1


def estimate_deepspeed(setup: Setup) -> float | None:
    """DeepSpeed's model states at ZeRO 2 and 3; FSDP's full shards stand for ZeRO 3."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    stage, mesh = TRAITS[setup.strategy].stage, setup.mesh
    plain = setup.adapters is None and setup.offload == Offloaded()
    if stage not in {2, 3} or not plain or mesh.world != mesh.shard:
        return None
    per_node = min(setup.world_per_node, mesh.world)
    nodes = mesh.world // per_node
    params = setup.model.count
    if stage == 2:
        return float(
            estimate_zero2_model_states_mem_needs(params, per_node, nodes, cpu_offload=False)[1]
        )
    largest = max(layer.count for layer in setup.model.layers)
    found = estimate_zero3_model_states_mem_needs(
        params, largest, per_node, nodes, cpu_offload=False, cpu_offload_params=False
    )
    return float(found[1])


def estimate_accelerate(setup: Setup) -> float | None:
    """The largest phase of ``accelerate estimate-memory`` in bf16, which knows one GPU."""
    from accelerate.commands.estimate import estimate_training_usage

    if setup.mesh.world > _ON_ONE_GPU or setup.adapters is not None:
        return None
    return float(max(estimate_training_usage(4 * setup.model.count, "bfloat16").values()))


def compare(scored: Sequence[Scored], estimator: Estimator) -> tuple[list[Scored], list[Scored]]:
    """The runs that an estimator answers: with its estimates, and with jobgen's."""
    theirs, ours = [], []
    for one in scored:
        setup = one.row.setup
        size = estimator(setup) if setup is not None else None
        if size is None or one.row.gib is None:
            continue
        theirs.append(Scored(one.row, size / GIB, size / GIB / one.row.gib - 1))
        ours.append(one)
    return theirs, ours


def format_row(name: str, theirs: Sequence[Scored], ours: Sequence[Scored], rows: int) -> str:
    """One line of the table: the runs that are answered; the bias, the median of the errors, and
    the error within which nine in ten are, of the other and of jobgen."""
    if not theirs:
        return f"| {name} | 0 of {rows} | | | | | | | |"
    other, own = scores.summarize(theirs), scores.summarize(ours)
    cells = [f"{found[key]} %" for key in ("median_pct", "p90_pct") for found in (other, own)]
    bias = [f"{found['bias_pct']:+} %" for found in (other, own)]
    ratio = f"{other['median_pct'] / own['median_pct']:.1f}"
    return f"| {' | '.join([name, f'{len(theirs)} of {rows}', *bias, *cells, ratio])} |"


def list_peers(args: argparse.Namespace) -> Iterator[tuple[str, Estimator]]:
    """The estimators that can be asked, by name."""
    yield "DeepSpeed's estimators", estimate_deepspeed
    yield "accelerate estimate-memory", estimate_accelerate
    if args.megatron_lm:
        from planner_megatron import load_megatron

        yield "Megatron-LM's theoretical memory", load_megatron(args.megatron_lm)
    if args.megatron_bridge:
        from planner_megatron import load_bridge

        yield "Megatron-Bridge's theoretical memory", load_bridge(args.megatron_bridge)
    if args.torchtitan:
        from planner_titan import load_titan

        yield "torchtitan's pull request 3798", load_titan(args.torchtitan)


_HEADS = ("estimator", "runs", "bias", "jobgen's", "median", "jobgen's", "p90", "jobgen's", "ratio")


def main() -> None:
    """Print the table; the ratio is that of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE.csv")
    for name in ("megatron-lm", "megatron-bridge", "torchtitan"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="a checkout of it")
    args = parser.parse_args()
    scored = scores.score_memory(read_rows(args.rows))
    print(f"| {' | '.join(_HEADS)} |\n|---|{'--:|' * (len(_HEADS) - 1)}")
    for name, estimator in list_peers(args):
        print(format_row(name, *compare(scored, estimator), len(scored)), flush=True)


if __name__ == "__main__":
    main()
