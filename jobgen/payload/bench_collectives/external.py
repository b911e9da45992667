"""nccl-tests, where a node has it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from typing import Any


def nccl_tests(asked: argparse.Namespace, gpus: int) -> dict[str, Any]:
    """What ``all_reduce_perf`` of nccl-tests says of the GPUs of this node, where it is there."""
    program = shutil.which("all_reduce_perf")
    if program is None or not gpus:
        why = "all_reduce_perf is not on PATH" if program is None else "this node has no GPU"
        return {"kind": "skipped", "op": "nccl-tests", "why": why}
    low, high = str(min(asked.sizes)), str(max(asked.sizes))
    words = [program, "-b", low, "-e", high, "-f", "2", "-g", str(gpus)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"kind": "skipped", "op": "nccl-tests", "why": str(error)[:300]}
    text = (done.stdout + done.stderr)[-(32 << 10) :]
    return {
        "kind": "nccl-tests",
        "code": done.returncode,
        "host": os.uname().nodename,
        "text": text,
    }
