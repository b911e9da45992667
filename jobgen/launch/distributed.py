"""Which programs of ``run:`` form a process group: those that every rank starts, but for helpers.

Only the command is known, not what the program does. So a program is taken as distributed unless
the command says otherwise: its name, its variables, or a condition before it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from jobgen.model.launchers import get_facts
from jobgen.shell.conditions import names_rank

if TYPE_CHECKING:
    from jobgen.shell.started_program import StartedProgram

_HELPERS = re.compile(
    "build|check|clean(up)?|collect|consolidate|conver(t|sion)|copy|count|create|download|env|export"
    "|extract|fetch|fp32|hash|info|install|list|log|make|manifest|merge|monitor|notify|pack|plot"
    "|prep|prepare|preproc|preprocess(ing)?|print|push|report|requirements|sanity|setup|shard|show"
    "|split|stage|stats|sync|tokeni[sz]e|unpack|upload|verify|version|warmup"
)
"""First or last words of the names of programs that prepare and tidy up: ``download_data.py``."""
_TOOLS = re.compile(
    "IPython|bitsandbytes|build|datasets|gpustat|huggingface_hub|jupyter|nltk|nvitop|pip|pytest"
    "|setuptools|spacy|tensorboard|virtualenv|wandb|xformers"
)
"""Packages whose modules, run with -m, are tools."""
_TOOL_MODULES = frozenset({"torch.utils.collect_env", "deepspeed.env_report"})
_ENTRIES = frozenset({"main", "__main__", "cli", "run"})


def forms_group(program: StartedProgram, launcher: str) -> bool:
    """Whether the ranks of a job that run this program are expected to wait for each other."""
    command = program.command
    certain = command.always and not (command.some_ranks or command.background or command.piped)
    if program.launcher or not certain or program.own_rendezvous or _is_helper(program):
        return False
    # without an agent a command may be a worker that takes its share of the data by its rank
    return get_facts(launcher).task != "rank" or not names_rank(program.words)


def _is_helper(program: StartedProgram) -> bool:
    if any(word.text in {"--help", "--version"} for word in program.words):
        return True
    top = program.module.partition(".")[0]
    if _TOOLS.fullmatch(top) or top in sys.stdlib_module_names or program.module in _TOOL_MODULES:
        return True
    parts = program.module.split(".") if program.module else [program.script.rpartition("/")[2]]
    while len(parts) > 1 and parts[-1] in _ENTRIES:
        parts.pop()
    words = re.findall(r"[a-z]+\d*", parts[-1].removesuffix(".py").lower())
    return any(_HELPERS.fullmatch(word) for word in (*words[:1], *words[-1:]))
