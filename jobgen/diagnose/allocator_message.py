"""PyTorch's message of an allocation that failed on a GPU → its numbers, and who holds the memory.

The message is that of torch 2.1 and later (c10/cuda/CUDACachingAllocator.cpp, ``malloc`` and
``reportProcessMemoryInfo``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.diagnose.log_lines import ProcessLog
from jobgen.model.cause import CauseKind, FailureCause
from jobgen.named_tuple import NamedTuple
from jobgen.wording import join_words

_UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_SIZE = r"(\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB)"
_WANTED = re.compile(rf"Tried to allocate {_SIZE}")
_FREE = re.compile(rf"of which {_SIZE} is free")
_ALLOCATED = re.compile(rf"{_SIZE} is allocated by PyTorch")
_UNALLOCATED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_PROCESS = re.compile(rf"Process (\d+) has {_SIZE} memory in use")
_OWN = "this process has"
_VARIABLE = re.compile(r"PYTORCH_(?:\w+_)?ALLOC_CONF")
_CONTEXT = 2.0**30
"""Bytes above those of a CUDA context alone, which takes about half a GiB of a GPU."""


class AllocatorMessage(NamedTuple):
    """What the allocator reports; sizes in bytes."""

    wanted: float
    """What was to be allocated."""
    free: float
    """What no process holds."""
    allocated: float
    """What tensors of the process take; 0 if the message does not have it."""
    unallocated: float
    """What the process holds and does not use: free blocks, none of them large enough."""
    others: tuple[tuple[int, float], ...] = ()
    """The other processes on the GPU, as they are numbered on the node, with what each holds."""
    variable: str = "PYTORCH_CUDA_ALLOC_CONF"
    """The variable of the allocator's settings, as this version of PyTorch names it."""

    @property
    def occupants(self) -> tuple[tuple[int, float], ...]:
        """The other processes that hold more than a CUDA context, if the allocation would have
        fitted without them; else none."""
        large = tuple(each for each in self.others if each[1] > _CONTEXT)
        held = sum(size for _, size in large)
        return large if self.free < self.wanted <= self.free + held else ()

    @property
    def is_fragmented(self) -> bool:
        """Whether the unused blocks together are as large as what was wanted."""
        return self.free < self.wanted <= self.unallocated

    @property
    def lacking(self) -> str:
        """What was wanted and what is free, in words."""
        return f"{format_size(self.wanted)} was wanted, {format_size(self.free)} free"

    @property
    def numbers(self) -> str:
        """The numbers that decide what helps, in words."""
        if not self.allocated:
            return self.lacking
        allocated, unallocated = format_size(self.allocated), format_size(self.unallocated)
        holds = f"{allocated} allocated and {unallocated} reserved but unallocated"
        return f"{self.lacking}; PyTorch holds {holds}"


def read_allocator_message(text: str) -> AllocatorMessage | None:
    """The numbers of a message; None if it is another one.

    >>> message = read_allocator_message(
    ...     "Tried to allocate 3.91 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.22 GiB "
    ...     "is free. Process 12 has 12.00 GiB memory in use. Including non-PyTorch memory, this "
    ...     "process has 65.87 GiB memory in use."
    ... )
    >>> message.occupants == ((12, 12 * 2**30),)
    True
    """
    wanted, free = _read_size(_WANTED, text), _read_size(_FREE, text)
    if wanted is None or free is None:
        return None
    allocated = _read_size(_ALLOCATED, text) or 0.0
    unallocated = _read_size(_UNALLOCATED, text) or 0.0
    others = _list_others(text, allocated, unallocated)
    message = AllocatorMessage(wanted, free, allocated, unallocated, others)
    named = _VARIABLE.search(text)
    return message._replace(variable=named[0]) if named else message


def _read_size(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _list_others(text: str, allocated: float, unallocated: float) -> tuple[tuple[int, float], ...]:
    """The other processes. In a container the process does not know its number on the node, and is
    listed as one of them: that which holds at least PyTorch's memory, and the least of those."""
    listed = [(int(pid), float(size) * _UNITS[unit]) for pid, size, unit in _PROCESS.findall(text)]
    if _OWN in text:
        return tuple(listed)
    if not allocated:
        return ()
    able = [each for each in listed if each[1] >= 0.99 * (allocated + unallocated)]
    own = min(able, key=lambda each: each[1], default=None)
    return tuple(each for each in listed if each != own) if own else ()


def explain_memory(cause: FailureCause, streams: Sequence[ProcessLog]) -> FailureCause:
    """An error of GPU memory with its numbers in words, and as one of other processes on the GPU,
    where these hold what lacked."""
    message = read_allocator_message(cause.text) if cause.kind == CauseKind.GPU_MEMORY else None
    if message is None:
        return cause
    if message.occupants:
        return _blame_occupants(cause, message, streams)
    return cause._replace(says=message.numbers)


def _blame_occupants(
    cause: FailureCause, message: AllocatorMessage, streams: Sequence[ProcessLog]
) -> FailureCause:
    """If a launcher names one of the processes as one of this job, its ranks share a GPU."""
    pids = [str(pid) for pid, _ in message.occupants]
    one = len(pids) == 1
    named = f"process {pids[0]}" if one else f"processes {join_words(pids, 'and')}"
    what = f"end {named} (nvidia-smi on the node shows whose)"
    held = format_size(sum(size for _, size in message.occupants))
    says = f"{named} {'holds' if one else 'hold'} {held} of the GPU; {message.lacking}"
    ranks = re.compile(rf"\bpid: (?:{'|'.join(pids)})\)|\bSending process (?:{'|'.join(pids)}) ")
    if any(ranks.search(line.text) for stream in streams for line in stream.lines):
        what = "ranks of this job share it: call torch.cuda.set_device(LOCAL_RANK) first"
        return cause._replace(kind=CauseKind.GPU_OCCUPIED, retry="no", says=f"{says}; {what}")
    return cause._replace(kind=CauseKind.GPU_OCCUPIED, says=f"{says}: {what}")


def format_size(size: float) -> str:
    """Bytes as PyTorch writes them.

    >>> format_size(1.22 * 2**30), format_size(20 * 2**20), format_size(0)
    ('1.22 GiB', '20.00 MiB', '0.00 MiB')
    """
    unit = "GiB" if size >= _UNITS["GiB"] else "MiB"
    return f"{size / _UNITS[unit]:.2f} {unit}"
