"""Commands that start another command: which they are, and where the other begins."""

from __future__ import annotations

SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
"""They read a script behind ``-c``."""
DIRECT = frozenset(
    {"env", "exec", "command", "builtin", "time", "nohup", "setsid", "nice", "ionice", "chrt"}
    | {"numactl", "taskset", "timeout", "stdbuf", "unbuffer", "sudo", "flock", "strace", "ltrace"}
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
HARMLESS = frozenset(
    {"export", "declare", "typeset", "local", "readonly", "unset", "set", "shopt", "trap", "ulimit"}
    | {"umask", "cd", "pushd", "popd", "source", ".", ":", "true", "module", "ml", "conda", "mamba"}
    | {"pip", "pip3", "echo", "printf", "date", "hostname", "sleep", "wait", "ls", "pwd", "mkdir"}
    | {
        "nvidia-smi",
        "rocm-smi",
        "nproc",
        "free",
        "df",
        "which",
        "command",
        "type",
        "[",
        "[[",
        "test",
    }
    | {"wandb", "ibstat", "lscpu", "env", "exit", "return"}
)
"""Commands that make no file which a later one could run."""
