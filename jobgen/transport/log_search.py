"""Finding the lines of large logs that matter, where they lie: only these are sent."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.shell import build_script
from jobgen.transport import Payload, Transport

SEARCH_DEADLINE = 120.0
"""Seconds: a login host reads some hundred MB a second, and several files may be large."""

# $1 nonce, $2 bytes a file, $3 lines behind a match; on stdin the words, "-", and the paths. Prints
# the number of lines of each file, then "NUMBER:LINE" of what matches and "NUMBER-LINE" of what
# follows: of more than fits, the first half and the last.
_SEARCH = r"""
LC_ALL=C; export LC_ALL
words=''
while IFS= read -r line && [ "$line" != - ]; do
  words="$words$line
"
done
while IFS= read -r path; do
  printf '\n%s %s %s\n' "$1" "$(wc -l <"$path")" "$path"
  printf '%s' "$words" | grep -anF -A "$3" -f - -- "$path" | cut -c -700 | awk -v most="$2" '
    $0 == "--" { next }
    head + length($0) < most / 2 { head += length($0) + 1; print; next }
    {
      kept[last++] = $0; size += length($0) + 1
      while (size > most / 2) { size -= length(kept[first]) + 1; delete kept[first++] }
    }
    END { for (i = first; i < last; i++) print kept[i] }'
done
printf '\n%s end\n' "$1"
"""


class MatchedLines(NamedTuple):
    """Lines of one file that follow each other."""

    path: str
    first: int
    """The number of the first line, from 1."""
    text: str
    total: int
    """How many line breaks the file has."""


def search_logs(
    transport: Transport, paths: Sequence[str], words: Sequence[str], *, most: int, behind: int = 30
) -> list[MatchedLines]:
    """The lines of these files that hold one of the words, each with the lines behind it.

    At most ``most`` bytes a file, from its beginning and its end. Raises Unreachable; a file that
    cannot be read is left out.
    """
    names = [path for path in paths if "\n" not in path]
    nonce = secrets.token_hex(16)
    text = "".join(f"{line}\n" for line in (*words, "-", *names))
    data = text.encode("utf-8", "surrogateescape")
    script = build_script(_SEARCH, nonce, str(most), str(behind))
    result = transport.call(script, Payload(len(data), [data]), deadline=SEARCH_DEADLINE)
    sections = re.split(rb"\n" + nonce.encode() + rb" ", result.out)[1:]
    return [lines for section in sections for lines in _read_section(section)]


def _read_section(section: bytes) -> Iterator[MatchedLines]:
    head, _, body = section.decode("utf-8", "backslashreplace").partition("\n")
    total, _, path = head.partition(" ")
    if not total.isdigit():
        return
    first, lines = 0, list[str]()
    for row in body.split("\n"):
        match = re.match(r"(\d+)[:-](.*)", row)
        if match is None:
            continue
        number = int(match[1])
        if lines and number != first + len(lines):
            yield MatchedLines(path, first, "\n".join(lines) + "\n", int(total))
            lines = []
        first = first if lines else number
        lines.append(match[2])
    if lines:
        yield MatchedLines(path, first, "\n".join(lines) + "\n", int(total))
