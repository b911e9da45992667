"""PyTorch's flight recorder: which collective each rank began last, from the dumps of its ranks.

The form of a dump is that of PyTorch 2.4 to 2.13 (FlightRecorder.hpp): a pickled or JSON mapping
with ``pg_status`` and ``entries``. A dump comes from a job's folder and is hostile until read: only
plain values are unpickled.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterable, Mapping
from typing import Any

from jobgen.named_tuple import NamedTuple

_NAME = re.compile(r"(?:.*/)?(?:nccl|comm_lib|fr)_trace\w*?_(\d{1,6})")
LARGEST = 4 << 20
"""Bytes of a dump that is read."""


class LastCollective(NamedTuple):
    """The last collective that a rank began in the group that it used last."""

    number: int
    operation: str


def match_dump(path: str) -> int | None:
    """The rank whose dump a file is, by its name; None if it is none.

    >>> match_dump("logs/0/0/nccl_trace_rank_12"), match_dump("logs/0/0/n1.0.err")
    (12, None)
    """
    match = _NAME.fullmatch(path)
    return int(match[1]) if match else None


class _PlainUnpickler(pickle.Unpickler):
    """Reads dicts, lists, tuples, texts and numbers, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a dump")


def read_dump(data: bytes) -> LastCollective | None:
    """The last collective that the dump of one rank shows; None if it shows none."""
    try:
        dump = json.loads(data) if data[:1] == b"{" else _PlainUnpickler(io.BytesIO(data)).load()
        return _find_last(dump)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, MemoryError):
        return None
    except pickle.UnpicklingError:
        return None


def _find_last(dump: Mapping[str, Any]) -> LastCollective | None:
    entries = [entry for entry in dump["entries"] if not entry.get("is_p2p")]
    if not entries:
        return None
    last = max(entries, key=lambda entry: int(entry["time_created_ns"]))
    group = str(last["pg_id"])
    status = dump.get("pg_status", {}).get(group, {})
    number = int(status.get("last_enqueued_collective", last["collective_seq_id"]))
    operation = str(last["profiling_name"]).rpartition(":")[2]
    return LastCollective(max(number, int(last["collective_seq_id"])), operation[:40])


def read_dumps(dumps: Iterable[tuple[int, bytes]]) -> dict[int, LastCollective]:
    """The last collective of each rank that left a readable dump."""
    known = ((rank, read_dump(data)) for rank, data in dumps)
    return {rank: last for rank, last in known if last is not None}
