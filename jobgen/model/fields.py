"""The kinds of value that stand in the two files: what each accepts, and what it says if not.

A scalar that came from YAML knows how it was written (``text``), so that ``1e-5`` stays ``1e-5``
where text is wanted. Every refusal carries a code for ``jobgen explain`` and a hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jobgen.model.form import Check, Refusal, check_list, check_table, refuse
from jobgen.model.units import Memory, Release, UnitError, Walltime, clip, parse_size

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_DOLLAR = re.compile(r"\$(?!\$|[A-Za-z_])")
WORD = {"type": ["string", "number"]}
SCALAR = {"type": ["string", "number", "boolean"]}
T = TypeVar("T")


def describe_value(value: object) -> str:
    """What this is, in a word or two, for the end of a sentence.

    >>> describe_value([1]), describe_value("2.5"), describe_value(None)
    ('a list', "the text '2.5'", 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, str):
        return f"the text '{clip(value)}'"
    return clip(str(getattr(value, "text", value)))


def find_nearest(word: str, words: Sequence[str], cutoff: float = 0.6) -> str:
    """The nearest of these words; empty where none is near."""
    import difflib

    lower = {w.lower(): w for w in reversed(words)}
    near = difflib.get_close_matches(word.lower()[:80], list(lower), 1, cutoff)
    return lower[near[0]] if near else ""


def suggest(word: str, words: Sequence[str], what: str = "known") -> str:
    """The hint of an unknown word: the nearest known one, else every known one."""
    near = find_nearest(word, words)
    start = f"did you mean '{near}'? " if near else ""
    if len(words) > 12:
        return start.strip()
    return f"{start}{what}: {', '.join(words)}"


