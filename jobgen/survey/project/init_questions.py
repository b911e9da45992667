"""What ``jobgen init`` asks: at most five questions, each with a default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobgen.model.fields import find_nearest
from jobgen.model.job_checks import MOST_NODES
from jobgen.model.units import UnitError, Walltime, clip
from jobgen.named_tuple import NamedTuple
from jobgen.shell import quote
from jobgen.survey.project.detect import Project
from jobgen.survey.project.folder_listing import PLAIN_PATH

LOCAL = "local"
ALL = "all"
_MOST_GPUS = 1024


class OfferedAnswer(NamedTuple):
    """One of the numbered answers to a question."""

    value: str
    label: str = ""


class InitQuestion(NamedTuple):
    """A question, its default and what checks an answer."""

    key: str
    title: str
    default: str
    check: Callable[[str], str]
    """The answer in its final form. Raises ValueError with what is wrong."""
    offered: tuple[OfferedAnswer, ...] = ()


class JobAnswers(NamedTuple):
    """The answers to all questions."""

    program: str
    cluster: str = LOCAL
    nodes: str = "1"
    gpus: str = ALL
    """``all`` GPUs of a node, or a number."""
    time: str = "1h"


class ChosenCluster(NamedTuple):
    """What the job file needs to know of the cluster that was chosen."""

    is_here: bool = False
    """Whether its jobs run on this machine."""
    gpus_per_node: int = 0
    """0 if that is not known."""


def ask_program(project: Project) -> InitQuestion:
    """Which program to run; the likeliest is the default."""
    offered = tuple(OfferedAnswer(p.path, f"uses {p.traits.title}") for p in project.programs)
    default = offered[0].value if offered else ""

    def check(text: str) -> str:
        if text not in project.listing.files:
            raise ValueError(f"there is no file {quote(clip(text))} in this folder")
        if not text.endswith(".py") or not PLAIN_PATH.fullmatch(text):
            raise ValueError("name a Python file without spaces or special characters")
        return text

    return InitQuestion("program", "Program to run", default, check, offered)


def list_questions(
    project: Project, program: str, clusters: Mapping[str, str], own: tuple[str, ...]
) -> tuple[InitQuestion, ...]:
    """The other questions, for a program; ``clusters`` are all names, ``own`` those to offer."""
    several = project.find_program(program).traits.distributed
    offered = tuple(OfferedAnswer(name, clusters[name]) for name in (LOCAL, *own))
    return (
        InitQuestion("cluster", "Cluster", LOCAL, _check_cluster(clusters), offered),
        InitQuestion("nodes", "Nodes", "1", _check_count(1, MOST_NODES)),
        InitQuestion("gpus", "GPUs per node", ALL if several else "1", _check_gpus),
        InitQuestion("time", "Time limit", "1h", _check_time),
    )


def _check_cluster(clusters: Mapping[str, str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text in clusters:
            return text
        near = find_nearest(text, list(clusters))
        meant = f"did you mean {near}? " if near else ""
        raise ValueError(
            f"no cluster {quote(clip(text))}; {meant}list all: jobgen cluster ls --all"
        )

    return check


def _check_count(least: int, most: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text.isascii() and text.isdigit() and len(text) < 7 and least <= int(text) <= most:
            return str(int(text))
        raise ValueError(f"enter a number from {least} to {most}")

    return check


def _check_gpus(text: str) -> str:
    if text.lower() == ALL:
        return ALL
    try:
        return _check_count(0, _MOST_GPUS)(text)
    except ValueError as error:
        raise ValueError(f"{error}, or {ALL}") from None


def _check_time(text: str) -> str:
    try:
        Walltime.parse(text)
    except UnitError as error:
        raise ValueError(f"{error.message}: {error.hint}") from None
    return text
