"""Options that jobgen writes itself, in ``args``, ``srun_args`` and ``command`` of ``launcher``.

A launcher takes the last of two equal options, so one of these would quietly replace what the rest
of the script relies on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.data import launcher_options
from jobgen.errors import Diagnostic
from jobgen.model.launchers import LAUNCHERS, name_agent
from jobgen.resolve.inputs import Inputs
from jobgen.shell.foreign_launchers import LAUNCHERS as LAUNCHERS_OF_COMMANDS
from jobgen.shell.foreign_launchers import MODULES


def check_options(look: Inputs, launcher: str) -> Iterator[Diagnostic]:
    """An error for each word that repeats an option of jobgen's."""
    asked, settings = look.job.launcher, LAUNCHERS[launcher].settings
    if "command" in settings:
        yield from _check_words(look, name_agent(launcher), "command", asked.command)
    if "args" in settings:
        yield from _check_words(look, name_agent(launcher), "args", asked.args)
    if "srun_args" in settings:
        yield from _check_words(look, "srun", "srun_args", asked.srun_args)


def _check_words(
    look: Inputs, program: str, setting: str, words: tuple[str, ...]
) -> Iterator[Diagnostic]:
    keys = launcher_options().get(program, {}) if words else {}
    first = _find_arguments(program, words) if setting == "command" else 0
    for index, word in enumerate(words[first:], first):
        option = _find_option(word, frozenset(keys))
        if option is None:
            continue
        dashes = "-" if len(option) == 1 else "--"
        message = f"launcher.{setting}: {dashes}{option} of {program} is set by jobgen"
        key = keys[option]
        hint = f"remove it; set {key} instead" if key else "remove it"
        path = ("launcher", setting, index)
        yield look.diagnose_job("J246", message, *path, hint=hint)


def _find_arguments(program: str, words: tuple[str, ...]) -> int:
    """Index of the first word behind the launcher's name; their number if it has another name.

    >>> _find_arguments("torchrun", ("uv", "run", "-m", "torch.distributed.run", "--nnodes=2"))
    4
    """
    known = {**LAUNCHERS_OF_COMMANDS, **MODULES}
    for index, word in enumerate(words):
        found = known.get(word.rpartition("/")[2])
        if found is not None and found.kind == program:
            return index + 1
    return len(words)


def _find_option(word: str, managed: frozenset[str]) -> str | None:
    r"""Which of these options a word is, however it is written.

    >>> _find_option("--nproc_per_node=8", frozenset({"nproc-per-node"}))
    'nproc-per-node'
    >>> _find_option("-N2", frozenset({"N"}))
    'N'
    """
    written = re.match(r"(--?)([A-Za-z][\w-]*)", word)
    if written is None:
        return None
    name = written[2].replace("_", "-")
    if name in managed and (len(name) > 1 or written[1] == "-"):
        return name
    short = re.fullmatch(r"-([A-Za-z])(\d.*|)", word)
    return short[1] if short and short[1] in managed else None