def check_text(value: object) -> str:
    """A scalar as it was written; lists, mappings and nothing are refused."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, (Mapping, list, tuple, set)):
        raise refuse("J120", f"expected text, got {describe_value(value)}")
    return str(getattr(value, "text", value))


def check_line(value: object) -> str:
    """Text of one line: not empty, no control or invisible characters."""
    word = check_text(value)
    bad = find_unprintable(word)
    if bad is not None:
        what = "line breaks" if bad in "\r\n" else f"the character U+{ord(bad):04X}"
        raise refuse("J127", f"{what} not allowed here", "write one line of printable characters")
    if not word.strip():
        raise refuse("J120", "expected text, got nothing")
    if len(word) > 4096:
        raise refuse("J122", f"{len(word)} characters are too many", "use at most 4096")
    return word


def find_unprintable(word: str, allow: str = "") -> str | None:
    """The first control, formatting or line-separating character; None where there is none."""
    if word.isascii() and word.isprintable():
        return None
    from jobgen.data.unseen import is_unseen

    return next((c for c in word if c not in allow and is_unseen(c)), None)


def check_name(value: object) -> str:
    """A name: of a cluster, a label."""
    return _named(check_text(value), _NAME, "'.', '_' and '-'")


def check_job_name(value: object) -> str:
    """A name of a job, in which Slurm allows a colon; folders get a dash for it."""
    return _named(check_text(value), _JOB_NAME, "'.', '_', '-' and ':'")


def _named(word: str, pattern: re.Pattern[str], signs: str) -> str:
    if not pattern.fullmatch(word):
        fixed = re.sub(r"[^A-Za-z0-9._-]+", "-", word[:64]).strip("-._")
        hint = f"use '{fixed}'" if fixed and _NAME.fullmatch(fixed) else "for example llama8b-sft"
        rule = f"letters, digits, {signs}, at most 64, starting with a letter or digit"
        odd = ", without line breaks" if "\n" in word else ""
        raise refuse("J124", f"'{clip(word)}' is not a valid name ({rule}{odd})", hint)
    return word


def check_env_name(value: object) -> str:
    """A name of an environment variable."""
    word = check_text(value)
    if not _ENV_NAME.fullmatch(word):
        fixed = re.sub(r"[^A-Za-z0-9_]+", "_", word[:64]).strip("_")
        hint = f"use '{fixed}'" if _ENV_NAME.fullmatch(fixed) else "for example HF_HOME"
        rule = "letters, digits and '_', not starting with a digit"
        raise refuse("J125", f"'{clip(word)}' is not a valid variable name ({rule})", hint)
    return word


def check_env_value(value: object) -> str:
    """A value of an environment variable: any text but NUL."""
    word = check_text(value)
    if "\0" in word:
        raise refuse("J127", "NUL characters are not allowed in the environment")
    if len(word) > 131_000:
        raise refuse("J122", f"{len(word)} characters are too many", "the limit of Linux is 131000")
    return word


def check_shell_text(word: str) -> str:
    """Text in which ``$NAME`` is expanded on the cluster and ``$$`` is a dollar; nothing else."""
    bare = _DOLLAR.search(word.replace("$$", "  ")) or re.search("`", word)
    if bare:
        start = clip(word[bare.start() :], 20)
        message = f"'{start}' is shell syntax, but no shell reads this value"
        raise refuse("J161", message, "only $NAME is expanded here; $$ is a dollar sign")
    return word


def check_remote_path(value: object) -> str:
    """An absolute path on the cluster; ``$HOME`` and other ``$NAME`` are expanded there."""
    word = check_shell_text(check_line(value))
    if word.startswith("~"):
        rest = word.partition("/")[2]
        raise refuse("J135", f"'{clip(word)}' starts with ~", f"write '$HOME/{clip(rest)}'")
    if not re.match(r"/|\$[A-Za-z_]", word) or ".." in word.split("/"):
        hint = "for example /scratch/$USER/jobgen"
        raise refuse("J135", f"'{clip(word)}' is not an absolute path without '..'", hint)
    return word


def check_relative_path(value: object) -> str:
    """A path inside the working directory."""
    word = check_line(value)
    if word.startswith(("/", "~")) or ".." in word.split("/"):
        raise refuse(
            "J136", f"'{clip(word)}' is outside the workdir", "use a relative path without '..'"
        )
    return word


def check_integer(low: int, high: int, *, more: str = "") -> Check[int]:
    """A check for a whole number between these two."""
    rule = f"an integer of at least {low}" + (f" or {more}" if more else "")

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            quoted = isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII)
            hint = f"write {value} without quotes" if quoted else f"use {rule}"
            raise refuse("J121", f"expected an integer, got {describe_value(value)}", hint)
        if not low <= value <= high:
            side = f"at least {low}" if value < low else f"at most {high}"
            raise refuse("J122", f"{describe_value(value)} is out of range", f"use {side}")
        return int(value)

    return Check(check, {"type": "integer", "minimum": low, "maximum": high})


_POWERS: Mapping[str, int] = {"K": 3, "M": 6, "B": 9, "G": 9, "T": 12}
"""Letters behind numbers, as in ``7B`` parameters → power of ten."""


MOST_NUMBER = 1e15
"""A thousand times the parameters of the largest models of 2026."""


def check_number(value: object) -> float:
    """A number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        message, hint = f"expected a number, got {describe_value(value)}", "write it in digits"
        short = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([kKMBGT])", str(value), re.ASCII)
        quoted = re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", str(value), re.ASCII)
        if isinstance(value, str) and short:
            hint = f"write {short[1]}e{_POWERS[short[2].upper()]}"
        elif isinstance(value, str) and quoted:
            hint = f"write {value} without quotes"
        raise refuse("J121", message, hint)
    if not 0 <= value < MOST_NUMBER:
        side = f"less than {MOST_NUMBER:g}" if value > 0 else "0 or more"
        raise refuse("J122", f"{describe_value(value)} is out of range", f"use {side}")
    return float(value)


def check_boolean(value: object) -> bool:
    """true or false; YAML 1.1's yes, no, on and off are text in YAML 1.2, and named so."""
    flag = getattr(value, "flag", value)
    if isinstance(flag, bool):
        return flag
    words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
    meant = words.get(str(value).lower(), "") if isinstance(value, str) else ""
    hint = f"write {meant}" if meant else "write true or false"
    raise refuse("J123", f"expected true or false, got {describe_value(value)}", hint)


def check_choice(
    what: str,
    words: Sequence[str],
    *,
    aliases: Mapping[str, str] | None = None,
) -> Check[Any]:
    """A check for one of these words, with did-you-mean."""

    def check(value: object) -> str:
        word = check_text(value)
        word = (aliases or {}).get(word, word)
        if word not in words:
            raise refuse("J123", f"unknown {what} '{clip(word)}'", suggest(word, words))
        return word

    return Check(check, {"enum": [*words, *(aliases or {})]})


