#!/usr/bin/env python3
"""Measure what training steps take of a GPU's memory, beside what jobgen estimates.

    gpu_memory.py [NAME…] [--json FILE]      all configurations, or those named
    gpu_memory.py --list

Each runs in a process of its own, so that CUDA's context and the allocator's cache are its own too.
Three steps are run; peaks are torch's ``max_memory_allocated`` and ``max_memory_reserved``, and
what nvidia-smi shows of the process at the end, while it still holds all that it reserved. With
``--json`` results are added to the file, those of the same name on the same GPU replaced.
Without a CUDA GPU it says so, and nothing is measured.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from jobgen.strategy.estimate import GIB, Metric
from jobgen.strategy.memory import estimate
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes import Architecture, build_model
from jobgen.strategy.spec import Batch, Mesh

NO_GPU = "no CUDA GPU here: the measurement was not run"
NO_TORCH = "no PyTorch with CUDA here: the measurement was not run"
METRICS: tuple[Metric, ...] = ("allocated", "reserved", "nvidia-smi")


class Configuration(NamedTuple):
    """One training step on one GPU."""

    name: str
    sizes: Architecture
    seq: int
    micro: int
    recompute: Literal["none", "selective", "full"] = "none"
    precision: Literal["autocast", "pure"] = "autocast"
    optimizer: Literal["fused", "foreach"] = "fused"

    @property
    def setup(self) -> Setup:
        """The same as the planner is asked about it."""
        return Setup(
            model=build_model(self.sizes),
            strategy="ddp",
            mesh=Mesh(1, 1),
            batch=Batch(self.micro, 1, 1),
            seq=self.seq,
            recipe=RECIPES[self.precision],
            recompute=self.recompute,
            fused_step=self.optimizer == "fused",
            world_per_node=1,
        )


SMALL = Architecture("small", 12, 1024, 16, 16, 64, 2816, 32_000)
WORDY = SMALL._replace(name="wordy", vocab=128_256)
"""Few layers and many words: logits are most of it."""
MIDDLE = Architecture("middle", 16, 2048, 32, 8, 64, 8192, 32_000)
LARGE = Architecture("large", 28, 3072, 24, 8, 128, 8192, 32_000)

CONFIGURATIONS = (
    Configuration("small", SMALL, 2048, 8),
    Configuration("small-foreach", SMALL, 2048, 2, optimizer="foreach"),
    Configuration("small-pure", SMALL, 2048, 8, precision="pure"),
    Configuration("small-selective", SMALL, 2048, 8, "selective"),
    Configuration("small-full", SMALL, 2048, 8, "full"),
    Configuration("small-long", SMALL, 16_384, 1),
    Configuration("wordy", WORDY, 2048, 4),
    Configuration("wordy-full-pure", WORDY, 2048, 8, "full", "pure"),
    Configuration("middle", MIDDLE, 2048, 2),
    Configuration("middle-selective-pure", MIDDLE, 4096, 2, "selective", "pure"),
    Configuration("middle-full-foreach", MIDDLE, 4096, 1, "full", optimizer="foreach"),
    Configuration("large-pure", LARGE, 2048, 1, precision="pure"),
    Configuration("large-full-pure-foreach", LARGE, 8192, 1, "full", "pure", "foreach"),
    Configuration("large-full", LARGE, 4096, 1, "full"),
)


def missing() -> str:
    """Why nothing can be measured here; empty where it can."""
    try:
        if ctypes.CDLL("libcuda.so.1").cuInit(0) != 0:
            return NO_GPU
    except OSError:
        return NO_GPU
    try:
        import torch
    except ImportError:
        return NO_TORCH
    return "" if torch.cuda.is_available() else NO_TORCH


def machine() -> dict[str, Any]:
    """What was measured on."""
    import torch

    found = torch.cuda.get_device_properties(0)
    return {
        "gpu": found.name,
        "memory_bytes": found.total_memory,
        "driver": _smi("--query-gpu=driver_version").splitlines()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": sys.version.split()[0],
    }


def measured(one: Configuration, before: int) -> dict[str, Any]:
    """The peaks of one configuration in this process, in bytes. ``before`` is what the GPU held."""
    import torch
    from gpu_decoder import train

    try:
        losses = train(
            one.sizes,
            recompute=one.recompute,
            pure=one.precision == "pure",
            fused=one.optimizer == "fused",
            shape=(one.micro, one.seq),
        )
    except torch.OutOfMemoryError:
        return {"failed": "out of memory"}
    torch.cuda.synchronize()
    shown, of = _shown(before)
    return {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "nvidia-smi": shown,
        "nvidia_smi_of": of,
        "losses": losses,
    }


def _shown(before: int) -> tuple[int, str]:
    """Bytes that nvidia-smi shows of this process; in a container, which hides its number from the
    driver, of the GPU, less what was there before."""
    for line in _smi("--query-compute-apps=pid,used_memory").splitlines():
        pid, _, used = line.partition(",")
        if pid.strip() == str(os.getpid()) and used.strip().isdigit():
            return int(used) << 20, "process"
    return _used() - before, "gpu, less what it held before"


def _used() -> int:
    return int(_smi("--query-gpu=memory.used").splitlines()[0]) << 20


def _smi(query: str) -> str:
    """Of the GPU that torch calls 0."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    words = ["nvidia-smi", query, "--format=csv,noheader,nounits", f"--id={visible or 0}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def apart(one: Configuration, limit: float) -> dict[str, Any]:
    """Estimated, and measured in a process of its own unless it could not fit."""
    said = estimate(one.setup)
    row: dict[str, Any] = {
        "name": one.name,
        "configuration": {**one._asdict(), "sizes": one.sizes._asdict()},
        "parameters": one.setup.model.count,
        "estimated": {metric: said.get_peak(metric) for metric in METRICS},
        "moment": said.moment,
    }
    if said.low > limit:
        return {**row, "failed": f"not run: about {said.nvidia_smi / GIB:.0f} GiB are needed"}
    words = [sys.executable, __file__, "--one", one.name, "--before", str(_used())]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {**row, "failed": f"exit code {done.returncode}"}
    found = json.loads(done.stdout)
    failed = {"failed": found.pop("failed")} if "failed" in found else {"measured": found}
    return {**row, **failed}


