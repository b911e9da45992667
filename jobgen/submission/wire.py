"""The answers of our scripts: frames of a key, a length and so many bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobgen.shell import Result

_HEAD = re.compile(rb"([a-z][a-z0-9_.-]{0,30}) (\d{1,9})\n")

Frames = list[tuple[str, str]]


class GarbledError(ValueError):
    """The answer is not in frames, or was cut off: nothing can be concluded from it."""


def split_frames(data: bytes) -> Frames:
    """The frames in order. Raises GarbledError; never gives part of an answer."""
    found: Frames = []
    at = 0
    while at < len(data):
        head = _HEAD.match(data, at)
        if head is None:
            raise GarbledError(f"no frame at byte {at}: {data[at : at + 40]!r}")
        end = head.end() + int(head.group(2))
        if data[end : end + 1] != b"\n":
            raise GarbledError(f"frame {head.group(1).decode()} at byte {at} has another length")
        content = data[head.end() : end].decode("utf-8", "replace")
        found.append((head.group(1).decode(), content))
        at = end + 1
    return found


def parse_complete_frames(data: bytes) -> Frames:
    """The frames that arrived whole, of an answer that may have been cut off."""
    found: Frames = []
    at = 0
    while (head := _HEAD.match(data, at)) is not None:
        end = head.end() + int(head.group(2))
        # the last newline may be held back: it could begin the mark that ends an answer
        if end > len(data) or data[end : end + 1] not in (b"\n", b""):
            break
        found.append((head.group(1).decode(), data[head.end() : end].decode("utf-8", "replace")))
        at = end + 1
    return found


def index(found: Frames) -> dict[str, str]:
    """Key → content; of a key that comes twice, the last."""
    return dict(found)


def read_answer(values: dict[str, str], key: str) -> Result:
    """What ``ask KEY`` brought: the question's output, complaints and exit code."""
    code = parse_number(values.get(f"{key}.code", ""))
    return Result(
        255 if code is None else int(code),
        values.get(f"{key}.out", "").encode(),
        values.get(f"{key}.err", "").encode(),
    )


def parse_number(text: str) -> float | None:
    """A plain decimal number; None for anything else."""
    text = text.strip()
    return float(text) if re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def split(found: Frames, key: str) -> Iterable[tuple[str, dict[str, list[str]]]]:
    """Groups that begin at each frame ``key``: its content, and what follows by key."""
    group: dict[str, list[str]] | None = None
    name = ""
    for word, content in found:
        if word == key:
            if group is not None:
                yield name, group
            name, group = content, {}
        elif group is not None:
            group.setdefault(word, []).append(content)
    if group is not None:
        yield name, group