def hint_at(check: Check[T], hints: Mapping[str, str]) -> Check[T]:
    """The same check, with these hints for what people write instead: the scalar as text, in lower
    case → the hint."""

    def parse(value: object) -> T:
        try:
            return check(value)
        except Refusal as error:
            hint = hints.get(str(getattr(value, "text", value)).lower())
            if hint is None:
                raise
            raise Refusal([fault._replace(hint=hint) for fault in error.faults]) from None

    return Check(parse, check.schema)


def check_pattern(code: str, pattern: str, what: str, example: str) -> Check[str]:
    """A check for one word of this pattern."""

    def check(value: object) -> str:
        word = check_line(value)
        if not re.fullmatch(pattern, word):
            raise refuse(code, f"'{clip(word)}' is not {what}", f"for example {example}")
        return word

    return Check(check, WORD)


def check_lines(value: object) -> tuple[str, ...]:
    """Lines of shell: a block of text, or a list of lines."""
    items = _BLOCKS(value) if isinstance(value, (list, tuple)) else (check_shell_line(value),)
    result = [line_ for item in items for line_ in item.rstrip("\n").split("\n")]
    while result and not result[-1].strip():
        result.pop()
    return tuple(result)


def check_shell_line(value: object) -> str:
    """Text for a shell: line breaks and tabs are right, other control characters are not."""
    if isinstance(value, Mapping):
        message = "expected text, got a mapping"
        raise refuse("J120", message, "quote lines that contain ': '")
    word = check_text(value)
    bad = find_unprintable(word, "\n\t")
    if bad is not None:
        raise refuse("J127", f"the character U+{ord(bad):04X} is not allowed here")
    return word


def check_command(value: object) -> str:
    """The command of a job."""
    if isinstance(value, (list, tuple)):
        raise refuse("J120", "expected text, got a list", "write several lines as a block: run: |")
    word = check_shell_line(value).strip()
    if not word:
        raise refuse("J120", "expected a command, got nothing", "for example run: train.py")
    return word


def split_extra(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """``slurm: {extra: …}`` is two values: the options, and the words for site plug-ins."""
    options = data.get("slurm")
    if not isinstance(options, Mapping) or "extra" not in options:
        return data
    rest = {k: v for k, v in options.items() if k != "extra"}
    return {**data, "slurm": rest, "slurm_extra": options["extra"]}


def check_unit(parse: Callable[[str], T], kind: type[T], examples: Sequence[str]) -> Check[T]:
    """A check for a text with a unit."""

    def check(value: object) -> T:
        if isinstance(value, kind) and not hasattr(value, "text"):
            return value
        try:
            return parse(check_text(value))
        except UnitError as error:
            raise refuse(error.code, error.message, error.hint) from error

    return Check(check, {"type": ["string", "integer"], "examples": list(examples)})


_BLOCKS = check_list(Check(check_shell_line))
NAME = Check(check_name, WORD)
JOB_NAME = Check(check_job_name, WORD)
LINE = Check(check_line, WORD)
TEXT = Check(check_text, SCALAR)
RUN = Check(check_command, {"type": "string"})
LINES = Check(check_lines, {"type": ["string", "array"], "items": {"type": "string"}})
REMOTE = Check(check_remote_path, {"type": "string"})
RELATIVE = Check(check_relative_path, {"type": "string"})
WORDS = check_list(LINE)
YES = Check(check_boolean, {"type": "boolean"})
NUMBER = Check(check_number, {"type": "number", "minimum": 0})
ENV_NAME = Check(check_env_name, {"type": "string"})
ENVIRONMENT = check_table(ENV_NAME, Check(check_env_value, SCALAR))
_TIMES = ["4h", "90m", "1d12h", "04:00:00", "1-12:00:00"]
TIME = check_unit(Walltime.parse, Walltime, _TIMES)
DURATION = check_unit(Walltime.parse_duration, Walltime, _TIMES)
MEMORY = check_unit(Memory.parse, Memory, ["64G", "0"])
RELEASE = Check(
    check_unit(Release.parse, Release, []).parse,
    {"type": ["string", "number"], "examples": ["2.27.7"]},
)
SIZE = check_unit(parse_size, int, ["500MiB", "64G", "1T"])
