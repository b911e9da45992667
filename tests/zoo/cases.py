"""Logs of jobs with their true causes: the closed list of causes, and the reader of case folders.

A case is a folder ``NAME/`` with ``truth.json`` and the log files that it names. Those in
``rewritten/`` were composed for this repository: the truth is that of the public thread named as
``source``, the lines have the formats that the programs print, and none was seen in a real run.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

CAUSES = {
    "exception": "a Python exception in the program that no other cause describes",
    "syntax": "the program is not valid Python",
    "missing_module": "a Python module is not installed",
    "shared_library": "a shared library is missing or does not fit",
    "missing_file": "a file or folder of the program is missing",
    "command_not_found": "a command does not exist or cannot be executed",
    "arguments": "wrong command-line arguments of the program",
    "setup": "a setup command failed before the program started",
    "batch_size": "batch sizes that do not go together",
    "parallel_size": "parallel sizes do not divide the world size or the model",
    "framework_config": "another wrong setting of a framework",
    "unused_parameters": "DDP: parameters without gradients",
    "checkpoint_damaged": "a checkpoint file is torn, empty or truncated",
    "checkpoint_mismatch": "a checkpoint does not fit the model",
    "data_worker": "a data-loader worker died",
    "shared_memory": "/dev/shm is too small or full",
    "access": "missing or wrong token, gated model, 401 or 403",
    "offline": "no internet on the node",
    "rate_limit": "429, registry limits",
    "gpu_memory": "GPU out of memory",
    "gpu_occupied": "the GPU or its memory is held by another process",
    "host_memory": "host memory or cgroup limit; OOM killer",
    "nan": "the loss became NaN or the loss scale hit its minimum",
    "collective_timeout": "ranks waited in a collective that others never joined",
    "collective_mismatch": "ranks called different collectives, shapes or types",
    "early_exit": "one rank ended with exit code 0 while the others went on",
    "lost_peer": "a peer vanished, and nothing shows why",
    "rendezvous": "some node or rank never arrived at the rendezvous",
    "port": "a port is taken",
    "interface": "NCCL or gloo uses a wrong or missing network interface",
    "host_name": "a cluster's host name does not resolve",
    "connection_refused": "a host or port of the cluster cannot be reached",
    "network_fault": "an InfiniBand, RoCE or EFA error",
    "locked_memory": "memlock limit",
    "nccl_version": "NCCL versions differ, or NCCL is missing or incompatible",
    "nccl": "another NCCL error",
    "duplicate_gpu": "two ranks use one GPU",
    "no_gpu": "no GPU visible, or invalid device ordinal",
    "gpu_fault": "GPU hardware or driver fault",
    "cuda_version": "the driver is older than the CUDA runtime, or a build without CUDA",
    "gpu_architecture": "no kernel image for this GPU",
    "cuda_assert": "device-side assert",
    "cuda": "illegal memory access, launch failure, other CUDA, cuBLAS or cuDNN error",
    "time_limit": "Slurm time limit",
    "preempted": "preempted",
    "cancelled": "cancelled by the user or an administrator",
    "node_failure": "a node failed",
    "signal": "ended by a signal from outside that nothing else explains",
    "disk_full": "no space left, quota exceeded",
    "permission": "permission denied, read-only file system",
    "file_system": "stale handle, I/O error, transport endpoint",
    "open_files": "too many open files",
    "processes": "too many processes or threads",
    "segfault": "segmentation fault, illegal instruction",
    "abort": "abort, assertion in C++ code",
    "container_image": "image missing, pull failed, no login",
    "container_mount": "a mount of the container fails",
    "container_runtime": "the container runtime itself fails",
    "launcher": "the launcher failed",
    "site_request": "Slurm refuses the request",
    "exit_code": "a program ended with a code and said nothing",
    "none": "healthy: the job ended well",
}
RETRIES = {"yes", "other_nodes", "no"}
"""Whether the unchanged command has a fair chance; ``other_nodes``: the cause sits in one node."""
MOST_BYTES = 40 * 1024
"""Of one log file."""


class Case(NamedTuple):
    """A job's log files and what a specialist says of them."""

    folder: Path
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def cause(self) -> str:
        return str(self.truth["cause"])

    @property
    def accepted(self) -> set[str]:
        """The causes that are right: the cause, and those a specialist would equally accept."""
        return {self.cause, *self.truth.get("also", ())}

    @property
    def files(self) -> list[Path]:
        return [self.folder / name for name in self.truth["files"]]


def read_cases(folder: Path) -> list[Case]:
    """The cases below a folder, at any depth, ordered by path."""
    truths = sorted(folder.rglob("truth.json"))
    return [Case(path.parent, json.loads(path.read_text("utf-8"))) for path in truths]


def is_held_back(name: str) -> bool:
    """Whether a case of that name is kept from those who write the engine: about a third are."""
    return hashlib.sha256(name.encode()).hexdigest()[0] in "01234"
