"""Calls over one long-lived ``/bin/sh``: framed requests and answers, one round trip each.

The login shell sees one constant line, so neither bash, dash, tcsh nor fish can misread user data.
That line loads ``LOOP``, which then reads requests from its standard input:

    NONCE SCRIPT-BYTES PAYLOAD-BYTES\\n  script \\n#NONCE  payload

The mark at the script's end shows that it arrived whole: a host that cannot start another process
for dd reads an empty script, which would succeed without doing anything. The loop answers on both
output streams, raw bytes between two marks made of the nonce:

    \\n<NONCE<\\n   what the script printed   \\nNONCE:EXIT-CODE\\n

Whatever stands before a first mark is noise (a banner, a chatty ``.bashrc``) and is dropped. An
answer without its last mark is no answer: what the script did is then unknown.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NoReturn, Protocol, Self

from jobgen.errors import Diagnostic, Unreachable
from jobgen.shell import Result, split_lines
from jobgen.transport import DEADLINE, Payload

BOOTSTRAP = """exec /bin/sh -c 'read n; eval "$(dd bs=1 count=$n 2>/dev/null)"'"""
"""The remote command. No ``!``, no newline, no data: csh would misread them even in quotes."""

READY = "jobgen-ready"
BOOTSTRAP_READY = BOOTSTRAP.replace("read n", f"echo; echo {READY}; read n", 1)
"""The remote command for a channel that cannot tell when it is there: first it prints a line."""

LOOP = r"""
jg_umask=$(umask)
umask 077
# reads so many bytes and not one more; not every head does (BusyBox, BSD)
if [ "$(printf abc | dd bs=9 count=2 iflag=fullblock,count_bytes 2>/dev/null)" = ab ]
then jg_take() { dd bs=262144 count="$1" iflag=fullblock,count_bytes 2>/dev/null; }
else jg_take() { dd bs=1 count="$1" 2>/dev/null; }
fi
jg_run() { (cd 2>/dev/null || cd /; eval "$jg_script"); }
while read -r jg_nonce jg_size jg_payload; do
  jg_script=$(jg_take "$jg_size")
  case $jg_script in
    *"#$jg_nonce") ;;
    *) echo 'the request could not be read' >&2; exit 1 ;;
  esac
  printf '\n<%s<\n' "$jg_nonce" >&2
  printf '\n<%s<\n' "$jg_nonce"
  # the group outlives the script and drains what it left, so the next request is found
  # a payload that cannot be read to its end ends the session
  case $jg_payload in
    0) jg_run </dev/null ;;
    *) { trap 'kill "$$"' 0; jg_take "$jg_payload" && trap - 0; } |
         { jg_run; jg_rc=$?; cat >/dev/null; exit "$jg_rc"; } ;;
  esac
  jg_rc=$?
  printf '\n%s:%s\n' "$jg_nonce" "$jg_rc" >&2
  printf '\n%s:%s\n' "$jg_nonce" "$jg_rc"
