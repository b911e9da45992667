"""Options for the end of a program's command line, each with the reason that it is there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from jobgen.model.decision import Setting, cite_rule
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Raw, Word
from jobgen.shell.python_command import read_long_options
from jobgen.strategy.spec import Strategy, TrainDiagnostic

CHECKPOINTS = Raw('"$JOBGEN_CHECKPOINT_DIR"')
"""Where the program keeps its checkpoints, as one word of bash."""


class ProgramOption(NamedTuple):
    """One option: its name with its dashes, its value, and why where jobgen chose it."""

    name: str
    value: str | int | float | None = None
    """None: a flag. Raw goes to bash as it is."""
    why: str = ""


def format_options(options: Iterable[ProgramOption], between: str = "") -> tuple[Word, ...]:
    """The options as words; with ``between``, name and value are one word joined by it."""
    found: list[Word] = []
    for name, value, _ in options:
        if value is None:
            found.append(name)
        elif between:
            text = f"{name}{between}{value}"
            found.append(Raw(text) if isinstance(value, Raw) else text)
        else:
            found += (name, value if isinstance(value, Raw) else str(value))
    return tuple(found)


def explain_options(options: Iterable[ProgramOption]) -> Mapping[str, Setting]:
    """The options that jobgen chose: name → value ('' for a flag), with the reason."""
    return {o.name: choose("" if o.value is None else o.value, o.why) for o in options if o.why}


def choose(value: object, why: str) -> Setting:
    """A value that jobgen chose, as it is written in a configuration."""
    if isinstance(value, Raw):
        text = value.strip('"')
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return Setting(text, why, cite_rule("train"))


def has_option(words: Iterable[str], *names: str) -> bool:
    """Whether the program's own words have one of these options, ``--x_y 1`` or ``--x-y=1``."""
    plain = {name.replace("_", "-") for name in names}
    return any(word.split("=", 1)[0].replace("_", "-") in plain for word in words)


def read_values(words: Sequence[str]) -> dict[str, str | None]:
    """The options among a program's own words, with what follows them; None where nothing does."""
    return {name: value for name, value, _, _ in read_long_options(words)}


def check_layers(strategy: Strategy, title: str) -> Iterable[TrainDiagnostic]:
    """Classes to wrap, for a framework that knows its models' layers."""
    if strategy.wrap or strategy.min_params:
        message = f"{title} chooses the layers to shard and recompute itself"
        yield TrainDiagnostic("J236", message, ("wrap",), "remove it")


def require_gpus(gpus: bool, title: str) -> Iterable[TrainDiagnostic]:
    """GPUs, for a framework that computes nowhere else."""
    if not gpus:
        message = f"{title} runs on GPUs only, but these ranks have no GPUs"
        yield TrainDiagnostic(
            "J236", message, ("framework",), "set framework: torch, or request GPUs"
        )
