"""Commands that start ranks themselves: how each is written, and where its own options end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.shell.lexer import ShellWord
from jobgen.shell.python_command import is_python

_ONE_NODE = re.compile(r"(?!)")


class ForeignLauncher(NamedTuple):
    """A launcher that is not started by jobgen."""

    kind: str
    """jobgen's launcher of that name, where it has one; else the command."""
    subcommands: frozenset[str] = frozenset()
    """One of these words stands behind the command; none: the command alone starts ranks."""
    flags: frozenset[str] = frozenset()
    """Options that take no value, without dashes, ``_`` for ``-``."""
    nodes: re.Pattern[str] = _ONE_NODE
    """Options that name the other nodes, written as ``flags``."""
    needs: re.Pattern[str] = re.compile("")
    """Without an option like this it starts no ranks."""
    program: bool = True
    """Whether the program stands behind the options."""


def _flags(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TORCHRUN = ForeignLauncher(
    "torchrun",
    flags=_flags("standalone no_python run_path use_env virtual_local_rank"),
    nodes=re.compile("nnodes|node_rank|rdzv_(endpoint|conf)|master_addr"),
)
_ACCELERATE = ForeignLauncher(
    "accelerate",
    frozenset({"launch"}),
    _flags(
        "multi_gpu cpu use_deepspeed use_fsdp use_megatron_lm use_xpu use_mps_device same_network"
        " tpu no_python quiet q debug ipex tpu_use_cluster tpu_use_sudo use_parallelism_config"
        " enable_cpu_affinity use_tp"
    ),
    re.compile("num_machines|machine_rank|main_process_ip|config_file|rdzv_conf"),
)
_DEEPSPEED = ForeignLauncher(
    "deepspeed",
    flags=_flags(
        "no_python no_local_rank save_pid force_multi no_ssh elastic_training no_ssh_check"
        " bind_cores_to_rank use_env"
    ),
    nodes=re.compile("node_rank|no_ssh"),
)
_SRUN = ForeignLauncher(
    "srun",
    flags=_flags(
        "l label u unbuffered v verbose Q quiet overlap exclusive exact O overcommit s"
        " oversubscribe K kill_on_bad_exit Z no_allocate E preserve_env pty X disable_status b"
    ),
)
_MPIRUN = ForeignLauncher(
    "mpirun",
    flags=_flags(
        "allow_run_as_root oversubscribe nooversubscribe report_bindings display_map tag_output"
        " bynode byslot q v verbose bind_to_none use_hwthread_cpus l prepend_rank"
    ),
)
_COMPOSER = ForeignLauncher(
    "composer", flags=_flags("v verbose"), nodes=re.compile("world_size|node_rank|base_rank")
)

LAUNCHERS = {
    "torchrun": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "accelerate-launch": _ACCELERATE._replace(subcommands=frozenset()),
    "deepspeed": _DEEPSPEED,
    "ds": _DEEPSPEED,
    "deepy.py": ForeignLauncher("deepy.py", nodes=re.compile("")),
    "srun": _SRUN,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), _MPIRUN),
    "mpiexec.hydra": _MPIRUN._replace(kind="mpiexec.hydra"),
    "jsrun": _MPIRUN._replace(kind="jsrun"),
    "aprun": _MPIRUN._replace(kind="aprun"),
    "flux": ForeignLauncher("flux", frozenset({"run", "submit"})),
    "horovodrun": _MPIRUN._replace(kind="horovodrun"),
    "composer": _COMPOSER,
    "colossalai": ForeignLauncher(
        "colossalai", frozenset({"run"}), nodes=re.compile("host(file)?")
    ),
    "fabric": ForeignLauncher("fabric", frozenset({"run"}), nodes=re.compile("num_nodes")),
    "tune": _TORCHRUN._replace(
        kind="torchtune",
        subcommands=frozenset({"run"}),
        needs=re.compile("nnodes|nproc_per_node|rdzv_.*|standalone"),
    ),
    "axolotl": ForeignLauncher("axolotl", frozenset({"train"})),
    "ray": ForeignLauncher("ray", frozenset({"start", "symmetric-run", "job"}), program=False),
}
"""Command → what is known about it."""
MODULES = {
    "torch.distributed.run": _TORCHRUN,
    "torch.distributed.launch": _TORCHRUN,
    "torch.distributed.launcher": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "accelerate.commands.launch": _ACCELERATE._replace(subcommands=frozenset()),
    "accelerate.commands.accelerate_cli": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "deepspeed.launcher.runner": _DEEPSPEED,
    "deepspeed.launcher.launch": _DEEPSPEED,
    "composer": _COMPOSER,
    "composer.cli.launcher": _COMPOSER,
    "horovod.runner.launch": LAUNCHERS["horovodrun"],
    "torchtune._cli.tune": LAUNCHERS["tune"],
}
"""Module that Python is asked to run → what is known about it."""


