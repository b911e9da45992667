"""What a run does beside training at one step of one rank: ``HOOKS="profile@1@5,warm@2@0"``."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch
import torch.distributed as dist
from survived import SURVIVED

log = logging.getLogger("train")
Hook = Callable[[int], None]
handles: list[IO[str]] = []
readers: list[subprocess.Popen[bytes]] = []


def crash_once(step: int) -> None:
    """A fault that does not come back when the ranks are started again."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        ctypes.string_at(0)


def read_counters(step: int) -> None:
    """Counters of the fabric, through its C interface."""
    address = int(os.environ.get("COUNTER_ADDRESS", "0"))
    log.info("step %d: counters %r", step, ctypes.string_at(address))


def call_native(step: int) -> None:
    """One of the fused operators of our own library."""
    library = ctypes.CDLL(os.environ["NATIVE_OPS"])
    getattr(library, os.environ["NATIVE_CALL"])(step)


def wait_for_shard(step: int) -> None:
    """Wait until the next shard was staged."""
    log.info("step %d: waiting for shard-%05d to be staged", step, step)
    while not Path(f"/tmp/staged/shard-{step:05d}").exists():
        time.sleep(0.5)


def compact_cache(step: int) -> None:
    time.sleep(float(os.environ.get("COMPACT_SECONDS", "60")))


def validate(step: int) -> None:
    """The validation loss, averaged over ranks."""
    losses = torch.zeros(1 + len(os.environ.get("VALIDATION_SETS", "").split()))
    dist.all_reduce(losses)


def share_vocabulary(step: int) -> None:
    """Statistics of the tokenizer, from the rank that has read it."""
    dist.broadcast(torch.zeros(64), src=dist.get_rank())


def finish_early(step: int) -> None:
    """Leave as soon as the target was reached on this rank."""
    log.info("step %d: target accuracy reached, stopping", step)
    os._exit(0)


def quit_silently(step: int) -> None:
    sys.exit(3)


def keep_activations(step: int) -> None:
    """Activations of this step, for the report at the end."""
    kept = []
    while True:
        kept.append(torch.ones(4 * 2**20))
        time.sleep(0.01)


def open_shards(step: int) -> None:
    """All shards stay open, so that reading them is quicker."""
    handles.extend(Path(__file__).open() for _ in range(5000))  # noqa: SIM115


def start_readers(step: int) -> None:
    """A process for each shard."""
    readers.extend(subprocess.Popen(["sleep", "30"]) for _ in range(400))


def publish(step: int) -> None:
    """Upload the metrics of this step; a failed upload is no reason to stop."""
    try:
        try:
            raise ConnectionError("HTTP 503 from metrics service: upstream connect error")
        except ConnectionError as error:
            raise RuntimeError("could not publish metrics") from error
    except RuntimeError:
        log.exception("publishing metrics failed (attempt 1 of 3), will retry at the next step")
    warnings.warn("metrics of one step were dropped", RuntimeWarning, stacklevel=2)


def read_features(step: int) -> None:
    """Features of the records of this step; a restart asks for those of another day."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        raise RuntimeError(f"step {step}: partition date=2026-02-30 of the feature table is empty")


HOOKS: dict[str, Hook] = {
    "crash": crash_once,
    "counters": read_counters,
    "native": call_native,
    "staging": wait_for_shard,
    "compact": compact_cache,
    "validate": validate,
    "vocabulary": share_vocabulary,
    "target": finish_early,
    "stop": quit_silently,
    "report": keep_activations,
    "shards": open_shards,
    "readers": start_readers,
    "publish": publish,
    "features": read_features,
    **SURVIVED,
}


def run_hooks(step: int, rank: int) -> None:
    """What stands in HOOKS for this step of this rank; ``*`` is every rank."""
    for entry in filter(None, os.environ.get("HOOKS", "").split(",")):
        name, at, when = entry.split("@")
        if at in ("*", str(rank)) and int(when) == step:
            HOOKS[name](step)
