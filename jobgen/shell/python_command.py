"""The words of a Python command → the file or module that it runs, and the options behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.shell.lexer import ShellWord

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*", re.ASCII)
_VARIABLE = re.compile(r"\$\{?\w*(?:PYTHON|python)\w*\}?", re.ASCII)
_VALUED = r"-[^-cmWX]*[WX]|--check-hash-based-pycs"
_LAST = re.compile(r"-[^-cmWX]*([cm])(.*)", re.DOTALL)
"""The option behind which Python reads no further ones."""


class PythonCommand(NamedTuple):
    """What an interpreter is asked to run; nothing for code, standard input and --version."""

    script: str = ""
    module: str = ""
    at: int = 0
    """Where the options end: the index of the script's or module's word, or of -c."""


def is_python(text: str) -> bool:
    """Whether a word of this text is the Python interpreter: ``python3.11``, ``$PYTHON``."""
    name = text.rpartition("/")[2]
    return bool(_PYTHON.fullmatch(name) or _VARIABLE.fullmatch(text))


def read_python_command(words: Sequence[ShellWord]) -> PythonCommand:
    """The script or module behind an interpreter and its options.

    >>> from jobgen.shell.lexer import Lexer
    >>> read_python_command([*Lexer("python -uW ignore -X dev train.py -m x").read_tokens()]).script
    'train.py'
    >>> read_python_command([*Lexer("python3 -um pkg.train").read_tokens()]).module
    'pkg.train'
    """
    at = 1
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-":
        text = words[at].text
        last = _LAST.match(text)
        if last is None:
            at += 2 if re.fullmatch(_VALUED, text) else 1
        elif last[1] == "c":
            return PythonCommand(at=at)
        else:
            at += not last[2]
            module = words[at].text if at < len(words) else ""
            return PythonCommand(module=last[2] or module, at=at)
    script = words[at].text if at < len(words) else ""
    return PythonCommand("" if script == "-" else script, at=at)


def read_long_options(texts: Sequence[str]) -> Iterator[tuple[str, str | None, int, int]]:
    """Name and value of each ``--name``, and the indices of the words that hold them.

    >>> texts = ["x.py", "--a", "1", "--b=2", "--c", "--d"]
    >>> [(name, value) for name, value, _, _ in read_long_options(texts)]
    [('--a', '1'), ('--b', '2'), ('--c', None), ('--d', None)]
    """
    for at, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if not text.startswith("--"):
            continue
        if equals:
            yield name, value, at, at
        elif at + 1 < len(texts) and not texts[at + 1].startswith("--"):
            yield name, texts[at + 1], at, at + 1
        else:
            yield name, None, at, at
