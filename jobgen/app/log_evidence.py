"""The logs of a failed job, as much of them as a diagnosis needs: a run's, or any folder's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jobgen.diagnose.log_lines import LogText

if TYPE_CHECKING:
    from jobgen.diagnose import Evidence
    from jobgen.model.record import JobState, RunRecord
    from jobgen.transport import Transport
    from jobgen.transport.files import Chunk

EVENTS = 16 << 20
"""Bytes of a run's event record that are read."""
LOGS = 1 << 20
"""Bytes of logs that are read, shared by all files."""
LEAST, MOST = 2 << 10, 64 << 10
"""Bytes of each log file that are read, from its end."""
_OF_RANKS = "*.[0-9]*.[eo][ru][rt]"
"""Names of files of ranks, as ``n1.3.err``: a launcher writes to its own at the end."""
SEARCHED, FOUND = 12, 48 << 10
"""Files that are searched, where their ends alone were read; and the bytes of each that come."""


def gather_run(transport: Transport, record: RunRecord) -> Evidence | None:
    """What the newest start of a run left; None if it could not be read whole."""
    from jobgen.diagnose import read_record
    from jobgen.model.chain import find_first_job
    from jobgen.model.events import find_decisive_step, have_succeeded, read_events
    from jobgen.transport.files import read_at, read_tail

    first = next(iter(record.failures), None)
    task = first.task if first and first.task else "0"
    start = first.start if first and record.elements else record.restarts + 1
    restart = f"{start - 1}."
    events = read_tail(transport, f"{record.directory}/state/{task}/events", {}, EVENTS)
    folder = f"{task}/{start - 1}"
    logs = f"{record.directory}/logs"
    tails = read_tail(transport, f"{logs}/{folder}", {}, EVENTS, backlog=_share(record))
    if (events.exists and events.unread) or (tails.exists and tails.unread):
        return None
    newest = (chunk.data for chunk in events.chunks if chunk.path.startswith(restart))
    rows = read_events(b"".join(newest).decode("utf-8", "replace"))
    step = find_decisive_step(rows)
    known = read_record([row for row in rows if row.fields.get("step", "") == step])
    name = f"job-{find_first_job(record)}.out"
    own = read_at(transport, f"{logs}/{name}", -MOST, MOST)
    chunks = [(f"{folder}/{chunk.path}", chunk) for chunk in tails.chunks]
    if step:  # other steps have succeeded, other groups only followed
        chunks = [row for row in chunks if row[0].startswith(f"{folder}/{step}/")]
        folder += f"/{step}"
    chunks += [(name, own)] if own is not None else []
    texts = [(path, chunk) for path, chunk in chunks if b"\0" not in chunk.data[:4096]]
    wanted = [
        name,
        *(f"{folder}/{e.node}.{e.rank}.{s}" for e in known.ends for s in ("err", "out")),
    ]
    return known._replace(
        silent=_measure_silence(transport, f"{logs}/{folder}", known, record.state),
        succeeded=have_succeeded(rows),
        state=str(record.state),
        logs=tuple(read_chunks(transport, logs, texts, wanted)),
        start=start,
        task=task if record.elements else "",
        dumps=read_flight_recorder(transport, logs, chunks),
    )


def _measure_silence(transport: Transport, folder: str, known: Evidence, state: JobState) -> float:
    """Seconds between what ranks wrote last and the end of a job that reached its time limit; 0 if
    it ended otherwise, or either is unknown."""
    from jobgen.model.record import JobState
    from jobgen.transport.files import find_last_write

    if state is not JobState.TIMEOUT or not known.ends:
        return 0.0
    written = find_last_write(transport, folder, _OF_RANKS)
    return max(0.0, known.ended - written) if written else 0.0


