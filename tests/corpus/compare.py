"""A public script beside the job that stands for it: equal, lost, or different on purpose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from tests.corpus.originals import Original

Verdict = Literal["equal", "differs", "lost"]


class Comparison(NamedTuple):
    """One fact of the script, and what became of it."""

    fact: str
    verdict: Verdict
    reason: str = ""


class Rendered(NamedTuple):
    """What the facts are looked for in."""

    files: Mapping[str, str]
    """Text by path; without the plan, which repeats the job file."""
    launchers: set[str]
    """Of the job and its steps."""

    @property
    def text(self) -> str:
        return "\n".join(self.files.values())

    @property
    def directives(self) -> dict[str, str]:
        """Long name → value, of the #SBATCH lines."""
        words = [
            word.removeprefix("--")
            for line in self.files["job.sbatch"].splitlines()
            if line.startswith("#SBATCH")
            for word in shlex.split(line.removeprefix("#SBATCH"), comments=True)
        ]
        return {name: value for name, _, value in (word.partition("=") for word in words)}


TASKS = "tasks follow from the launcher"
LOGS = "each rank has its own log file"
OWN_SRUN = "jobgen's srun has its own"
REPLACED_OPTIONS = {
    "output": LOGS,
    "error": LOGS,
    "chdir": "the job starts in its run directory",
    "parsable": "jobgen reads the job ID",
    "export": "values of the job stand under env; the rest is not inherited",
    "async": "a batch job does not block the terminal",
}
"""sbatch options in whose place jobgen has its own way."""
REPLACED_SRUN = {
    **dict.fromkeys(["output", "error", "label", "unbuffered", "pty"], LOGS),
    **dict.fromkeys(["nodes", "ntasks", "ntasks-per-node", "nodelist", "jobid"], OWN_SRUN),
    **dict.fromkeys(["gres", "gpus-per-node", "cpus-per-task", "partition", "account"], OWN_SRUN),
    **dict.fromkeys(["overlap", "exact", "exclusive", "job-name", "comment", "time"], OWN_SRUN),
    "wait": "the end of one rank ends the job (--kill-on-bad-exit), without a delay",
    "container-name": "each step starts its container from the image",
    "export": REPLACED_OPTIONS["export"],
}
"""srun options in whose place jobgen has its own way."""
OWN_VARIABLES = {
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
}  # fmt: skip
"""Variables that jobgen computes for every start."""
SCRIPT_ONLY = {
    "LAUNCHER", "CMD", "PROGRAM", "SCRIPT", "SCRIPT_ARGS", "PKILL", "M4_DATA_CMD", "HOSTNAMES",
    "COUNT_NODE", "GPUS_PER_NODE", "MGMT_IFACE", "CACHEDIR", "OUTDIR", "CONTAINER_DIR",
    "IMAGE_NAME", "PROJECT_NAME", "NNODES", "RUNSUB_DIR", "MLPERF_SLURM_FIRSTNODE",
}  # fmt: skip
"""Variables that only the script itself reads."""
OBSOLETE = {
    "NCCL_ASYNC_ERROR_HANDLING": "on by default since torch 1.12",
    "NCCL_TREE_THRESHOLD": "NCCL has not read it since 2.5",
    "CUDA_VISIBLE_DEVICES": "Slurm sets it",
    "NCCL_IB_DISABLE": "EFA instances have no InfiniBand",
}
COMPUTED = re.compile(r"\$\(|`")
"""In the value of a variable: only its name can be compared."""
LAUNCHERS = {
    "torch.distributed.launch": "torchrun",
    "srun-per-gpu": "srun",
    "srun-wrapper": "srun",
    "sbatch-wrapper": "srun",
    "sbatch-wrapper(accelerate)": "accelerate",
    "accelerate-mpirun": "mpirun",
    "deepspeed(deepy)": "plain",
    "single-process": "plain",
    "srun-per-node(spawn)": "plain",
    "sbatch-wrap(srun wrapper)": "plain",
    "tf-srun": "plain",
    "ray": "plain",
}
"""The corpus's names of launchers → the job file's; the others are the same."""
FOLDERS = {"before": "before.sh", "finally": "finally.sh", "run": "program.sh"}
SETUP = re.compile(r"(^|/)(node|setup|container|outside|rank|program)\.sh$|^job\.sbatch$")


