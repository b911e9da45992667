"""The command line, and the order of things."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .arrays import FLOAT, Array, elements
from .external import nccl_tests
from .pairs import neighbours, pairs
from .timing import measure
from .world import ProcessGroup, about, join, read_network_lines

OPS = ("all_reduce", "all_gather", "reduce_scatter")


def sizes(world: ProcessGroup, asked: argparse.Namespace, write: Callable[..., None]) -> float:
    """Every collective at every size, over all ranks; GB/s of bus bandwidth of the last one.

    As nccl-tests counts it for an all-reduce (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
    """
    bus = 0.0
    for op in asked.ops:
        for size in asked.sizes:
            count = elements(size, world.size)
            try:
                array = Array(world, op, count, None, world.rank, world.size)
                times, wrong = measure(world, array, asked.seconds, asked.repeats)
            except (RuntimeError, NotImplementedError, AttributeError) as error:
                if world.size > 1 and size != asked.sizes[0]:
                    raise
                # what a backend cannot do at all, it can do on no rank
                write(kind="skipped", op=op, why=str(error).partition("\n")[0][:300])
                break
            write(kind="point", op=op, bytes=count * FLOAT, **times._asdict(), wrong=wrong)
            bus = count * FLOAT / times.median * 2 * (world.size - 1) / world.size / 1e9
            del array
    return bus


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line; jobgen writes it."""
    parser = argparse.ArgumentParser(description="Time collectives.")
    comma: Callable[[str], list[str]] = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--ops", type=comma, default=["all_reduce"], help=", ".join(OPS))
    numbers: Callable[[str], list[int]] = lambda text: [int(w) for w in text.split(",")]  # noqa: E731
    parser.add_argument("--sizes", type=numbers, default=[1 << 20], help="bytes, with commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each size, about")
    parser.add_argument("--repeats", type=int, default=50, help="of each size, at the most")
    parser.add_argument("--pairs", action="store_true", help="each pair of nodes as well")
    parser.add_argument("--below", type=float, default=0.0, help="GB/s: then neighbours as well")
    parser.add_argument("--pair-size", type=int, default=1 << 26, help="bytes")
    parser.add_argument("--nccl-tests", action="store_true", help="run all_reduce_perf as well")
    parser.add_argument("--out", help="the file; $JOBGEN_STATE_DIR/bench.jsonl by default")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Meet, measure, write it down; 1 where a sum was wrong."""
    asked = arguments(words)
    torch: Any = importlib.import_module("torch")
    importlib.import_module("torch.distributed")
    world = join(torch, os.environ)  # type: ignore[arg-type]
    folder = os.environ.get("JOBGEN_STATE_DIR", ".")
    faults = 0
    path = Path(asked.out or f"{folder}/bench.jsonl")
    with Path(os.devnull if world.rank else path).open("w", encoding="utf-8") as file:

        def write(**said: Any) -> None:
            nonlocal faults
            faults += sum(said.get("wrong", ()))
            if world.rank == 0:
                file.write(json.dumps(said) + "\n")
                file.flush()
                print(json.dumps(said)[:400], flush=True)

        write(**about(world))
        reached = sizes(world, asked, write)
        if world.log is not None:
            text = world.log.read_text(errors="replace") if world.log.exists() else ""
            write(kind="net", lines=read_network_lines(text))
            shutil.rmtree(world.log.parent, ignore_errors=True)
        if asked.pairs:
            pairs(world, asked, write)
        elif reached < asked.below and len(world.nodes) > 2:
            pairs(world, asked, write, neighbours)
        torch.distributed.destroy_process_group()
        if asked.nccl_tests and world.rank == 0:
            gpus = torch.cuda.device_count() if world.device.type == "cuda" else 0
            write(**nccl_tests(asked, gpus))
        write(kind="end", faults=faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
