"""Reading files on the other side: many growing ones in one call, or a piece of one.

Nothing is kept open there: every call opens the files anew, which is when NFS asks the server for
their true length. Files that did not grow cost one line of text, and no process.
"""

from __future__ import annotations

import itertools
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobgen.errors import Diagnostic, JobgenError
from jobgen.shell import Result, build_script
from jobgen.transport import DEADLINE, Payload, Transport

LIMIT = 4 << 20
PAGE = 4 << 10
"""The fair share of a file is at least so many bytes. With less of each, the looks at many ranks
cost more than their lines: 4,096 files as much to open as 6 MB to show."""
TOOLS = "the host needs find, stat, awk, tail and head, and a few free processes"

_PIECE = r"""
LC_ALL=C; export LC_ALL
piece() { tail -c "+$(($2 + 1))" "$1" | head -c "$3"; }
gnu='status=none iflag=skip_bytes,count_bytes'
if [ "$(printf abc | dd bs=1 count=2 $gnu 2>/dev/null)" = ab ]
then piece() { dd if="$1" bs=65536 skip="$2" count="$3" $gnu,fullblock; }
fi
"""

# $1 nonce; on stdin "START COUNT SIZE PATH" lines and a last one. One process for all files where
# there is perl, else one for each.
_PIECES = (
    _PIECE
    + r"""
pieces() {
  while IFS= read -r line; do
    printf '\n%s %s\n' "$1" "$line"
    path=${line#* * * }
    start=${line%% *}; rest=${line#* }; count=${rest%% *}
    if [ "$path" != "$line" ] && [ "$count" != 0 ]; then piece "$path" "$start" "$count"; fi
  done
}
if [ "$(perl -e 'print 1' 2>/dev/null)" = 1 ]; then pieces() {
  perl -e '
    $nonce = shift;
    while (<STDIN>) {
      chomp;
      print "\n$nonce $_\n";
      my ($start, $left, $size, $path) = split / /, $_, 4;
      next unless defined $path && $left;
      my $file;
      unless (open($file, "<:raw", $path) && sysseek($file, $start, 0)) {
        print STDERR "$path: $!\n";
        next;
      }
      while ($left) {
        my $got = sysread($file, my $data, $left < 262144 ? $left : 262144);
        print STDERR "$path: $!\n" unless defined $got;
        last unless $got;
        print $data;
        $left -= $got;
      }
    }' "$1"
}
fi
"""
)

# $1 directory, $2 nonce, $3 limit, $4 page, $5 backlog, $6 overlap; on stdin "OFFSET PATH" lines
# and a last "-". Prints "START COUNT SIZE PATH" and COUNT bytes for each file, then
# "end:FILES:SKIPPED:MORE:CODE" with the exit code of find; "none" for a directory that cannot be
# entered. Complaints go to stderr.
_TAIL = (
    _PIECES
    + r"""
newline='
'
list() {
  # a name with a newline could pass for two files: such names are only counted
  find . -path "*$newline*" -prune -exec sh -c 'echo "! $#"' sh {} + \
    -o -type f -exec stat -c '%s %n' {} +
  echo "= $?"
}
if ! cd "$1" 2>/dev/null; then
  printf '\n%s none\n' "$2"
  exec ls -d -- "$1/."
fi
{ cat; list; } | awk -v limit="$3" -v page="$4" -v backlog="$5" -v overlap="$6" '
  !listed && $0 == "-" { listed = 1; next }
  { space = index($0, " "); size = substr($0, 1, space - 1); path = substr($0, space + 1) }
  !listed { offset[path] = size + 0; next }
  size == "!" { skipped += path; next }
  size == "=" { code = path; next }
  { files++; start = 0; size += 0 }
  path in offset { start = offset[path] }
  !(path in offset) && backlog >= 0 && size > backlog { start = size - backlog }
  size < start { printf "%.0f 0 %.0f %s\n", start, size, path }
  size > start {
    if (path in offset) start -= start < overlap ? start : overlap
    n++; name[n] = path; from[n] = start; want[n] = size - start; of[n] = size
  }
  END {
    # half a list of files could not be told from a shorter one
    if (code == "") exit 1
    # the limit is shared: who wants less than an equal part gets all, and leaves more to the others
    left = limit > n * page ? limit : n * page; waiting = n
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
    printf "end:%d:%d:%d:%d\n", files, skipped, (waiting > 0), code
  }' | pieces "$2"
"""
)

# $1 path, $2 offset (from the end if negative), $3 limit. Prints the size and a piece, or "none".
_READ = (
    _PIECE
    + r"""
[ -f "$1" ] || { echo none; exit; }
size=$(stat -c %s "$1") && echo "$size" || exit
from=$2
[ "$from" -ge 0 ] || from=$((size + from))
[ "$from" -ge 0 ] || from=0
piece "$1" "$from" "$3"
"""
)

# $1 directory, $2 seconds. Prints the clock of its time zone as seconds, and the files that were
# written to in the last so many seconds.
_RECENT = r"""
cd "$1" || exit
date -u -d "$(date '+%Y-%m-%d %H:%M:%S') UTC" +%s && find . -type f -newermt "-$2 seconds" -print0
"""

