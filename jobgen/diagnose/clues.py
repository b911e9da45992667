"""The lines of each process → what they show: tracebacks, and lines that rules know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from jobgen.diagnose.boxed_tracebacks import find_boxed
from jobgen.diagnose.excerpts import cut_line
from jobgen.diagnose.failure_rules import BARE, UNCAUGHT, Level, Rule, match_line, outranks
from jobgen.diagnose.frame_rules import classify_frames
from jobgen.diagnose.log_lines import LogLine, ProcessLog
from jobgen.diagnose.origins import Origin, merge, read_inside
from jobgen.diagnose.tracebacks import Traceback, find_tracebacks
from jobgen.follow.launcher_noise import LAUNCHED, drop_noise
from jobgen.named_tuple import NamedTuple

MOST_LINES = 12
"""Lines of an error that are kept."""
NEAR = 25
"""How many lines of a program may follow an error that ended it."""
_FATAL, _MODULES = "Fatal Python error", "Extension modules: "
"""faulthandler's: the stack of the program follows, and then a list of modules."""
_HARMLESS = re.compile(
    r"(?<!=)\b(?:DEBUG|INFO|WARNING|\w*Warning)\b|^\S* ?\[?(?:debug|info|warning)\b"
)
"""What a program logged and went on."""
_LAUNCHERS = re.compile(
    r"srun: |slurmstepd|sbatch: |salloc: |NCCL WARN|pdsh@|jobgen: |\bWatchdog\b"
)
"""Never a program's own warning."""
_OWN = re.compile(r"jobgen: (?P<who>[\w.-]+|rank \S+ on [\w.-]+): (?P<text>.*)")
_TIMED = re.compile(r"[DIWEF]\d{4} \d\d:\d\d:\d\d|frame #\d|\s*$|.*NCCL (?:INFO|WARN)|\s{2,}\S")
"""Lines that C++ and NCCL write, of which none shows that the program went on."""


_LAUNCHER_END = re.compile(
    rf"(?:\w+\.)*(?:ChildFailedError\b|{LAUNCHED}|ProcessExitedException\b"
    r"|Exception: process \d+ terminated)"
)
"""Of a launcher: it only repeats that a process failed."""
_RELAYED = re.compile(r"-- Process (\d+) terminated with the following error")
"""torch.multiprocessing.spawn's."""
_GROUP = re.compile(r"(?:Base)?ExceptionGroup: .*\(\d+ sub-exceptions?\)$")
"""It only counts the exceptions whose tracebacks follow."""
_NCCL, _LAST_ERROR = "nccl", "Last error:"
_TERMINATE, _WHAT = "terminate called after throwing", re.compile(r"\s*what\(\): ")


class Numbered(str):
    """The text of a line that remembers where it stands."""

    __slots__ = ("line",)

    line: LogLine

    @classmethod
    def of(cls, line: LogLine) -> Numbered:
        """The text of ``line``."""
        text = cls(line.text)
        text.line = line
        return text


class Clue(NamedTuple):
    """Something that a log shows, and where."""

    rule: Rule
    text: str
    """The error in one line, as it stands there."""
    lines: tuple[str, ...]
    path: str
    number: int
    """Of the line in its file; 0 if unknown."""
    order: int
    """Its place in its file."""
    origin: Origin
    below: int
    """How many lines follow that the program wrote as if nothing had happened."""
    known: bool
    """Whether one rank alone wrote its stream."""
    raised: bool = False
    """Whether it is an exception, with its traceback."""
    unsure: int = 0
    """Of its lines, those that may be what the program wrote later, and no part of its message."""
    time: float | None = None
    """When it was written, in seconds of the year; None if no line before it says."""

    @property
    def level(self) -> Level:
        """What it proves."""
        return self.rule.level

    @property
    def rank(self) -> int | None:
        """The rank in the job; None if it is not known, or counts on its node only."""
        return self.origin.job_rank

    @property
    def survived(self) -> bool:
        """Whether the program went on after it."""
        return self.below > NEAR


def find_clues(streams: Iterable[ProcessLog]) -> list[Clue]:
    """All that the logs show, file by file in the order of the lines."""
    return [seen for stream in streams for seen in read_clues(stream)]


