"""What looks like a secret: names of files, and tokens of services in a text.

Tokens have the prefix, the characters and the length of the rule in ``source``, most of them rules
of gitleaks, some of trufflehog. Names of files are jobgen's own list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

from jobgen.data import rows
from jobgen.named_tuple import NamedTuple

MASK = "***"

_HARMLESS = (
    "*.pub",
    ".env.example",
    ".env.sample",
    ".env.template",
    "example.env",
    "sample.env",
    "template.env",
)
"""Names that are no secret although a pattern matches them."""
_PROGRAM = (".c", ".cc", ".cpp", ".cu", ".go", ".h", ".ipynb", ".md", ".py", ".pyi", ".rs", ".rst")
"""Endings of programs and texts about secrets, such as ``hf_token_utils.py``: their lines are
searched for tokens as those of any file."""
_BACKUP = re.compile(
    r"(?:~|\.(?:bak|backup|old|orig|save|sav|swp|swo|tmp|copy|[0-9]{1,3}))+$|^#|#$"
)
"""What editors and people add to the name of a file that they keep."""
_DISTINCT = 6
"""A token of a service has more different characters than ``hf_xxxxxxxx`` of an example."""
_OPTION = (
    r"hf_(?:cache|checkpoints?|config|datasets?|endpoint|format|generation|inference|pipeline"
    r"|tokenizers?|trainer|transfer|transformers?|weights)(?![A-Za-z0-9])"
)
"""Options of programs, such as ``--hf_tokenizer``, that begin like a token of Hugging Face."""
_EXAMPLE = b"EXAMPLE"
_KEY_HEADER = r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY"
_KEY = re.compile(
    _KEY_HEADER.encode() + rb"(?: BLOCK)?-----(?:(?:\r?\n|\\n|\\r\\n)[ \t]*){1,3}[A-Za-z0-9+/=]"
)
_NAMED = (
    (
        "Weights & Biases key",
        b"wandb",
        r"(?i:wandb_api_key|wandb[ .]login)[^\n]{0,20}?\b[0-9a-f]{40}\b",
    ),
    (
        "AWS secret key",
        b"aws_secret_access_key",
        r"(?i:aws_secret_access_key)[\s\"':=]{1,5}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
    ),
)
"""Keys without a prefix, told by what stands before them: what it is, a word in lower case that it
has, the pattern (trufflehog 6271de3 weightsandbiases; gitleaks b58d3f1 generic-api-key)."""
_LOGIN_IN_URL = r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"


class FoundToken(NamedTuple):
    """A token in a text: where it starts, in bytes or characters, and what it is."""

    start: int
    what: str


def find_tokens(content: bytes) -> Iterator[FoundToken]:
    """Private keys and tokens of services in a file, in order; examples are passed over."""
    found = [FoundToken(match.start(), "private key") for match in _KEY.finditer(content)]
    lowered = content.lower()
    for what, word, named in _NAMED:
        # a pattern for both cases takes seven times as long to pass over a text
        if word in lowered:
            found += [FoundToken(m.start(), what) for m in re.finditer(named.encode(), content)]
    pattern, kinds = _token_pattern()
    for match in pattern.finditer(content):
        text = match[0]
        before = content[match.start() - 1 : match.start()]
        kind = next(kind for kind in kinds if text.startswith(kind.start))
        body = text[len(kind.start) :]
        real = len(body) >= kind.least and len(set(body)) >= _DISTINCT
        if real and not (before.isalnum() or before == b"_") and not text.endswith(_EXAMPLE):
            found.append(FoundToken(match.start(), kind.what))
    yield from sorted(found)


def mask_tokens(text: str) -> str:
    """The text with stars for each private key's header, token and login in a URL."""
    return _anything().sub(MASK, text)


def has_token(text: str) -> bool:
    """Whether a short text, such as a value of a job file, holds what looks like a token.

    Shorter tokens count than in ``find_tokens``, and examples do.
    """
    # most values begin no token, and to compile the pattern takes longer than to look for that
    return any(start in text for start in _list_starts()) and bool(_short_pattern().search(text))


