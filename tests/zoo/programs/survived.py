"""Errors that a run meets at one step of one rank and survives; ``hooks.py`` calls them."""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import subprocess
import threading
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")


def halve_batch(step: int) -> None:
    """Find the largest batch: one that needs too much memory is made smaller until it fits."""
    size = 2**46
    while True:
        try:
            torch.ones(size, dtype=torch.uint8)
        except RuntimeError as error:
            log.warning("out of memory with a batch of %d bytes, a smaller one: %s", size, error)
            size >>= 26
        else:
            log.info("step %d: largest batch %d bytes, OOM: 1, failed: 0", step, size)
            return


class Uploader:
    """Has a destructor that fails, which Python reports and ignores."""

    def __del__(self) -> None:
        self.session.close()  # type: ignore[attr-defined]


def drop_uploader(step: int) -> None:
    Uploader()
    gc.collect()


def report_words(step: int) -> None:
    """Metrics and data whose words are those of errors."""
    log.info("step %d: errors: 0, failed: 0, killed: 0, timeouts: 0, nan: 0", step)
    log.info("word error rate 0.31 | error: 0.0412 | no error in 128 records")
    log.info("sample: 'the process was Killed: out of memory, exit code 137' -> label 3")
    log.info("sample: 'RuntimeError: CUDA error: an illegal memory access' -> label 7")
    log.info("vocabulary: ['fatal', 'Segmentation', 'fault', 'Traceback', 'abort', 'SIGKILL']")


class Flaky(Dataset[int]):
    """Fails once in a worker, as a remote store does."""

    broken = True

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if self.broken and index == 5:
            raise OSError(f"read of record {index} timed out, the store answered 503")
        return index


def restart_loader(step: int) -> None:
    """An evaluation whose loader fails once, and is made anew."""
    data = Flaky()
    for attempt in (1, 2):
        try:
            total = sum(int(batch.sum()) for batch in DataLoader(data, 2, num_workers=1))
        except OSError:
            log.exception("evaluation data failed (attempt %d), new loader", attempt)
            data.broken = False
        else:
            log.info("step %d: evaluated, sum %d", step, total)
            break


def probe_gpu(step: int) -> None:
    """Ask tools that a node without a GPU does not have."""
    subprocess.run(["sh", "-c", "nvidia-smi --query-gpu=power.draw --format=csv"], check=False)
    try:
        torch.cuda.current_device()
    except (AssertionError, RuntimeError) as error:
        log.warning("no GPU statistics: %s", error)


def kill_helper(step: int) -> None:
    """A helper that does not end in time is killed."""
    subprocess.run(
        ["bash", "-c", "sleep 60 & helper=$!; kill -KILL $helper; wait $helper; echo helper: $?"],
        check=False,
    )
    log.info("step %d: the cache helper was killed, and is started again", step)


def probe_codec(step: int) -> None:
    """A decoder of another machine crashes in a process of its own; the slow one is used."""
    command = "python -c 'import ctypes; ctypes.string_at(0)'; echo probe: $?"
    subprocess.run(["bash", "-c", command], check=False)
    log.info("step %d: fast decoder is not usable here, using the slow one", step)


def fill_disk(step: int) -> None:
    """A cache on a full disk is given up."""
    try:
        with Path("/dev/full").open("w") as cache:
            cache.write("x" * 100_000)
    except OSError:
        log.warning("step %d: cache is switched off", step, exc_info=True)


def write_home(step: int) -> None:
    """A cache where nobody may write."""
    try:
        Path("/usr/share/kernels").mkdir()
    except OSError:
        log.exception("step %d: cannot make the kernel cache, compiling in memory", step)


def lose_thread(step: int) -> None:
    """A thread that only reports usage dies."""

    def report() -> None:
        raise RuntimeError("usage statistics: quota of the collector exceeded")

    thread = threading.Thread(target=report, name="usage")
    thread.start()
    thread.join()


def lose_task(step: int) -> None:
    """An asynchronous task that nobody waits for fails."""

    async def push() -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    async def main() -> None:
        task = asyncio.create_task(push())
        await asyncio.sleep(0)
        del task

    asyncio.run(main())
    gc.collect()
    log.info("step %d of %d", step)  # noqa: PLE1206 (logging reports its own error)


def fetch(step: int) -> None:
    """A file that is optional, from a server that is not there."""
    for attempt in (1, 2, 3):
        try:
            urllib.request.urlopen("http://login:8080/tokenizer.json", timeout=5)
        except OSError as error:
            log.warning("download failed (attempt %d of 3): %r", attempt, error)
    log.error("step %d: could not download tokenizer.json, using the local copy", step)


def fail_at_exit(step: int) -> None:
    """A handler at the end fails; the exit code stays 0."""

    def flush() -> None:
        raise RuntimeError("cannot flush metrics: the event loop is closed")

    atexit.register(flush)


def skip_batch(step: int) -> None:
    """A batch whose loss is no number is passed over."""
    log.warning("step %d: loss is nan, batch skipped (1 of at most 10)", step)
    log.warning("step %d: gradient overflow, loss scale 65536 -> 32768", step)


def warn(step: int) -> None:
    """Warnings of libraries."""
    warnings.warn("this call will raise an error in 3.0", DeprecationWarning, stacklevel=1)
    warnings.warn("3 records failed to parse and were dropped", UserWarning, stacklevel=1)
    torch.tensor(torch.zeros(2))
    torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.zeros(1)], 0.1), 1).step()


SURVIVED: dict[str, Callable[[int], None]] = {
    "halve": halve_batch,
    "uploader": drop_uploader,
    "words": report_words,
    "loader": restart_loader,
    "smi": probe_gpu,
    "helper": kill_helper,
    "codec": probe_codec,
    "full": fill_disk,
    "home": write_home,
    "thread": lose_thread,
    "task": lose_task,
    "fetch": fetch,
    "atexit": fail_at_exit,
    "skip": skip_batch,
    "warn": warn,
}