def line(row: dict[str, Any]) -> str:
    """A row of the table: measured GiB and the estimate's error, by metric."""
    if "failed" in row:
        return f"{row['name']:<24} {row['failed']}"
    cells = (
        f"{row['measured'][metric] / GIB:7.2f} {error(row, metric):+5.0%}" for metric in METRICS
    )
    return f"{row['name']:<24} {'  '.join(cells)}"


def error(row: dict[str, Any], metric: Metric) -> float:
    """The estimate's, as a part of what was measured."""
    return float(row["estimated"][metric] / row["measured"][metric] - 1)


def kept(file: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What the file holds, with what was found now; rows of another GPU or torch are left out."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if before.get("machine") != found["machine"]:
        return found
    rows = {row["name"]: row for row in (*before["rows"], *found["rows"])}
    return {**found, "rows": list(rows.values())}


def main() -> int:
    """Measure what is asked for; gives the exit code."""
    names = {one.name: one for one in CONFIGURATIONS}
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("names", nargs="*", metavar="NAME", help="of --list; all by default")
    words.add_argument("--list", action="store_true", help="say what there is")
    words.add_argument("--json", type=Path, metavar="FILE", help="add the results to this file")
    words.add_argument("--one", choices=names, help=argparse.SUPPRESS)
    words.add_argument("--before", type=int, default=0, help=argparse.SUPPRESS)
    args = words.parse_args()
    if unknown := [name for name in args.names if name not in names]:
        words.error(f"unknown: {', '.join(unknown)}; --list says what there is")
    if args.list:
        for one in CONFIGURATIONS:
            print(f"{one.name:<24} about {estimate(one.setup).nvidia_smi / GIB:5.1f} GiB")
        return 0
    if why := missing():
        print(why)
        return 0
    if args.one:
        print(json.dumps(measured(names[args.one], args.before)))
        return 0
    here = machine()
    print(f"{here['gpu']}, torch {here['torch']}: GiB measured, and the estimate's error")
    print(f"{'':<24} {'  '.join(f'{metric:>13}' for metric in METRICS)}")
    rows = []
    for one in [names[name] for name in args.names] or CONFIGURATIONS:
        rows.append(apart(one, here["memory_bytes"]))
        print(line(rows[-1]), flush=True)
    if args.json:
        text = json.dumps(kept(args.json, {"machine": here, "rows": rows}), indent=1)
        args.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