def name_kind(path: str, is_directory: bool) -> str:
    """What a file or directory of this path holds, by its name; empty: nothing secret."""
    path = path.lower()
    if is_directory:
        return _names().kind(path, is_directory=True)
    folder, slash, name = path.rpartition("/")
    original = _name_original(name)
    names = (path,) if original == name else (path, f"{folder}{slash}{original}")
    if original.endswith(_PROGRAM):
        return ""
    kind = next(filter(None, (_names().kind(name, is_directory=False) for name in names)), "")
    return "" if kind and any(fnmatchcase(original, p) for p in _HARMLESS) else kind


def _name_original(name: str) -> str:
    """The name of the file that this one is a backup of; its own if it is none."""
    original = _BACKUP.sub("", name)
    # vim keeps .NAME.swp beside NAME, and ..env.swp beside .env
    return original.removeprefix(".") if name.endswith((".swp", ".swo")) else original


class _Kind(NamedTuple):
    what: str
    start: bytes
    body: str
    least: int
    in_yaml: int


@cache
def _kinds() -> tuple[_Kind, ...]:
    """The rows of secret_tokens.csv, the longest start first."""
    kinds = (
        _Kind(
            row["what"], row["start"].encode(), row["body"], int(row["least"]), int(row["in_yaml"])
        )
        for row in rows("secret_tokens.csv")
    )
    return tuple(sorted(kinds, key=lambda kind: -len(kind.start)))


@cache
def _list_starts() -> tuple[str, ...]:
    """How private keys and tokens begin."""
    return ("-----BEGIN", *(kind.start.decode() for kind in _kinds()))


@cache
def _token_pattern() -> tuple[re.Pattern[bytes], tuple[_Kind, ...]]:
    # one branch for each first letter: bytes of other letters are passed over without a try
    by_letter: dict[bytes, list[str]] = {}
    for kind in _kinds():
        rest = f"{re.escape(kind.start[1:].decode())}[{kind.body}]{{{kind.least},}}"
        by_letter.setdefault(kind.start[:1], []).append(rest)
    branches = (f"{re.escape(a.decode())}(?:{'|'.join(rests)})" for a, rests in by_letter.items())
    return re.compile("|".join(branches).encode()), _kinds()


@cache
def _short_pattern() -> re.Pattern[str]:
    tokens = (
        f"{re.escape(kind.start.decode())}[{kind.body}]{{{kind.in_yaml},}}" for kind in _kinds()
    )
    return re.compile(rf"(?<![A-Za-z0-9_])(?!{_OPTION})(?:{'|'.join(tokens)}|{_KEY_HEADER})")


@cache
def _anything() -> re.Pattern[str]:
    named = "|".join(pattern for _, _, pattern in _NAMED)
    return re.compile(f"{_short_pattern().pattern}|{named}|{_LOGIN_IN_URL}")


class _Names(NamedTuple):
    """The rows of secret_files.csv by how they are compared; a pattern with ``/`` ends a path."""

    exact: dict[str, str]
    endings: dict[str, str]
    others: tuple[tuple[str, str], ...]
    parts: re.Pattern[str]
    """It finds something in every name that one of ``others`` matches."""
    all_endings: tuple[str, ...]

    def kind(self, path: str, *, is_directory: bool) -> str:
        words = path.split("/")
        mark = "/" if is_directory else ""
        for count in (1, 2):
            if kind := self.exact.get("/".join(words[-count:]) + mark):
                return kind
        if is_directory:
            return ""
        name = words[-1]
        if name.endswith(self.all_endings):
            return next(kind for ending, kind in self.endings.items() if name.endswith(ending))
        if not self.parts.search(name):
            return ""
        return next((kind for pattern, kind in self.others if fnmatchcase(name, pattern)), "")


@cache
def _names() -> _Names:
    exact: dict[str, str] = {}
    endings: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for row in rows("secret_files.csv"):
        pattern, kind = row["pattern"], row["what"]
        if not re.search(r"[*?[]", pattern):
            exact[pattern.lower()] = kind
        elif re.search(r"[*?[]", pattern[1:]):
            others.append((pattern, kind))
        else:
            endings[pattern[1:].lower()] = kind
    # the longest literal part of each: to compile the patterns takes longer than most commands
    parts = {max(re.split(r"\[[^]]*\]|[*?]", p), key=len) for p, _ in others}
    some = re.compile("|".join(map(re.escape, sorted(parts))))
    return _Names(exact, endings, tuple(others), some, tuple(endings))
