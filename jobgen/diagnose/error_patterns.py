"""The table of errors: which line of a log is which kind. The first row that fits wins.

Sources: the texts of PyTorch 2.0 to 2.13, NCCL, gloo, CUDA, CPython, bash and Slurm.
"""

from __future__ import annotations

import re

from jobgen.model.cause import CauseKind

ROWS: tuple[tuple[CauseKind, str], ...] = (
    (CauseKind.GPU_MEMORY, r"(?:CUDA|HIP|XPU) out of memory"),
    (CauseKind.GPU_MEMORY, r"torch\.(?:cuda\.)?OutOfMemoryError"),
    (CauseKind.GPU_MEMORY, r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
    (CauseKind.HOST_MEMORY, r"oom[-_]kill|: task \d+: Out Of Memory|Exceeded job memory limit"),
    (CauseKind.HOST_MEMORY, r"^MemoryError\b|numpy\S*MemoryError|Cannot allocate memory"),
    (CauseKind.HOST_MEMORY, r"can't allocate memory: you tried to allocate|std::bad_alloc"),
    (CauseKind.HOST_MEMORY, r"DataLoader worker \(pid\S* \d+\).* killed by signal: (?:Killed|Bus)"),
    (CauseKind.HOST_MEMORY, r"insufficient shared memory \(shm\)"),
    # of ranks whose peers have gone, or do not answer
    (CauseKind.LOST_PEER, r"Connection (?:closed|reset) by peer|ncclRemoteError|Broken pipe"),
    (CauseKind.LOST_PEER, r"remote process exited or there was a network error"),
    (CauseKind.LOST_PEER, r"collective operation timeout|Watchdog caught|NCCL watchdog"),
    (CauseKind.LOST_PEER, r"Timed out waiting \d+ms for (?:recv|send) operation"),
    (CauseKind.LOST_PEER, r"failed to recv, got 0 bytes|recvV?\w* failed|Socket Timeout"),
    (CauseKind.LOST_PEER, r"wait timeout after \d+ms|store->get\('\d|Connection was likely closed"),
    (CauseKind.LOST_PEER, r"monitoredBarrier|Detected mismatch between collectives"),
    (CauseKind.PORT, r"EADDRINUSE|[Aa]ddress already in use"),
    (CauseKind.RENDEZVOUS, r"Rendezvous\w*Error|The client socket has (?:failed|timed out)"),
    (CauseKind.RENDEZVOUS, r"Dist(?:Network|Store)Error|ConnectTimeout.*rendezvous"),
    (CauseKind.RENDEZVOUS, r"waiting for clients\. \d+/\d+ clients joined|Connection refused"),
    (CauseKind.NO_GPU, r"No CUDA GPUs are available|Found no NVIDIA driver|no NVIDIA driver"),
    (CauseKind.NO_GPU, r"NVIDIA driver on your system is too old|no kernel image is available"),
    (CauseKind.NO_GPU, r"Torch not compiled with CUDA|CUDA driver version is insufficient"),
    (CauseKind.NO_GPU, r"invalid device ordinal|no CUDA-capable device"),
    (CauseKind.NCCL, r"NCCL error|nccl\w+Error|NCCL WARN"),
    (CauseKind.CUDA, r"CUDA error|CUDNN_STATUS_\w+|CUBLAS_STATUS_\w+|cudaError\w+|HIP error"),
    (CauseKind.IMPORT, r"ModuleNotFoundError|ImportError|No module named"),
    (CauseKind.DISK, r"No space left on device|Disk quota exceeded|ENOSPC"),
    (CauseKind.PERMISSION, r"Permission ?(?:denied|Error)"),
    (CauseKind.DOWNLOAD, r"LocalEntryNotFoundError|GatedRepoError|Max retries exceeded with url"),
    (CauseKind.DOWNLOAD, r"Temporary failure in name resolution|HTTPError: 4\d\d"),
    (CauseKind.MISSING_FILE, r"FileNotFoundError|can't open file|No such file or directory"),
    (CauseKind.COMMAND_NOT_FOUND, r": command not found|exec: .+: not found|is not on PATH"),
    (CauseKind.ARGUMENTS, r"error: (?:unrecognized arguments|the following arguments|argument )"),
    (CauseKind.ARGUMENTS, r"error: (?:ambiguous option|one of the arguments)|No such option"),
    (CauseKind.SEGFAULT, r"Fatal Python error: Segmentation fault|Segmentation fault"),
    (CauseKind.ABORT, r"Fatal Python error|terminate called|Assertion .* failed|Aborted"),
    (CauseKind.ABORT, r"double free|corrupted size|free\(\): invalid|malloc\(\): "),
    (CauseKind.EXCEPTION, r"^(?:Syntax|Indentation|Tab)Error: "),
    (CauseKind.INTERRUPTED, r"^KeyboardInterrupt|SignalException|^SystemExit"),
)
_TABLE = tuple((kind, re.compile(pattern)) for kind, pattern in ROWS)
_ANY = re.compile("|".join(f"(?:{pattern})" for _, pattern in ROWS))


def classify(text: str) -> CauseKind | None:
    """The kind of error that a line reports; None if it reports none that the table has."""
    if not _ANY.search(text):
        return None
    return next((kind for kind, pattern in _TABLE if pattern.search(text)), None)
