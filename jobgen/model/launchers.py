"""Launchers: all that jobgen decides by the launcher, in one row for each.

How a launcher is called stands in its module of ``jobgen/launch``. The rows stand here because the
form of job.yaml, below that package, takes the names from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from jobgen.named_tuple import NamedTuple

_AGENT = ("args", "command", "srun_args")
_TORCHRUN = ("rdzv", "max_restarts", *_AGENT)


class LauncherFacts(NamedTuple):
    """One launcher. The defaults are those of an agent that starts the ranks of its node."""

    settings: Sequence[str] = _AGENT
    """Keys of ``launcher:`` that it takes, without ``type``."""
    task: Literal["agent", "rank", "command"] = "agent"
    """What srun starts: an agent on each node, each rank, or the command once on each node."""
    elastic: bool = False
    """Whether it goes on when a node is lost."""
    keeps_store: bool = False
    """Whether its agent keeps one store for everything that its ranks run."""
    config_format: Literal["", "deepspeed", "accelerate"] = ""
    """Whose file ``config`` is: DeepSpeed's own, or accelerate's, which may name one."""
    framework: str = ""
    """Framework of ``train:`` that this launcher configures."""
    blocks: Sequence[str] = ()
    """Blocks of rank.sh that its ranks need."""
    agent: str = ""
    """The launcher that starts the ranks instead, as the tool itself would start it."""
    rank_command: Sequence[str] = ()
    """Words before ``run``, which is then the tool's recipe or configuration and not a program."""
    starts_all_nodes: bool = False
    """Whether it starts the ranks of all nodes from the first one."""
    needs_torch: bool = True
    """Whether its agent is a part of torch, or imports it."""
    note: str = ""
    """What the documentation of ``type`` adds to its name."""


LAUNCHERS: Mapping[str, LauncherFacts] = {
    "torchrun": LauncherFacts(_TORCHRUN, elastic=True, keeps_store=True),
    "srun": LauncherFacts(("args",), task="rank", note="one task per rank"),
    "deepspeed": LauncherFacts(
        (*_AGENT, "ssh", "config"), config_format="deepspeed", blocks=("deepspeed", "guard")
    ),
    "accelerate": LauncherFacts(
        (*_AGENT, "config"), keeps_store=True, config_format="accelerate", framework="accelerate"
    ),
    "composer": LauncherFacts(),
    "mpirun": LauncherFacts(
        ("args", "command"),
        blocks=("mpirun",),
        starts_all_nodes=True,
        needs_torch=False,
        note="of Open MPI",
    ),
    # tune run gives its options to torch.distributed.run, whose ranks run the recipe; without
    # options it becomes the recipe: torchtune 0.6, torchtune/_cli/run.py
    "torchtune": LauncherFacts(
        _TORCHRUN,
        elastic=True,
        keeps_store=True,
        agent="torchrun",
        rank_command=("tune", "run"),
        note="torchrun of torchtune recipes",
    ),
    # axolotl train --launcher torchrun starts: torchrun … -m axolotl.cli.train CONFIG
    # (axolotl 0.19, axolotl/cli/utils/train.py)
    "axolotl": LauncherFacts(
        _TORCHRUN,
        elastic=True,
        keeps_store=True,
        agent="torchrun",
        rank_command=("python", "-m", "axolotl.cli.train"),
        note="torchrun of axolotl configurations",
    ),
    "plain": LauncherFacts(
        ("srun_args",), task="command", blocks=("plain",), note="the command, unchanged"
    ),
}
"""Launcher → its facts; its module is ``jobgen.launch.NAME``."""
DEFAULT = "torchrun"
"""The launcher of a Python program of several ranks."""
SINGLE = "plain"
"""The launcher of one rank."""
ALIASES = {"none": "plain"}


def get_facts(launcher: str) -> LauncherFacts:
    """The launcher's facts; the defaults for a name that is empty or unknown."""
    return LAUNCHERS.get(launcher, LauncherFacts())


def name_agent(launcher: str) -> str:
    """The launcher whose program starts the ranks."""
    return get_facts(launcher).agent or launcher


def name_starter(launcher: str, ssh: str) -> str:
    """What starts the ranks of several nodes from the first one; empty: srun starts every node."""
    facts = get_facts(launcher)
    if facts.starts_all_nodes:
        return launcher
    return ssh if "ssh" in facts.settings and ssh != "none" else ""


def find_launchers(fits: Callable[[LauncherFacts], bool]) -> list[str]:
    """Names of the launchers whose facts fit."""
    return [name for name, facts in LAUNCHERS.items() if fits(facts)]


def find_takers(setting: str) -> list[str]:
    """Names of the launchers that take this key of ``launcher:``."""
    return find_launchers(lambda facts: setting in facts.settings)
