"""The failed jobs of ``tests/facts/failures``, as the finder of causes takes them."""

from __future__ import annotations

from pathlib import Path

from jobgen.diagnose import Evidence, LogText, count_ranks, list_ends, list_finished
from jobgen.model.events import read_events

FAILURES = Path(__file__).parents[1] / "facts" / "failures"


def read_fact(text: str, state: str) -> Evidence:
    """The evidence that a fact file holds."""
    files: dict[str, str] = {}
    for part in text.split("@@ ")[1:]:
        path, _, content = part.partition("\n")
        files[path] = content.removesuffix("\n%")
    events = "".join(content for path, content in files.items() if path.startswith("events/"))
    rows = read_events(events)
    logs = {
        path.removeprefix("logs/"): content
        for path, content in files.items()
        if path.startswith("logs/")
    }
    ended = max((event.time for event in rows), default=0.0)
    texts = tuple(LogText(path, text) for path, text in logs.items())
    return Evidence(
        state,
        list_ends(rows),
        texts,
        ended=ended,
        finished=list_finished(rows),
        world=count_ranks(rows),
    )