done
"""

OUT, ERR = 1, 2
_CODE_DIGITS = 3
_LATE = "late"
_FITS = 1 << 15
"""Bytes that any socket takes at once."""
_NOISE_KEPT = 2000


class Channel(Protocol):
    """Bytes to a process and from its two output streams, without ever blocking for long."""

    def exchange(
        self, data: memoryview, awaited: int, timeout: float
    ) -> tuple[int, list[Received]]:
        """How many bytes of ``data`` were taken, and what came on which stream.

        Returns as soon as anything moved, or after ``timeout`` seconds. With no data to send it
        waits for the stream ``awaited``. A received ``b""`` is the end of that stream.
        """

    def abort(self) -> None:
        """End it at once, whatever is under way; may be called from another thread."""

    def close(self) -> None:
        """End it in good order; may be called twice."""

    def describe_end(self) -> str:
        """What is known of why it ended, as one line; empty where nothing is."""


Received = tuple[int, bytes]


class Lost(Exception):
    """The channel ended, or never spoke; the text says how."""


class Session:
    """A Transport over a Channel."""

    def __init__(self, channel: Channel, where: str) -> None:
        self._channel = channel
        self._where = where
        self._greeted = False
        self._before = {OUT: b"", ERR: b""}
        """What came on each stream before the line of ``BOOTSTRAP_READY``."""
        self._ended = ""
        self.noise = b""
        self.took: Mapping[str, float] = {}

    def call(
        self,
        script: str,
        payload: Payload | None = None,
        *,
        deadline: float = DEADLINE,
        sink: Callable[[bytes], None] | None = None,
    ) -> Result:
        """What the script printed and its exit code; see ``Transport.call``."""
        if self._ended:
            problem = Diagnostic(
                "J409",
                f"{self._where}: the connection has ended: {self._ended}",
                hint="run the command again",
            )
            raise Unreachable(problem)
        nonce = secrets.token_hex(16)
        printed: list[bytes] = []
        errors: list[bytes] = []
        answers = {
            OUT: ReplyStream(nonce, sink or printed.append),
            ERR: ReplyStream(nonce, errors.append),
        }
        # a full socket can hold a sender for ever; only closing it from outside lets go
        guard = threading.Timer(deadline + 0.2, self._channel.abort)
        guard.daemon = True
        try:
            if payload and payload.size > _FITS:
                guard.start()
            outgoing = self._request(nonce, script, payload)
            self._converse(outgoing, answers, time.monotonic() + deadline)
        except Lost as lost:
            self._fail(str(lost), deadline, answers[ERR].noise or answers[OUT].noise)
        except BaseException:
            # a request half sent, an answer half read: nobody could find the next frame
            self._ended = "a call was broken off"
            self._channel.abort()
            raise
        finally:
            guard.cancel()
        if not self._greeted:
            self.noise = b"".join(self._before[n] + answers[n].noise for n in (OUT, ERR))
        self._greeted = True
        code = answers[OUT].code
        return Result(255 if code is None else code, b"".join(printed), b"".join(errors))

    def await_ready(self, deadline: float) -> None:
        """Wait until ``BOOTSTRAP_READY`` has printed its line. Raises Unreachable."""
        mark, until = f"\n{READY}\n".encode(), time.monotonic() + deadline
        try:
            while mark not in self._before[OUT]:
                left = until - time.monotonic()
                if left <= 0:
                    raise Lost(_LATE)
                _, received = self._channel.exchange(memoryview(b""), OUT, min(left, 1.0))
                for stream, piece in received:
                    self._before[stream] = (self._before[stream] + piece)[-_NOISE_KEPT:]
                if any(not piece for _, piece in received):
                    raise Lost("connection lost")
        except Lost as lost:
            self._fail(str(lost), deadline, self._before[ERR] or self._before[OUT])
        except BaseException:
            self._channel.abort()
            raise
        self._before[OUT] = self._before[OUT].partition(mark)[0]

    def _request(self, nonce: str, script: str, payload: Payload | None) -> Iterator[bytes]:
        text = b"%s\n#%s" % (script.encode("utf-8", "surrogateescape"), nonce.encode())
        if b"\0" in text:
            raise ValueError("a script cannot hold a NUL byte")
        size = payload.size if payload else 0
        head = b"" if self._greeted else b"%d\n%s" % (len(LOOP), LOOP.encode())
        head += b"%s %d %d\n%s" % (nonce.encode(), len(text), size, text)
        sent = 0
        for chunk in payload.chunks if payload else ():
            sent += len(chunk)
            if sent > size:
                raise ValueError(f"the payload is longer than the {size} bytes announced")
            yield head + chunk if head else chunk
            head = b""
        if sent < size:
            raise ValueError(f"the payload ended after {sent} of {size} bytes")
        if head:
            yield head

    def _converse(
        self, outgoing: Iterator[bytes], answers: dict[int, ReplyStream], until: float
    ) -> None:
        data = memoryview(b"")
        more = True
        while True:
            if not data and more:
                data = memoryview(next(outgoing, b""))
                more = bool(data)
            awaited = ERR if answers[OUT].code is not None else OUT
            if not data and answers[awaited].code is not None:
                return
            left = until - time.monotonic()
            if left <= 0:
                raise Lost(_LATE)
            taken, received = self._channel.exchange(data, awaited, min(left, 1.0))
            data = data[taken:]
            for stream, piece in received:
                answers[stream].feed(piece)
            if any(not piece and answers[stream].code is None for stream, piece in received):
                late = time.monotonic() >= until
                raise Lost(_LATE if late else "connection lost")

    def _fail(self, how: str, deadline: float, noise: bytes) -> NoReturn:
        what = f"no answer within {deadline:g} s" if how == _LATE else how
        why = self._channel.describe_end() or _last_line(noise)
        self._channel.abort()
        self._ended = what
        problem = Diagnostic(
            "J409",
            f"{self._where}: {what}" + (f": {why}" if why else ""),
            hint=(
                "it is unknown whether the request was carried out; run the command again, it "
                "continues where it stopped"
            ),
        )
        raise Unreachable(problem)

    def close(self) -> None:
        """End the connection; may be called twice."""
        self._ended = self._ended or "it was closed"
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ReplyStream:
    """One stream of one answer: finds the marks, hands over what stands between them."""

    def __init__(self, nonce: str, sink: Callable[[bytes], object]) -> None:
        self.code: int | None = None
        self.noise = b""
        self._begin = b"\n<%s<\n" % nonce.encode()
        self._end = b"\n%s:" % nonce.encode()
        self._last = re.compile(re.escape(self._end) + rb"(\d{1,%d})\n" % _CODE_DIGITS)
        self._sink = sink
        self._held = bytearray()
        self._begun = False

    def feed(self, data: bytes) -> None:
        """Take what came in; ``code`` is set once the last mark has been seen."""
        self._held += data
        if not self._begun and not self._skip_noise():
            return
        if self.code is not None:
            return
        search_from = max(0, len(self._held) - len(data) - len(self._end) - _CODE_DIGITS - 1)
        if found := self._last.search(self._held, search_from):
            self.code = int(found[1])  # before the buffer that it points into is cut
            self._give(found.start())
        else:
            self._give(self._safe())

    def _safe(self) -> int:
        """How much of what is held cannot be the beginning of the last mark."""
        newline = self._held.rfind(b"\n", -len(self._end) - _CODE_DIGITS - 1)
        if newline < 0:
            return len(self._held)
        tail = bytes(self._held[newline:])
        possible = self._end.startswith(tail) or tail.startswith(self._end)
        return newline if possible else len(self._held)

    def _skip_noise(self) -> bool:
        # the first mark follows the noise at once, and noise may end without a newline
        at = self._held.find(self._begin)
        if at < 0:
            self.noise = bytes(self._held[-_NOISE_KEPT:])
            del self._held[: -max(_NOISE_KEPT, len(self._begin))]
            return False
        self.noise = bytes(self._held[max(at - _NOISE_KEPT, 0) : at])
        del self._held[: at + len(self._begin)]
        self._begun = True
        return True

    def _give(self, count: int) -> None:
        if count > 0:
            self._sink(bytes(self._held[:count]))
            del self._held[:count]


def _last_line(noise: bytes) -> str:
    """The last line of what came instead of an answer, printable."""
    lines = [line for line in split_lines(noise.decode("utf-8", "replace")) if line.strip()]
    last = lines[-1][:200] if lines else ""
    return "".join(c if c.isprintable() else "?" for c in last)
