"""Lengths of time and amounts of memory, in the forms people write and the forms Slurm reads."""

from __future__ import annotations

import re

from jobgen.named_tuple import NamedTuple

_UNITS = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}):(\d\d):(\d\d)", re.ASCII)
_RELEASE = r"v?(\d{1,6}(?:\.\d{1,6}){1,3})(?:[-+_][\w.+-]{0,40}|(?:amzn|post|rc)[\w.]{0,20})?"
_SIZE = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([A-Za-z]*)", re.ASCII)
# Only what is no time is looked at with these, so they are compiled then.
_SPELLED = r"(?i)(\d{1,6})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\b"
_FRACTION = r"(?i)(\d{1,6})\.(\d{1,3})\s*([dhm])[a-z]*"
_MINUTES = {"d": 1440, "h": 60, "m": 1}

LONGEST = 366 * 86400
"""The longest time that is believed: a year. More is a slip of the finger."""

FORMS = "4h, 90m, 1d12h, 04:00:00 or 1-12:00:00"
"""The forms of a time, for messages."""

SIZES = "64G, 500MiB or 1T"
"""The forms of a size, for messages."""

# All powers of 1024, as Slurm reads --mem=224GB, and as vendors count memory.
_FACTORS = {
    letter + tail: 1024**power
    for power, letter in enumerate("KMGT", start=1)
    for tail in ("", "B", "IB")
}


class UnitError(ValueError):
    """A text that is no time, or no size: the code, what is wrong, and what to write."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class Walltime(NamedTuple):
    """A length of time, in whole seconds."""

    seconds: int

    @classmethod
    def parse(cls, text: str) -> Walltime:
        """``4h 90m 1d12h 04:00:00 1-12:00:00``; anything else is a UnitError.

        >>> Walltime.parse("1d12h").seconds == Walltime.parse("1-12:00:00").seconds == 129600
        True
        """
        return cls._parse(text, by_slurm=True)

    @classmethod
    def parse_duration(cls, text: str) -> Walltime:
        """As ``parse``, for what Slurm does not read: its minutes are no help in a hint."""
        return cls._parse(text, by_slurm=False)

    @classmethod
    def _parse(cls, text: str, *, by_slurm: bool) -> Walltime:
        seconds = _by_units(text)
        if seconds is None:
            seconds = _by_clock(text)
        if seconds is None:
            raise _no_time(text, by_slurm=by_slurm)
        if not 0 < seconds <= LONGEST:
            limit = "greater than 0" if not seconds else "at most 366 days"
            raise UnitError("J133", f"'{text}' is out of range", f"a time must be {limit}")
        return cls(seconds)

    def format_slurm(self) -> str:
        """The form Slurm reads without doubt.

        >>> Walltime(14400).format_slurm(), Walltime(129600).format_slurm()
        ('04:00:00', '1-12:00:00')
        """
        days, rest = divmod(self.seconds, 86400)
        clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
        return f"{days}-{clock}" if days else clock

    def human(self) -> str:
        """The form for people.

        >>> Walltime(14400).human(), Walltime(129600).human(), Walltime(90).human()
        ('4h 0m', '1d 12h 0m', '1m 30s')
        """
        days, hours = self.seconds // 86400, self.seconds // 3600 % 24
        minutes, seconds = self.seconds // 60 % 60, self.seconds % 60
        words = [f"{days}d"] if days else []
        words += [f"{hours}h"] if days or hours else []
        words += [f"{minutes}m"] if words or minutes else []
        words += [f"{seconds}s"] if seconds or not words else []
        return " ".join(words)

    def format_short(self) -> str:
        """The shortest form that ``parse`` reads: ``4h``, ``1d12h``.

        >>> Walltime(5400).format_short(), Walltime(172800).format_short()
        ('1h30m', '2d')
        """
        return "".join(w for w in self.human().split() if not re.fullmatch(r"0[hms]", w))

    def __str__(self) -> str:
        return self.format_short()


class Memory(NamedTuple):
    """Memory of a node: an amount in bytes, or everything that it has."""

    bytes: int | None = None
    """None means all that the node has."""

    @classmethod
    def parse(cls, text: str) -> Memory:
        """``64G``, ``500MiB``; ``0`` and ``all`` are all of the node.

        >>> Memory.parse("64G").format_slurm(), Memory.parse("0").format_slurm()
        ('64G', '0')
        """
        if text in {"0", "all"}:
            return cls(None)
        return cls(parse_size(text, bare="Slurm would read MiB"))

    @property
    def all(self) -> bool:
        """Whether the whole memory of the node is meant."""
        return self.bytes is None

    def format_slurm(self) -> str:
        """The value of ``--mem``, in whole units of Slurm's."""
        if self.bytes is None:
            return "0"
        for letter, power in (("T", 4), ("G", 3)):
            if self.bytes % 1024**power == 0:
                return f"{self.bytes // 1024**power}{letter}"
        return f"{-(-self.bytes // 1024**2)}M"

    def human(self) -> str:
        """The form for people."""
        return "all of the node" if self.bytes is None else format_size(self.bytes)

    def __str__(self) -> str:
        return self.format_slurm()


