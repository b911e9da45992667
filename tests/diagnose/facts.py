"""The failed jobs of ``tests/facts/failures``, as the finder of causes takes them."""

from __future__ import annotations

from pathlib import Path

from jobgen.diagnose import Evidence, LogText, read_record
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
    texts = tuple(LogText(path, text) for path, text in logs.items())
    return read_record(rows)._replace(state=state, logs=texts)