class Launched(NamedTuple):
    """A launcher's words, taken apart."""

    program: int
    """Index of the first word of the program; the number of words where it names none."""
    module: bool
    """Whether that word is a Python module."""
    spans_nodes: bool
    """Whether its options name other nodes, or cannot be known."""
    certain: bool = True
    """Whether no variable hides where the options end."""
    options: Mapping[str, str] = {}
    """Its options without dashes, ``_`` for ``-`` → value; empty for a flag."""


_ASKS = frozenset({"--help", "-h", "--version", "-V"})


def read_launched(
    launcher: ForeignLauncher, words: Sequence[ShellWord], at: int
) -> Launched | None:
    """Where the program begins behind the launcher, whose own words end at ``at``.

    None where it starts nothing, as in ``torchrun --version`` and ``accelerate config``.
    """
    if launcher.subcommands:
        if at >= len(words) or words[at].text not in launcher.subcommands:
            return None
        at += 1
    if at < len(words) and words[at].text in _ASKS:
        return None
    if not launcher.program:
        return Launched(len(words), module=False, spans_nodes=True)
    options, end, module, hidden = _take_options(launcher, words, at)
    if end >= len(words) or not any(map(launcher.needs.match, options or ("",))):
        return None
    spans = hidden or any(map(launcher.nodes.fullmatch, ("", *options)))
    certain = not hidden or words[end].text.endswith(".py") or module
    return Launched(end, module, spans, certain, options)


def _take_options(
    launcher: ForeignLauncher, words: Sequence[ShellWord], at: int
) -> tuple[dict[str, str], int, bool, bool]:
    """The options, the index of the program's first word, whether that is a module, and whether
    options stand in a variable."""
    options: dict[str, str] = {}
    hidden = False
    while at < len(words):
        text = words[at].text
        module = text in {"-m", "--module"} and launcher not in {_SRUN, _MPIRUN}
        if module or text == "--":
            return options, at + 1, module, hidden
        if text.startswith("$") and words[at].expands and at + 1 < len(words):
            hidden = True
            at += 1
        elif not text.startswith("-"):
            break
        else:
            name, value = _split_option(text)
            following = _takes_next(launcher, words, at, name)
            options[name] = words[at + 1].raw if following else value
            at += 1 + following
    return options, at, False, hidden


def _split_option(text: str) -> tuple[str, str]:
    """``--nnodes=2`` and ``-n2`` → name and value."""
    short = re.fullmatch(r"-([A-Za-z])(\d+)", text)
    name, _, value = (short[1], "", short[2]) if short else text.partition("=")
    return name.lstrip("-").replace("-", "_"), value


def _takes_next(launcher: ForeignLauncher, words: Sequence[ShellWord], at: int, name: str) -> bool:
    text = words[at].text
    attached = "=" in text or (re.match(r"-[A-Za-z]\d", text) is not None)
    if attached or name in launcher.flags or at + 1 >= len(words):
        return False
    following = words[at + 1].text
    return not (following.startswith("-") or following.endswith(".py") or is_python(following))