def compare(original: Original, rendered: Rendered) -> list[Comparison]:
    """Every fact of the script, in its order."""
    compared = [
        *_compare_directives(original, rendered),
        *_compare_options(original, rendered),
        *_compare_exports(original, rendered),
        _judge("launcher " + original.launcher, _has_launcher(original, rendered)),
        *_compare_arguments(original, rendered),
        *(
            _judge(f"{when}: {text}", _has_step(when, text, rendered))
            for when, text in original.steps
        ),
    ]
    reasons = original.differs
    return [
        Comparison(c.fact, "differs", reasons[c.fact])
        if c.verdict == "lost" and c.fact in reasons
        else c
        for c in compared
    ]


def _judge(fact: str, equal: bool) -> Comparison:
    return Comparison(fact, "equal" if equal else "lost")


def _compare_directives(original: Original, rendered: Rendered) -> Iterator[Comparison]:
    made = rendered.directives
    for name, value in original.directives.items():
        fact = f"--{name}={value}" if value else f"--{name}"
        if reason := REPLACED_OPTIONS.get(name):
            yield Comparison(fact, "differs", reason)
        elif value is None:
            yield _judge(fact, name in made or name in {"gres", "qos", *TASK_OPTIONS})
        elif name in TASK_OPTIONS:
            yield Comparison(fact, "differs", TASKS)
        elif rule := RULES.get(name):
            yield _judge(fact, rule(value, made, original))
        else:
            yield _judge(fact, made.get(name) == value)


TASK_OPTIONS = {"ntasks", "ntasks-per-node", "tasks-per-node"}
Rule = Callable[[str, Mapping[str, str], Original], bool]


def _has_gpus(value: str, made: Mapping[str, str], _: Original) -> bool:
    """As many GPUs a node, whichever option asks for them."""
    asked = made.get("gpus-per-node", "") + "," + made.get("gres", "")
    if value.startswith("dcu"):
        return value in asked.split(",")
    count = value.rpartition(":")[2]
    return bool(re.search(rf"(^|[:,]){count}(,|$)", asked))


def _has_gpus_of_tasks(value: str, made: Mapping[str, str], original: Original) -> bool:
    kind, colon, count = value.rpartition(":")
    return _has_gpus(f"{kind}{colon}{int(count) * _count_tasks(original)}", made, original)


def _has_cpus_of_tasks(value: str, made: Mapping[str, str], original: Original) -> bool:
    return _has_cpus(value, str(_count_tasks(original)), made)