# $1 directory, $2 pattern of names. Prints when the newest file was last written to, as seconds.
_LAST_WRITE = r"""
cd "$1" && find . -type f -name "$2" -exec stat -c %Y {} + | sort -n | tail -n 1
"""


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
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why a file came cut or not at all, by its path; under ``""``, why others may be missing."""


def read_tail(
    transport: Transport,
    directory: str,
    offsets: Mapping[str, int],
    limit: int = LIMIT,
    *,
    backlog: int | None = None,
    overlap: int = 0,
) -> Tail:
    """The bytes beyond ``offsets`` of all files below a directory, in one call.

    At most ``limit`` bytes, or ``PAGE`` for each file if that is more, shared fairly. A file
    without an offset is read from its beginning, or from ``backlog`` bytes before its end. One
    that grew is read from ``overlap`` bytes before its offset, to compare them with what was read.
    To go on, give each ``chunk.end`` as the next offset.
    """
    nonce = secrets.token_hex(16)
    lines = [f"{offset} ./{path}\n" for path, offset in offsets.items() if "\n" not in path]
    known = "".join([*lines, "-\n"]).encode("utf-8", "surrogateescape")
    words = (limit, PAGE, -1 if backlog is None else backlog, overlap)
    text = build_script(_TAIL, directory, nonce, *map(str, words))
    result = transport.call(text, Payload(len(known), [known]), deadline=DEADLINE)
    mark = b"\n" + nonce.encode() + b" "
    at = [found.end() for found in re.finditer(mark, result.out)]
    last = result.out[at[-1] :] if at else b""
    if last == b"none\n":
        return Tail(exists=False, unread={"": _complaint(result)})
    found = re.fullmatch(rb"end:(\d+):(\d+):([01]):(\d+)\n", last)
    if not found:
        return Tail(unread={"": _complaint(result)})
    pieces = [_piece(result.out, start, end - len(mark)) for start, end in itertools.pairwise(at)]
    seen = [chunk for chunk, _ in pieces]
    return Tail(
        chunks=tuple(chunk for chunk in seen if chunk.data),
        shrunk={chunk.path: chunk.size for chunk in seen if chunk.size < chunk.offset},
        files=int(found[1]),
        skipped=int(found[2]),
        more=found[3] == b"1",
        unread=_unread([chunk.path for chunk, whole in pieces if not whole], found[4], result),
    )


def _piece(out: bytes, start: int, end: int) -> tuple[Chunk, bool]:
    """The piece of a file between two marks, and whether all its bytes are there."""
    data = out.index(b"\n", start, end) + 1
    offset, count, size, path = out[start : data - 1].split(b" ", 3)
    name = path.removeprefix(b"./").decode("utf-8", "surrogateescape")
    return Chunk(name, int(offset), out[data:end], int(size)), end - data == int(count)


def _unread(cut: Sequence[str], code: bytes, result: Result) -> Mapping[str, str]:
    unread = {path: _complaint(result, path) for path in cut}
    return unread if code == b"0" else {"": _complaint(result, "find"), **unread}


def _complaint(result: Result, about: str = "") -> str:
    """The line of stderr that names something, else the last one."""
    lines = [line for line in result.error_text.split("\n") if line.strip()]
    lines = lines or [f"incomplete answer (exit code {result.code})"]
    return next((line for line in lines if about and about in line), lines[-1])[-300:]


def read_at(
    transport: Transport,
    path: str,
    offset: int = 0,
    limit: int = LIMIT,
    *,
    deadline: float = DEADLINE,
) -> Chunk | None:
    """At most ``limit`` bytes of a file from ``offset`` on, and its size; None where it is none.

    A negative ``offset`` counts from the end. Raises JobgenError where the answer is not whole.
    """
    result = transport.call(build_script(_READ, path, str(offset), str(limit)), deadline=deadline)
    if result.out == b"none\n":
        return None
    size, newline, data = result.out.partition(b"\n")
    whole = int(size) if newline and size.isdigit() else -1
    offset = max(0, whole + offset) if offset < 0 else offset
    if whole < 0 or len(data) < min(limit, whole - offset):
        problem = Diagnostic(
            "J410", f"cannot read {path} on the host: {_complaint(result)}", hint=TOOLS
        )
        raise JobgenError(problem)
    return Chunk(path, offset, data, whole)


def list_recent(
    transport: Transport, directory: str, seconds: float
) -> tuple[float, frozenset[str]]:
    """The time there, in seconds since 1970 as its clock shows it, and the files below a directory
    that were written to in the last ``seconds``. Raises JobgenError where the answer is not whole.
    """
    result = transport.call(build_script(_RECENT, directory, str(math.ceil(seconds))))
    clock, newline, names = result.out.partition(b"\n")
    if result.code or not newline or not clock.isdigit():
        problem = Diagnostic(
            "J410", f"cannot read {directory} on the host: {_complaint(result)}", hint=TOOLS
        )
        raise JobgenError(problem)
    paths = names.decode("utf-8", "surrogateescape").split("\0")
    return float(clock), frozenset(path.removeprefix("./") for path in paths if path)


def find_last_write(transport: Transport, directory: str, names: str) -> float:
    """When a file below a directory whose name matches a pattern was last written to, in seconds
    since 1970 by the clock of its file system; 0 if there is none, or it cannot be told."""
    result = transport.call(build_script(_LAST_WRITE, directory, names))
    written = result.out.strip()
    return float(written) if written.isdigit() else 0.0