def read_flight_recorder(
    transport: Transport, folder: str, chunks: Sequence[tuple[str, Chunk]]
) -> tuple[tuple[int, bytes], ...]:
    """The dumps of PyTorch's flight recorder among these files, each whole."""
    from jobgen.diagnose.flight_recorder import LARGEST, match_dump
    from jobgen.transport.files import read_at

    dumps: list[tuple[int, bytes]] = []
    for path, chunk in chunks:
        rank = match_dump(path)
        if rank is None or chunk.size > LARGEST or len(dumps) == SEARCHED:
            continue
        whole = read_at(transport, f"{folder}/{path}", 0, LARGEST) if chunk.offset else chunk
        dumps += [(rank, whole.data)] if whole is not None else []
    return tuple(dumps)


def _share(record: RunRecord) -> int:
    """Bytes of each rank's files that are read, from their ends."""
    ranks = int(record.shape.get("nodes", 1)) * int(record.shape.get("ranks_per_node", 1))
    return max(LEAST, min(MOST, LOGS // (2 * ranks + 2)))


def gather_folder(transport: Transport, folder: str) -> tuple[Evidence, int]:
    """What the files below a folder show, and how many of them may be logs.

    Logs of any tool; a run directory of jobgen with its event record. Raises JobgenError.
    """
    from jobgen.diagnose.folders import build_evidence, is_log
    from jobgen.errors import JobgenError
    from jobgen.transport.files import read_tail

    seen = read_tail(transport, folder, {}, EVENTS, backlog=MOST)
    if not seen.exists or "" in seen.unread:
        raise JobgenError(f"{folder} cannot be read: {seen.unread.get('', 'no such folder')}")
    chunks = [
        (chunk.path, chunk)
        for chunk in seen.chunks
        if is_log(chunk.path) and b"\0" not in chunk.data[:4096]
    ]
    largest = sorted(chunks, key=lambda row: -row[1].size)
    wanted = [path for path, chunk in largest if chunk.offset]
    texts = list(read_chunks(transport, folder, chunks, wanted))
    rows = [(chunk.path, chunk) for chunk in seen.chunks]
    dumps = read_flight_recorder(transport, folder, rows)
    return build_evidence(texts)._replace(dumps=dumps), len(chunks)


def gather_file(transport: Transport, path: str) -> list[LogText]:
    """What one log file shows; nothing if it is empty. Raises JobgenError."""
    from jobgen.errors import JobgenError
    from jobgen.transport.files import read_at

    folder, _, name = path.rpartition("/")
    chunk = read_at(transport, path, -MOST, MOST)
    if chunk is None:
        raise JobgenError(f"{path} is no file")
    return list(read_chunks(transport, folder or "/", [(name, chunk)], [name]))


def read_chunks(
    transport: Transport, folder: str, chunks: Sequence[tuple[str, Chunk]], wanted: Iterable[str]
) -> Iterable[LogText]:
    """The ends of log files; of those that are cut and wanted, also the lines that matter."""
    cut = {path for path, chunk in chunks if chunk.offset}
    named = [path for path in dict.fromkeys(wanted) if path in cut][:SEARCHED]
    starts: dict[str, int] = {}
    ends = {path: chunk.data.count(b"\n") for path, chunk in chunks}
    if named:
        from jobgen.diagnose.search_words import SEARCH_WORDS
        from jobgen.transport.log_search import search_logs

        paths = [f"{folder}/{path}" for path in named]
        for lines in search_logs(transport, paths, SEARCH_WORDS, most=FOUND):
            path = lines.path.removeprefix(f"{folder}/")
            starts[path] = first = max(lines.total - ends[path], 0) + 1
            before = lines.text.split("\n")[: max(first - lines.first, 0)]
            if before:
                yield LogText(path, "\n".join(before) + "\n", lines.first)
    for path, chunk in chunks:
        data = chunk.data
        if chunk.offset:
            data = data[data.find(b"\n") + 1 :]  # the rest of a line that began before
        first = starts.get(path, 0) + 1 if path in starts else 0
        first = first if chunk.offset else 1
        yield LogText(path, data.decode("utf-8", "backslashreplace"), first)