class Release(NamedTuple):
    """A release of a program: its numbers, which compare as releases do.

    Zeros behind the second number say nothing, so 2.21.0 is 2.21.

    >>> Release.parse("2.9.9") < Release.parse("v2.21.5-1") < Release.parse("2.22")
    True
    """

    numbers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Release:
        """``2.21.5``, as its maker writes it: ``v2.21.5-1``, ``1.22.0amzn1.0``, ``2.4.0+cu121``."""
        match = re.fullmatch(_RELEASE, text, re.ASCII)
        if not match:
            hint = f"write {_spelled_out(text)}" if _spelled_out(text) else "for example 2.21.5"
            raise UnitError("J183", f"'{clip(text)}' is not a release", hint)
        numbers = [int(number) for number in match.group(1).split(".")]
        while len(numbers) > 2 and not numbers[-1]:
            numbers.pop()
        return cls(tuple(numbers))

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers))


def parse_size(text: str, *, bare: str = "") -> int:
    """Bytes: ``500MiB``, ``64G``, ``1.5T``; K, KB and KiB are 1024 bytes.

    >>> parse_size("1K"), parse_size("1KB"), parse_size("1.5KiB")
    (1024, 1024, 1536)
    """
    match = _SIZE.fullmatch(text)
    whole, fraction, unit = match.groups() if match else ("", "", "")
    if match and not unit:
        hint = f"write {int(whole)}G or {int(whole)}M" if not fraction else f"expected {SIZES}"
        raise UnitError("J134", f"'{text}' has no unit" + (f": {bare}" if bare else ""), hint)
    factor = _FACTORS.get(unit.upper())
    if not match or factor is None:
        raise UnitError("J134", f"'{clip(text)}' is not a size", f"expected {SIZES}")
    total: int = int(whole + (fraction or "")) * factor // 10 ** len(fraction or "")
    if not 0 < total <= 1024**5:
        raise UnitError(
            "J134", f"'{clip(text)}' is out of range", "a size must be above 0 and at most 1024T"
        )
    return total


def scale_size(size: float) -> tuple[float, str]:
    """Bytes in the largest unit that leaves at least 1, from B to PiB, and that unit.

    >>> scale_size(512), scale_size(1536), scale_size(3 * 1024**3)
    ((512, 'B'), (1.5, 'KiB'), (3.0, 'GiB'))
    """
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 if unit == "B" else size < 1023.95:  # 1024.0 with one decimal
            break
        size, unit = size / 1024, larger
    return size, unit


def format_size(size: float) -> str:
    """``512 B``, ``2.1 MiB``, ``80 GiB``.

    >>> format_size(512), format_size(2202009), format_size(80 * 1024**3)
    ('512 B', '2.1 MiB', '80 GiB')
    """
    amount, unit = scale_size(size)
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"


def clip(text: str, length: int = 40) -> str:
    """The text as it may be shown in a message: short, and no control characters.

    >>> clip("a" * 50)[-3:], clip("a\\x1b[2J")
    ('aa…', 'a\\\\x1b[2J')
    """
    safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: length + 1])
    return safe if len(safe) <= length else safe[: length - 1] + "…"


def _spelled_out(text: str) -> str:
    """The release that NCCL's own number (22105), or a major number alone, stands for."""
    if re.fullmatch(r"\d{5}", text, re.ASCII):
        return f"{int(text[0])}.{int(text[1:3])}.{int(text[3:])}"
    return f"{text}.0, or the full release" if re.fullmatch(r"\d{1,3}", text, re.ASCII) else ""


def _by_units(text: str) -> int | None:
    match = _UNITS.fullmatch(text)
    if not match or not text:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _by_clock(text: str) -> int | None:
    match = _CLOCK.fullmatch(text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if minutes > 59 or seconds > 59 or (match.group(1) and hours > 23):
        limits = "minutes and seconds must be at most 59" + (
            "" if hours <= 23 else ", hours after days at most 23"
        )
        raise UnitError("J132", f"'{text}' is not a time: {limits}", f"expected {FORMS}")
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _no_time(text: str, *, by_slurm: bool) -> UnitError:
    """Why this is no time, and the nearest thing that is."""
    if re.fullmatch(r"0+", text, re.ASCII):
        return UnitError("J131", f"'{text}' has no unit", "a time is more than 0: 1h, 30m")
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        remark = f"Slurm would read {text} minutes. Write" if by_slurm else "write"
        hint = f"{remark} {text}h or {text}m"
        return UnitError("J131", f"'{text}' has no unit", hint)
    if re.fullmatch(r"\d{1,9}:\d{1,2}", text, re.ASCII):
        first, second = (int(part) for part in text.split(":"))
        hours = f"{first}h" + (f"{second}m" if second else "")
        minutes = f"{first}m" + (f"{second}s" if second else "")
        plural = "s" if first != 1 else ""
        remark = f"Slurm would read {first} minute{plural}. Write" if by_slurm else "write"
        hint = f"{remark} {hours} or {minutes}"
        return UnitError("J131", f"'{text}' is ambiguous", hint)
    near = _nearest(text)
    hint = f"did you mean '{near}'? Otherwise write {FORMS}" if near else f"expected {FORMS}"
    return UnitError("J132", f"'{clip(text)}' is not a time", hint)


def _nearest(text: str) -> str:
    """The time that words such as ``2 hours`` or ``1.5h`` mean; empty where there is none."""
    text = text.strip()
    if len(text) > 40:
        return ""
    if match := re.fullmatch(_FRACTION, text):
        unit = _MINUTES[match.group(3).lower()]
        minutes = float(f"{match.group(1)}.{match.group(2)}") * unit
        return Walltime(round(minutes) * 60).format_short() if minutes >= 1 else ""
    if re.sub(_SPELLED, "", text).replace("and", "").strip(" ,"):
        return ""
    total = 0
    for amount, unit in re.findall(_SPELLED, text):
        scale = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit[0].lower()]
        total += int(amount) * scale
    return Walltime(total).format_short() if 0 < total <= LONGEST else ""
