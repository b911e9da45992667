"""What the words of a command say about the commands behind it: a test, a rank, a loop's rounds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.shell.shellwords import Word

ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
"""The beginning of a word that sets a variable."""
_RANKS = re.compile(
    r"(?<![A-Za-z0-9_])(RANK|(LOCAL|GROUP|NODE|ROLE)_RANK|SLURM_(PROCID|LOCALID|NODEID)|PMIX?_RANK"
    r"|JOBGEN_(NODE_)?RANK|OMPI_COMM_WORLD(_LOCAL|_NODE)?_RANK|SLURMD_NODENAME|HOSTNAME"
    r"|hostname)(?![A-Za-z0-9_])"
)
"""What differs between ranks or nodes."""
_DOERS = re.compile(
    r"\.|:|cd|pushd|popd|source|export|declare|local|readonly|unset|set|shopt|ulimit|umask|trap|eval"
    r"|module|ml|spack|conda|mamba|pip3?|uv|poetry|echo|printf|date|sleep|wait|env|exec|time|nohup"
    r"|rm|cp|mv|ln|tar|unzip|rsync|git|curl|wget|tee|cat|touch|chmod|nvidia-smi|nproc|hostname|mkdir"
    r"|bash|sh|numactl|taskset|timeout|python[0-9.]*|.*\.py|torchrun|srun|deepspeed|accelerate"
)
"""Commands that are expected to succeed; any other before && may be a test."""


def starts_assignment(text: str) -> bool:
    """Whether this word, before a command, sets a variable."""
    return bool(ASSIGNED.match(text))


def program_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words without the assignments before them."""
    for at, word in enumerate(words):
        if word.quoted or not starts_assignment(word.text):
            return words[at:]
    return ()


def names_rank(words: Sequence[Word]) -> bool:
    """Whether a word names what differs between ranks or nodes."""
    return any(_RANKS.search(word.raw) for word in words)


def runs_several_times(words: Sequence[Word]) -> bool:
    """Whether ``for`` with these words has more than one round, or may have."""
    if any(word.text == "in" for word in words[1:2]):
        items = words[2:]
        return len(items) > 1 or any(word.made or set("{*?") & set(word.text) for word in items)
    return bool(words) and words[0].text.startswith("((")


def is_expected_to_succeed(words: tuple[Word, ...]) -> bool:
    """Whether this command is no test, so that what stands behind its && runs."""
    rest = program_words(words)
    if not rest:
        return True
    if rest[0].text == "mkdir" and not any(w.text.startswith("-") for w in rest):
        return False  # of several ranks one makes the folder
    return bool(_DOERS.fullmatch(rest[0].text.rpartition("/")[2]))
