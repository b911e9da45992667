"""Reading files on the other side: many growing ones in one call, or a piece of one.

Nothing is kept open there: every call opens the files anew, which is when NFS asks the server for
their true length. Files that did not grow cost one line of text, and no process.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobgen.errors import JobgenError, Problem
from jobgen.shell import script
from jobgen.transport import DEADLINE, Payload, Transport

LIMIT = 4 << 20

_LIST = r"""
LC_ALL=C; export LC_ALL
newline='
'
list() {
  # a name with a newline could pass for two files: such names are only counted
  find . -path "*$newline*" -prune -exec sh -c 'echo "! $#"' sh {} + \
    -o -type f -exec stat -c '%s %n' {} + 2>/dev/null
}
piece() { tail -c "+$(($2 + 1))" "$1" | head -c "$3"; }
if [ "$(printf abc | dd bs=1 count=2 iflag=skip_bytes,count_bytes 2>/dev/null)" = ab ]
then piece() { dd if="$1" bs=65536 skip="$2" count="$3" iflag=skip_bytes,count_bytes,fullblock; }
fi 2>/dev/null
"""

_LISTING = (
    _LIST
    + r"""
cd "$1" 2>/dev/null && list
:
"""
)

# $1 directory, $2 nonce, $3 limit, $4 backlog; on stdin "OFFSET PATH" lines
_TAIL = (
    _LIST
    + r"""
cd "$1" 2>/dev/null || exit 0
{ cat; echo -; list; } | awk -v limit="$3" -v backlog="$4" '
  !listed && $0 == "-" { listed = 1; next }
  { space = index($0, " "); size = substr($0, 1, space - 1); path = substr($0, space + 1) }
  !listed { offset[path] = size + 0; next }
  size == "!" { skipped += path; next }
  { files++; start = 0; size += 0 }
  path in offset { start = offset[path] }
  !(path in offset) && backlog >= 0 && size > backlog { start = size - backlog }
  size < start { printf "%.0f 0 %.0f %s\n", start, size, path }
  size > start { n++; name[n] = path; from[n] = start; want[n] = size - start; of[n] = size }
  END {
    # the limit is shared: who wants less than an equal part gets all, and leaves more to the others
    left = limit; waiting = n
    do {
      served = 0; part = waiting ? left / waiting : 0
      for (i = 1; i <= n; i++)
        if (!(i in give) && want[i] <= part) {
          give[i] = want[i]; left -= want[i]; waiting--; served = 1
        }
    } while (served && waiting)
    part = waiting ? int(left / waiting) : 0
    for (i = 1; i <= n; i++) {
      if (!(i in give)) give[i] = part
      if (give[i]) printf "%.0f %.0f %.0f %s\n", from[i], give[i], of[i], name[i]
    }
    printf "%d %d %d\n", files, skipped, (waiting > 0)
  }' | while IFS= read -r line; do
  path=${line#* * * }
  if [ "$path" = "$line" ]; then printf '\n%s end %s\n' "$2" "$line"; continue; fi
  start=${line%% *}; rest=${line#* }; count=${rest%% *}; rest=${rest#* }
  printf '\n%s %s %s %s\n' "$2" "$start" "${rest%% *}" "${path#./}"
  [ "$count" = 0 ] || piece "$path" "$start" "$count" 2>/dev/null
done
"""
)

# $1 path, $2 offset, $3 limit
_READ = (
    _LIST
    + r"""
[ -f "$1" ] && stat -c %s "$1" 2>/dev/null || exit 0
piece "$1" "$2" "$3" 2>/dev/null
"""
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one file; ``path`` is relative to the directory, ``size`` the file's when looked
    at."""

    path: str
    offset: int
    data: bytes
    size: int

    @property
    def end(self) -> int:
        """The offset to go on from."""
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class Tail:
    """What is new in a directory."""

    chunks: tuple[Chunk, ...] = ()
    """Never empty ones: an empty tuple means that nothing is new."""
    shrunk: Mapping[str, int] = field(default_factory=dict)
    """Files that are now shorter than their offset, with their sizes. On NFS a stale answer can
    look so for a moment: believe it when it is seen twice."""
    files: int = 0
    skipped: int = 0
    """Files and directories with a newline in their name; they are not read."""
    more: bool = False
    """Whether the limit cut something off: ask again at once."""
    exists: bool = True


def tail(
    transport: Transport,
    directory: str,
    offsets: Mapping[str, int],
    limit: int = LIMIT,
    *,
    backlog: int | None = None,
    deadline: float = DEADLINE,
) -> Tail:
    """The bytes beyond ``offsets`` of all files below a directory, in one call.

    At most ``limit`` bytes, shared fairly. A file without an offset is read from its beginning, or
    from ``backlog`` bytes before its end. To go on, give each ``chunk.end`` as the next offset.
    """
    nonce = secrets.token_hex(16)
    lines = [f"{offset} ./{path}\n" for path, offset in offsets.items() if "\n" not in path]
    known = "".join(lines).encode("utf-8", "surrogateescape")
    text = script(_TAIL, directory, nonce, str(limit), str(-1 if backlog is None else backlog))
    result = transport.call(text, Payload(len(known), [known]), deadline=deadline)
    mark = b"\n" + nonce.encode() + b" "
    at = [found.end() for found in re.finditer(mark, result.out)]
    if not at:
        return Tail(exists=False)
    last = result.out[at[-1] :].split()
    if len(last) != 4 or last[0] != b"end":
        said = result.error_text.strip()[-300:] or "no answer"
        problem = Problem(
            "J410",
            f"the logs cannot be read there: {said}",
            hint="find, stat, awk, tail and head are needed on that machine",
        )
        raise JobgenError(problem)
    seen = [_chunk(result.out, start, end - len(mark)) for start, end in itertools.pairwise(at)]
    return Tail(
        chunks=tuple(chunk for chunk in seen if chunk.data),
        shrunk={chunk.path: chunk.size for chunk in seen if chunk.size < chunk.offset},
        files=int(last[1]),
        skipped=int(last[2]),
        more=last[3] == b"1",
    )


def _chunk(out: bytes, start: int, end: int) -> Chunk:
    """The piece of a file between two marks; its head stands on a line before it."""
    data = out.index(b"\n", start, end) + 1
    offset, size, path = out[start : data - 1].split(b" ", 2)
    name = path.decode("utf-8", "surrogateescape")
    return Chunk(name, int(offset), out[data:end], int(size))


def listing(transport: Transport, directory: str, *, deadline: float = DEADLINE) -> dict[str, int]:
    """The sizes of all files below a directory by their relative paths; empty where it is none."""
    result = transport.call(script(_LISTING, directory), deadline=deadline)
    sizes = {}
    for line in result.out.split(b"\n"):
        size, _, path = line.partition(b" ./")
        if size.isdigit():
            sizes[path.decode("utf-8", "surrogateescape")] = int(size)
    return sizes


def read_at(
    transport: Transport,
    path: str,
    offset: int = 0,
    limit: int = LIMIT,
    *,
    deadline: float = DEADLINE,
) -> Chunk | None:
    """At most ``limit`` bytes of a file from ``offset`` on, and its size; None where it is none."""
    result = transport.call(script(_READ, path, str(offset), str(limit)), deadline=deadline)
    size, newline, data = result.out.partition(b"\n")
    return Chunk(path, offset, data, int(size)) if newline and size.isdigit() else None