def read_clues(stream: ProcessLog) -> list[Clue]:
    """What one stream shows, in the order of its lines."""
    kept = drop_noise(map(Numbered.of, stream.lines))
    texts = [text for text in kept if isinstance(text, Numbered)]
    while texts and not texts[-1].strip():
        texts.pop()
    tracebacks = sorted((*find_tracebacks(texts), *find_boxed(texts)), key=lambda each: each.begin)
    inside = {at for each in tracebacks for at in range(each.begin, each.end)}
    after = _count_ordinary(texts, inside)
    seen = [*_read_tracebacks(stream, texts, tracebacks, after)]
    seen += _read_lines(stream, texts, inside, after)
    return sorted(seen, key=lambda each: each.order)


def _count_ordinary(texts: Sequence[Numbered], inside: set[int]) -> list[int]:
    """For each line, how many follow that a working program wrote."""
    after, count = [0] * (len(texts) + 1), 0
    for at in range(len(texts) - 1, -1, -1):
        after[at] = count
        count += at not in inside and not _TIMED.match(texts[at])
    return after


def _read_tracebacks(
    stream: ProcessLog,
    texts: Sequence[Numbered],
    tracebacks: Sequence[Traceback],
    after: Sequence[int],
) -> Iterator[Clue]:
    for at, this in enumerate(tracebacks):
        if this.ignored or _LAUNCHER_END.match(this.text):
            continue
        counts = _is_relayed(texts, this) or _GROUP.match(this.text)
        if counts and any(each.message for each in tracebacks[at + 1 :]):
            continue
        if _is_told_by_next(tracebacks, at) or _is_repeated(tracebacks, at):
            continue
        before = tracebacks[at - 1] if this.chained else None
        rule = _classify(tracebacks, at)
        shown = this.choose_lines()
        if before is not None:
            link = [line for line in texts[before.end : this.begin] if line.strip()]
            shown = (*before.message[:1], *link, *shown)
        # only a message that is needed to know the cause is sure to end with its last line
        needed = rule is not UNCAUGHT and classify_message(this.message[:1]) is None
        unsure = 0 if needed else len(this.message) - 1
        last = texts[min(this.end, len(texts)) - 1]
        where = texts[this.end - len(this.message)].line if this.message else last.line
        origin = merge(_read_spawned(texts, this, stream.origin), read_inside(this.text))
        yield Clue(
            rule, cut_line(this.text), limit(shown), stream.path, where.number, where.order, origin,
            after[this.end - 1], stream.known, raised=True, unsure=unsure, time=where.time,
        )  # fmt: skip


def _is_told_by_next(tracebacks: Sequence[Traceback], at: int) -> bool:
    """Whether no rule fits an exception, and one fits the exception that was raised from it."""
    following = tracebacks[at + 1] if at + 1 < len(tracebacks) else None
    if following is None or not following.chained or _LAUNCHER_END.match(following.text):
        return False
    return _classify(tracebacks, at) is UNCAUGHT and _classify(tracebacks, at + 1) is not UNCAUGHT


def _is_repeated(tracebacks: Sequence[Traceback], at: int) -> bool:
    """Whether an exception is that of another process, whose traceback stands above it."""
    this = tracebacks[at]
    return this.chained and at > 0 and bool(this.text) and tracebacks[at - 1].text == this.text


def _is_relayed(texts: Sequence[Numbered], this: Traceback) -> bool:
    """Whether an exception only repeats that of a process, whose traceback follows."""
    after = texts[this.end - len(this.message) : this.end + 3]
    return any(map(_RELAYED.match, after))


def _read_spawned(texts: Sequence[Numbered], this: Traceback, stream: Origin) -> Origin:
    """Whose an exception is: of one that torch.multiprocessing relays, the process's."""
    above = texts[max(0, this.begin - 2) : this.begin]
    spawned = next(filter(None, map(_RELAYED.match, above)), None)
    return merge(stream, Origin(int(spawned[1]))) if spawned else stream