def _count_tasks(original: Original) -> int:
    """The tasks of a node."""
    asked = original.directives
    each = asked.get("ntasks-per-node") or asked.get("tasks-per-node")
    tasks, nodes = asked.get("ntasks") or "1", asked.get("nodes") or "1"
    return int(each or int(tasks) // int(nodes) or 1)


def _has_cpus_of_gpus(value: str, made: Mapping[str, str], original: Original) -> bool:
    asked = original.directives
    gpus = asked.get("gres") or asked.get("gpus-per-node") or asked.get("ntasks-per-node") or "1"
    return _has_cpus(value, gpus.rpartition(":")[2], made)


def _has_cpus(value: str, times: str | None, made: Mapping[str, str]) -> bool:
    """As many CPUs a node, or all of them."""
    given = int(made.get("cpus-per-task", 0)) * int(made.get("ntasks-per-node", 1))
    return given == int(value) * int(times or 1) or ("exclusive" in made and given == 0)


def _has_time(value: str, made: Mapping[str, str], _: Original) -> bool:
    return count_minutes(value) == count_minutes(made.get("time", "0"))


def count_minutes(value: str) -> float:
    """The minutes of a time as Slurm writes it."""
    days, dash, rest = value.rpartition("-")
    parts = [float(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0.0, (*parts, 0.0)[:2]
    return float(days or 0) * 1440 + hours * 60 + minutes + seconds / 60


def _has_memory(value: str, made: Mapping[str, str], _: Original) -> bool:
    return count_mebibytes(value) == count_mebibytes(made.get("mem", "-1"))


def count_mebibytes(value: str) -> int:
    """The MiB of an amount as Slurm writes it."""
    factor = {"G": 1024, "T": 1024**2, "K": 1 / 1024}.get(value[-1].upper(), 1)
    return int(float(value.rstrip("MGTKmgtk")) * factor)


def _has_signal(value: str, made: Mapping[str, str], _: Original) -> bool:
    """The signal, as long before the end: jobgen always sends it to the batch shell."""
    name, _, seconds = value.removeprefix("B:").removeprefix("SIG").partition("@")
    return made.get("signal", "") == f"B:{name}@{seconds}"


RULES: dict[str, Rule] = {
    "gres": _has_gpus,
    "gpus-per-node": _has_gpus,
    "gpus-per-task": _has_gpus_of_tasks,
    "cpus-per-task": _has_cpus_of_tasks,
    "cpus-per-gpu": _has_cpus_of_gpus,
    "time": _has_time,
    "mem": _has_memory,
    "signal": _has_signal,
}


def _compare_options(original: Original, rendered: Rendered) -> Iterator[Comparison]:
    text = normalize(rendered.text)
    for option, value in original.options.items():
        fact = f"srun --{option}={value}" if value else f"srun --{option}"
        name = option.replace("_", "-")
        if reason := REPLACED_SRUN.get(name):
            yield Comparison(fact, "differs", reason)
        elif name == "container-image":
            yield _judge(fact, value.replace("#", "/") in text.replace("#", "/"))
        elif name == "container-mounts":
            yield _judge(fact, all(mount in text for mount in value.split(",")))
        elif value:
            yield _judge(fact, _is_in(f"--{name} {value}", text))
        else:
            yield _judge(fact, f"--{name}" in text)


def _compare_exports(original: Original, rendered: Rendered) -> Iterator[Comparison]:
    text = normalize(rendered.text)
    for name, value in original.exports.items():
        fact = f"export {name}"
        if name in SCRIPT_ONLY:
            yield Comparison(fact, "differs", "only the script itself reads it")
        elif name in OWN_VARIABLES:
            yield _judge(fact, bool(re.search(rf"\b{name}\b", text)))
        elif _is_in(name if COMPUTED.search(value) else f"{name} {value}", text):
            yield Comparison(fact, "equal")
        elif name in OBSOLETE:
            yield Comparison(fact, "differs", OBSOLETE[name])
        else:
            yield Comparison(fact, "lost")


def _compare_arguments(original: Original, rendered: Rendered) -> Iterator[Comparison]:
    programs = [text for path, text in rendered.files.items() if path.endswith(".sh")]
    text = normalize("\n".join(programs))
    return (_judge(argument, _is_in(argument, text)) for argument in original.arguments)


def normalize(text: str) -> str:
    """Words with one space between: without quotes, braces of variables, and ``=``."""
    joined = re.sub(r"\\\n", " ", re.sub(r"\$\{(\w+)\}", r"$\1", text))
    return " ".join(re.sub(r"""["'\\]|=(?=\S)""", " ", joined).split())


def _is_in(words: str, text: str) -> bool:
    return f" {normalize(words)} " in f" {text} "


def _has_launcher(original: Original, rendered: Rendered) -> bool:
    return LAUNCHERS.get(original.launcher, original.launcher) in rendered.launchers


def _has_step(when: str, words: str, rendered: Rendered) -> bool:
    """Whether the command stands in a file that runs at that time."""
    kind, _, name = when.partition(":")
    if kind == "rounds":
        return f"JOBGEN_ROUND <= {words};" in rendered.files["job.sbatch"]
    if kind == "step":
        paths = [f"{name}/program.sh"]
    elif kind in FOLDERS:
        paths = [path for path in rendered.files if path.rpartition("/")[2] == FOLDERS[kind]]
    elif kind == "setup":
        paths = [path for path in rendered.files if SETUP.search(path)]
    else:
        paths = list(rendered.files)
    return any(normalize(words) in normalize(rendered.files.get(path, "")) for path in paths)
