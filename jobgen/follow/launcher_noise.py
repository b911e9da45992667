"""What launchers and Slurm write after a rank has failed: found in a log, so that it can be folded.

Written after the logs of torchrun 2.0 to 2.13, accelerate, DeepSpeed, pdsh and srun. Nothing that
only these lines report is folded: out of memory, a time limit, a rendezvous that failed at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_PREFIX = r"(?:\[rank\d+\]: ?|[\w.-]{1,64}: )?"
"""torch's in front of a traceback, pdsh's in front of every line of a node."""
_LINES = (
    # srun and slurmstepd
    (
        r"srun: error: [^ ]+: tasks? [\d,-]+: (?:Exited with exit code|Killed|Terminated|Aborted"
        r"|Segmentation fault|Bus error|Broken pipe|Interrupt|Hangup)"
    ),
    (
        r"srun: (?:Job step aborted|got SIGCONT|forcing job termination|First task exited"
        r"|launch/slurm: _step_signal: Terminating|Force Terminated|Terminating StepId)"
    ),
    r"slurmstepd[\w.-]*: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*$",
    # torchrun's and accelerate's agent, in the formats of several releases
    (
        r".*torch[./]distributed[./]elastic[./].*(?:closing signal(?! SIGHUP)"
        r"|failed \(exitcode|death signal|Unable to shutdown process"
        r"|Local worker group finished \(.*FAILED)"
    ),
    (
        r".*torch[./]distributed[./]elastic[./].*(?:has failed to shutdown the rendezvous"
        r"|Attempting to leave the rendezvous|could not be reached)"
    ),
    # c10d of ranks whose peers have gone
    (
        r"\[?[WE]\d{4}.*(?:TCPStore|socket|ProcessGroup\w+|Utils)\.(?:cpp|hpp):\d+\].*"
        r"(?:Failed to recv|recvV\w+ failed|sendBytes failed|recvBytes|Connection was likely closed"
        r"|should dump|Broken pipe|Connection reset)"
    ),
    r"Exception raised from \w+ at ",
    r"frame #\d+: ",
    # DeepSpeed and pdsh
    r"\[.*\] \[\w+\] \[launch\.py:\d+:sigkill_handler\]",
    r"\[.*\] \[\w+\] \[launch\.py:\d+:main\] (?:Killing|exits|Process)",
    r"pdsh@[\w.-]+: [\w.-]+: ssh exited with exit code",
    # Python
    r".*resource_tracker: There appear to be \d+ leaked",
)
_NOISE = re.compile("|".join(f"(?:{_PREFIX}{line})" for line in _LINES))
_TRACEBACK = re.compile(rf"(?P<prefix>{_PREFIX})Traceback \(most recent call last\):")
_OWN_END = re.compile(
    rf"{_PREFIX}(?:torch\.distributed\.elastic\.(?:multiprocessing\.errors\.ChildFailedError"
    r"|multiprocessing\.api\.SignalException|rendezvous\.api\.RendezvousClosedError)"
    r"|subprocess\.CalledProcessError: Command '\[)"
)
"""Exceptions of a launcher that only repeat that a rank has failed."""
_ORPHAN = re.compile(
    rf"{_PREFIX}torch\.distributed\.elastic\.multiprocessing\.api\.SignalException: Process \d+ got"
)
"""Such an end alone: several launchers have mixed the lines of their tracebacks."""
_LATE_END = re.compile(
    rf"{_PREFIX}(?:torch\.distributed\.elastic\.rendezvous\.api\.Rendezvous(?:Connection|State)Error"
    r"|torch\.distributed\.Dist(?:Network|Store)Error)"
)
"""The same after a rank has failed; before that, they are the error itself."""
_TRAIL = re.compile(
    rf"{_PREFIX}(?:\s*|<omitting python frames>"
    r"|The above exception was the direct cause of the following exception:"
    r"|During handling of the above exception, another exception occurred:)$"
)
"""What stands between two tracebacks, or behind the frames of C++: nothing without them."""
_LOST = re.compile(
    r"Connection (?:closed|reset) by peer|[Ff]ailed to recv, got 0 bytes|ncclRemoteError"
    r"|remote process exited or there was a network error"
)
"""The exception of a rank that only lost another one: its frames show where all ranks waited."""
_BANNER = re.compile(
    rf"{_PREFIX}(?:=+$|-+$|\S+ FAILED$|Failures:$|\s*<NO_OTHER_FAILURES>$|\[\d+\]:$|  \w+ *: "
    r"|Root Cause \(first observed failure\):$)"
)
_MARKS = (b"srun: ", b"slurmstepd", b"Traceback (", b"elastic", b".cpp:", b"frame #", b"launch.py",
          b"pdsh@", b"resource_tracker", b"Exception raised")  # fmt: skip


class NoiseFilter:
    """Splits the lines of one file, as they come, into those to show and those to fold."""

    def __init__(self, *, peers: bool = False, batch: bool = False) -> None:
        """With ``peers`` the frames of ranks that only lost another one are folded, too; of the
        ``batch`` script, what bash says of the commands that Slurm or the script itself ended."""
        self._peers = peers
        self._batch = batch
        self.count = 0
        """Lines folded so far."""
        self._held: list[str] = []
        """A traceback whose exception has not come yet, of one launcher or several at once."""
        self._prefixes: list[str] = []
        """What stands before each line of these tracebacks."""
        self._late = False
        self._trails = False
        """Whether the last line that matters was folded and may have a trail."""
        self._rules = 0
        """Lines of ``====`` that are still to come."""

    def feed(self, lines: bytes) -> bytes:
        """Complete lines in; those to show out. A traceback is kept back until its end."""
        waits = self._held or self._rules or self._trails or self._batch
        if not waits and not any(mark in lines for mark in _MARKS):
            return lines
        texts = lines.decode("utf-8", "surrogateescape").split("\n")[:-1]
        shown = "".join(f"{text}\n" for text in self.choose(texts))
        return shown.encode("utf-8", "surrogateescape")

    def choose(self, texts: Iterable[str]) -> Iterator[str]:
        """The lines that are shown."""
        for text in texts:
            if self._held:
                yield from self._go_on(text)
            elif begun := _TRACEBACK.match(text):
                self._held, self._prefixes = [text], [begun["prefix"]]
                self._trails = False
            elif self._is_noise(text):
                self.count += 1
            else:
                self._trails = False
                yield text

    def release(self) -> list[str]:
        """What was kept back, now that no more will come."""
        held, self._held, self._prefixes = self._held, [], []
        return held

    def _go_on(self, text: str) -> Iterator[str]:
        """A line that follows the beginning of a traceback."""
        if self._is_noise(text):
            self.count += 1
            return
        self._held.append(text)
        if begun := _TRACEBACK.match(text):
            self._prefixes.append(begun["prefix"])
        elif _TRAIL.match(text) is None and not any(
            _is_inside(text, prefix) for prefix in self._prefixes
        ):
            yield from self._end(text)

    def _end(self, text: str) -> Iterator[str]:
        """The exception of a traceback: the launcher's own is folded with it."""
        if not (_OWN_END.match(text) or (self._late and _LATE_END.match(text))):
            self._trails = False
            if self._peers and _LOST.search(text):
                self.count += len(self.release()) - 1
                yield text
            else:
                yield from self.release()
            return
        self._late = self._trails = True
        self._rules += 2 if "ChildFailedError" in text else 0
        self._prefixes.pop()
        if not self._prefixes:
            self.count += len(self.release())

    def _is_noise(self, text: str) -> bool:
        if self._rules and _BANNER.match(text):
            self._rules -= text.rstrip().endswith("=====")
            return True
        if self._trails and _TRAIL.match(text):
            return True
        if self._batch and text in {"Terminated", "Killed"}:
            return True
        noise = bool(_NOISE.match(text) or (not self._held and _ORPHAN.match(text)))
        self._trails, self._late = self._trails or noise, self._late or noise
        return noise


def _is_inside(text: str, prefix: str) -> bool:
    """Whether a line belongs to a traceback whose lines have this prefix."""
    return text.startswith((f"{prefix} ", f"{prefix}\t")) or text.strip() in ("", prefix.strip())


def drop_noise(texts: Iterable[str]) -> list[str]:
    """The lines of a log without what launchers wrote after the failure."""
    chosen = NoiseFilter()
    return [*chosen.choose(texts), *chosen.release()]