def _classify(tracebacks: Sequence[Traceback], at: int) -> Rule:
    """What an exception shows: by its message, where that says little by its place, else by what
    it was raised from."""
    stated = classify_message(tracebacks[at].message)
    placed = classify_frames(tracebacks[at])
    if placed is not None and (stated is None or outranks(placed.cause, stated.cause)):
        return placed
    return stated or _classify_chain(tracebacks, at) or UNCAUGHT


def _classify_chain(tracebacks: Sequence[Traceback], at: int) -> Rule | None:
    """What an exception that says nothing itself was raised from, the nearest first."""
    best: Rule | None = None
    while tracebacks[at].chained and at:
        at -= 1
        rule = classify_message(tracebacks[at].message)
        if rule is not None and rule.level is Level.ROOT:
            deeper = best is not None and outranks(rule.cause, best.cause)
            best = rule if best is None or deeper else best
    return best


def classify_message(message: Sequence[str]) -> Rule | None:
    """The strongest rule that fits a line of an exception's message."""
    if (stated := _find_last_error(message)) is not None:
        return stated
    rules = [rule for rule in map(match_line, message) if rule is not None]
    if not rules and len(message) > 1:
        # a message that was wrapped
        return match_line(" ".join(message))
    return min(rules, key=lambda rule: rule.level, default=None)


def _read_lines(
    stream: ProcessLog, texts: Sequence[Numbered], inside: set[int], after: Sequence[int]
) -> Iterator[Clue]:
    for at, text in enumerate(texts):
        if at in inside or (_HARMLESS.search(text) and not _LAUNCHERS.search(text)):
            continue
        bare = BARE.pattern.match(text) and not _LAUNCHER_END.match(text)
        rule = match_line(text) or (BARE if bare else None)
        if rule is None or _is_explained(texts, at):
            continue
        own = _OWN.match(text)
        fatal = text.startswith(_FATAL)
        begin, end = (at, at + 8) if fatal else (max(0, at - 3), at + 4)
        around = [line for line in texts[begin:end] if line.strip()]
        shown = [line for line in around if not line.startswith(_MODULES)]
        origin = merge(stream.origin, read_inside(text))
        yield Clue(
            rule, cut_line(own["text"] if own else text.strip()), limit(shown), stream.path,
            text.line.number, text.line.order, origin, after[at], stream.known, time=text.line.time,
        )  # fmt: skip


def _is_explained(texts: Sequence[Numbered], at: int) -> bool:
    """Whether C++ reports an exception in this line, and what it was in the next; or NCCL."""
    after = texts[at + 1] if at + 1 < len(texts) else ""
    if texts[at].startswith(_TERMINATE):
        return bool(_WHAT.match(after) and match_line(after))
    return _NCCL in texts[at].lower() and _find_last_error(texts[at : at + 4]) is not None


def _find_last_error(message: Sequence[str]) -> Rule | None:
    """What NCCL says of an error, below its name."""
    for at, line in enumerate(message[:-1]):
        if line.strip() == _LAST_ERROR:
            return match_line(message[at + 1])
    return None


def limit(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines, at most ``MOST_LINES``, and of long ones what matters."""
    return tuple(cut_line(str(line.rstrip())) for line in lines[-MOST_LINES:])


def choose_last(seen: Sequence[Clue], signal: int = 0) -> Clue | None:
    """What ended the process: the strongest of what it did not survive, and of that the last.

    A traceback goes before other lines, except where a signal ended the process. The abort that
    follows from a lost peer is the peer's.
    """
    hung = any(each.level >= Level.HANG for each in seen)

    def weigh(each: Clue) -> tuple[int, bool, int, int]:
        later = each.raised if signal else not each.raised
        return _weigh(each, hung=hung), later, each.below, -each.order

    ended = [each for each in seen if each.level < Level.END]
    ended = [each for each in ended if each.raised or not each.survived]
    last = min(ended, key=weigh, default=None)
    if last is None:
        return None
    # what it follows from, where the process reports that as well
    causes = [each for each in ended if outranks(each.rule.cause, last.rule.cause)]
    return min(causes, key=weigh, default=last)


def _weigh(seen: Clue, *, hung: bool) -> int:
    abort = seen.rule.cause == "abort" and hung
    return int(Level.VICTIM) + 1 if abort else int(seen.level)
