"""Commands that start another command: which they are, and where the other begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.shell.conditions import ASSIGNED
from jobgen.shell.foreign_launchers import LAUNCHERS
from jobgen.shell.lexer import ShellWord
from jobgen.shell.python_command import is_python

SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
"""They read a script behind ``-c``."""
PREFIXES = {
    "env": "-[a-zA-Z]*[uCS]|--unset|--chdir|--split-string",
    "exec": "-[cl]*a",
    "sudo": "-[a-zA-Z]*[ugpChrtTRD]",
    "time": "-[a-zA-Z]*[of]",
    **dict.fromkeys(("command", "builtin", "nohup", "setsid"), "(?!)"),
}
"""Commands that end where another begins → their options that take the next word."""
_ASSIGNING = frozenset({"env", "sudo", "time"})
"""Those behind whose options variables may be set."""
DIRECT = frozenset(
    {"coproc", "nice", "ionice", "chrt"}
    | {"numactl", "taskset", "timeout", "stdbuf", "unbuffer", "flock", "strace", "ltrace"}
    | {"gdb", "valgrind", "perf", "catchsegv", "xvfb-run", "tini", "dumb-init", "xargs", "ssh"}
    | {"nsys", "ncu", "rocprof", "rocprofv3", "py-spy", "dotenv", "hwloc-bind", "likwid-pin"}
    | {"kernprof", "viztracer", "scalene", "memray", "pyinstrument", "coverage", "ipython"}
)
"""Commands that start another, which stands behind their options."""
NAMED = frozenset(
    {"uv", "uvx", "conda", "mamba", "micromamba", "poetry", "pdm", "pixi", "pipenv", "hatch"}
    | {"rye", "apptainer", "singularity", "docker", "podman", "enroot", "shifter", "ch-run"}
)
"""The same, with options whose values are names, such as that of an environment."""
ELSEWHERE = NAMED & {
    *("apptainer", "singularity", "docker", "podman", "enroot", "shifter", "ch-run")
} | {"ssh"}
"""Commands whose program sees other files, or another folder."""
SWITCHES = frozenset(
    {"--nv", "--rocm", "--no-sync", "--frozen", "--locked", "--isolated", "--active", "--offline"}
    | {"-q", "-v", "--no-capture-output", "--live-stream", "--rm", "-it", "-i", "-t", "--cleanenv"}
    | {"-e", "--containall", "--contain", "--writable-tmpfs", "--"}
)
"""Options of those that take no value."""

MODULE_RUNNERS = frozenset(
    {"uv", "cProfile", "profile", "pdb", "trace", "coverage", "debugpy", "viztracer", "mpi4py"}
    | {"memory_profiler", "kernprof", "scalene", "pyinstrument", "torch.utils.bottleneck", "memray"}
)
"""Commands and Python's modules that take ``-m module`` or a script to run."""
_HARMLESS = (
    "export declare typeset local readonly unset set shopt trap ulimit umask cd pushd popd source ."
    " : true module ml conda mamba pip pip3 echo printf date hostname sleep wait ls pwd mkdir env"
    " nvidia-smi rocm-smi nproc free df which command type [ [[ test wandb ibstat lscpu exit return"
)
HARMLESS = frozenset(_HARMLESS.split())
"""Commands that make no file which a later one could run."""
_STARTERS = frozenset({*LAUNCHERS, *SHELLS, *PREFIXES, *DIRECT, *NAMED})
_WHICH = re.compile(r"[$`]\(?(?:which|command -v|type -p)\s+([\w./-]+)[)`]")


def name_command(word: ShellWord) -> str:
    """The name of a command: without its folder, and behind ``$(which …)``."""
    match = _WHICH.fullmatch(word.text)
    return (match.group(1) if match else word.text).rpartition("/")[2]


def starts_known(word: ShellWord) -> bool:
    """Whether a command known here begins with this word."""
    text = word.text
    if text.startswith("-") or ASSIGNED.match(text):
        return False
    return name_command(word) in _STARTERS or is_python(text) or text.endswith(".py")


def find_shell(words: Sequence[ShellWord]) -> int:
    """Where ``bash -c`` begins behind another command; 0 where it does not."""
    scripts = (at for at, word in enumerate(words[1:]) if re.fullmatch(r"-\w*c", word.text))
    return next((at for at in scripts if name_command(words[at]) in SHELLS), 0)


def skip_options(words: Sequence[ShellWord], valued: str) -> int:
    """The index of the first word behind a command's options, of which these take the next word."""
    at = 1
    while at < len(words) and words[at].text[:1] in {"-", "+"}:
        at += 2 if re.fullmatch(valued, words[at].text) else 1
    return min(at, len(words))


def read_prefix(name: str, words: Sequence[ShellWord]) -> tuple[int, int]:
    """Where the options of a prefix end, and where its assignments do: there another begins."""
    at = end = skip_options(words, PREFIXES[name])
    while name in _ASSIGNING and end < len(words) and ASSIGNED.match(words[end].text):
        end += 1
    asks = name == "command" and any(word.text in {"-v", "-V"} for word in words[1:at])
    return at, len(words) if asks else end
