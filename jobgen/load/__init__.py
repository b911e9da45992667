"""A file → its value, or every problem in it: with the place, the code, and what to write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

from jobgen.errors import Diagnostic, Invalid, raise_errors
from jobgen.load import (
    cluster_rules,
    env_rules,
    group_rules,
    job_rules,
    judged,
    lint_rules,
    run_rules,
    sbatch_options,
    step_rules,
    substitution,
    sweep_rules,
    variants,
)
from jobgen.load.extends import extend_tree
from jobgen.load.tree import Tree, refuse_useless
from jobgen.model.cluster import ClusterProfile
from jobgen.model.form import F, Form, Refusal
from jobgen.model.job import JobSpec
from jobgen.model.loaded import Loaded
from jobgen.named_tuple import NamedTuple
from jobgen.source import Source, scan

if TYPE_CHECKING:
    from jobgen.catalog import Parent

Kind = Literal["job", "cluster"]

_ONLY_JOB = frozenset(JobSpec.keys) - frozenset(ClusterProfile.keys)
_ONLY_CLUSTER = frozenset(ClusterProfile.keys) - frozenset(JobSpec.keys)
_MAY_BE_EMPTY = r"secrets\.\w+$"
_NOTHING = "$^"
_SCRIPTS = (".sbatch", ".slurm", ".sh", ".bash", ".job")


class CheckedFile(NamedTuple):
    """What ``lint`` says of a file."""

    kind: Kind | Literal["script"]
    problems: tuple[Diagnostic, ...]
    """In the order of their lines."""
    valid: bool
    """Whether the file could be used; a rule may still have found an error in it."""


class Read(NamedTuple, Generic[F]):
    """A file as far as it can be used, and everything that is wrong with it."""

    loaded: Loaded[F] | None
    """None if it has no usable form."""
    problems: tuple[Diagnostic, ...]
    """What makes it invalid, in the order of its lines."""
    notes: tuple[Diagnostic, ...]
    """What rules found in it."""
    partial: Loaded[F] | None = None
    """Without a usable form: its right values, with others in place of those that it must have."""


def read_job(
    text: str,
    label: str,
    *,
    sets: Sequence[str] = (),
    cluster: ClusterProfile | None = None,
    complete: bool = True,
) -> Read[JobSpec]:
    """The job of a job.yaml with all its problems. Never raises Invalid.

    ``cluster`` is the cluster of the job, if it is known. A job that is not ``complete`` may lack
    the values of its required variables.
    """
    tree, spec = _job(scan(text, label), sets, cluster, complete=complete)
    read = _read(tree, spec)
    if spec is not None or not tree.data:
        return read
    partial = _read(tree, _form_rest(tree)).loaded
    return read._replace(partial=partial)


_LEAST = {"name": "job", "run": "true", "nodes": 1, "time": "1m"}
"""Values of the keys that every job has, which no check finds too large."""


def _form_rest(tree: Tree) -> JobSpec | None:
    """The job without the keys that are wrong."""
    given = {key: value for key, value in tree.data.items() if key in JobSpec.keys}
    for _ in range(2):
        try:
            return JobSpec.read({**_LEAST, **given})
        except Refusal as refusal:
            wrong = {str(fault.path[0]) for fault in refusal.faults if fault.path}
            given = {key: value for key, value in given.items() if key not in wrong}
    return None


def load_job(text: str, label: str, *, sets: Sequence[str] = ()) -> Loaded[JobSpec]:
    """The job of a job.yaml. Raises Invalid with every problem in it, and in ``--set``."""
    return _usable(read_job(text, label, sets=sets))


def read_data(text: str, label: str, sets: Sequence[str] = ()) -> Mapping[str, Any]:
    """The data of a job file with the values of its variant and of ``--set``, for another job that
    takes keys over: variables stay as they are written."""
    tree = Tree(scan(text, label))
    variants.apply(tree, sets)
    substitution.carry_out(tree, sets)
    return tree.data


def load_cluster(
    text: str, label: str, *, parent: Parent | tuple[str, str] | None = None
) -> Loaded[ClusterProfile]:
    """The profile of a cluster.yaml. Raises Invalid with every problem in it.

    ``parent`` is the text and the label of the profile that it ``extends``, and what that one
    extends.
    """
    return _usable(_read(*_cluster(scan(text, label), parent)))


def check(
    text: str,
    label: str,
    *,
    parent: Parent | tuple[str, str] | None = None,
    cluster: ClusterProfile | None = None,
    sets: Sequence[str] = (),
) -> CheckedFile:
    """Everything that is wrong with a file, and all that rules find in it. Never raises.

    ``cluster`` is the cluster of the job, if it is known; ``sets`` replace values of a job.
    """
    if is_script(text, label):
        from jobgen.load import sbatch_script

        said = sbatch_script.check(text, label, cluster=cluster)
        return CheckedFile("script", tuple(said), valid=True)
    source = scan(text, label)
    which = _kind(source, text)
    if which == "job":
        trees = [
            _job(source, each, cluster, complete=False)[0] for each in _list_sets(source, sets)
        ]
    else:
        trees = [_cluster(source, parent)[0]]
    problems = _sorted([problem for tree in trees for problem in (*tree.problems, *tree.notes)])
    return CheckedFile(which, tuple(problems), valid=not any(tree.problems for tree in trees))


def _list_sets(source: Source, sets: Sequence[str]) -> list[Sequence[str]]:
    """What ``--set`` says for the job as it is, and for each of its variants if none is chosen."""
    if any(word.startswith("variant=") for word in sets):
        return [sets]
    return [sets, *((*sets, f"variant={name}") for name in variants.list_names(source.data))]


def list_variants(text: str, label: str, sets: Sequence[str] = ()) -> list[Sequence[str]]:
    """What ``--set`` says for each variant of a job file; nothing if ``sets`` choose one."""
    return _list_sets(scan(text, label), sets)[1:]


def is_script(text: str, label: str) -> bool:
    """Whether this is a plain job script, by its name or its first line."""
    return label.endswith(_SCRIPTS) or text.startswith("#!")


def detect_kind(text: str, label: str) -> Kind:
    """Whether this is a job file or a cluster's profile, by its keys."""
    return _kind(scan(text, label), text)


def build_schema(which: Kind) -> dict[str, Any]:
    """The JSON Schema of job.yaml or cluster.yaml, for editors."""
    from jobgen.load.schemas import build_form_schema

    if which == "job":
        return build_form_schema(JobSpec, "job.yaml")
    return build_form_schema(ClusterProfile, "cluster.yaml")


def _job(
    source: Source,
    sets: Sequence[str],
    cluster: ClusterProfile | None = None,
    *,
    complete: bool = True,
) -> tuple[Tree, JobSpec | None]:
    tree = Tree(source)
    if not tree.data:
        return tree, None
    refuse_useless(tree, _MAY_BE_EMPTY)
    used = variants.apply(tree, sets)
    substitution.carry_out(tree, sets)
    env_rules.check(tree)
    used |= substitution.settle(tree, complete=complete)
    for above in ((), *tree.list_groups()):
        sbatch_options.settle(tree, (*above, "slurm"))
    spec = _formed(tree, JobSpec)
    job_rules.check(tree)
    sweep_rules.check(tree)
    step_rules.check(tree)
    group_rules.check(tree)
    run_rules.check_job(tree, cluster)
    if spec is not None and spec.train is not None:
        from jobgen.load import train_rules

        train_rules.check(tree, spec, spec.train)
    lint_rules.lint_job(tree, used)
    judged.judge_job(tree, cluster)
    return tree, spec


def _cluster(
    source: Source, parent: Parent | tuple[str, str] | None
) -> tuple[Tree, ClusterProfile | None]:
    tree = Tree(source)
    if not tree.data:
        return tree, None
    refuse_useless(tree, _NOTHING)
    extend_tree(tree, parent)
    env_rules.check(tree)
    substitution.refuse(tree)
    sbatch_options.settle(tree, ("defaults", "slurm"))
    profile = _formed(tree, ClusterProfile)
    cluster_rules.check(tree)
    run_rules.check_profile(tree)
    lint_rules.lint_cluster(tree)
    judged.judge_profile(tree, profile)
    return tree, profile


def _formed(tree: Tree, form: type[F]) -> F | None:
    try:
        return form.read(tree.data)
    except Refusal as refusal:
        from jobgen.load.faults import tell

        tell(tree, form, refusal.faults)
        return None


def _read(tree: Tree, value: F | None) -> Read[F]:
    problems, notes = tuple(_sorted(tree.problems)), tuple(_sorted(tree.notes))
    if value is None:
        return Read(None, problems, notes)
    loaded = Loaded(
        value,
        tree.label,
        tree.places,
        tree.digest,
        notes,
        tree.overrides,
        tuple(tree.variables),
        tuple(tree.programs),
        tuple(tree.scripts),
        tuple(tree.by_step),
        tree.above,
    )
    return Read(loaded, problems, notes)


def _usable(read: Read[F]) -> Loaded[F]:
    raise_errors(Invalid, read.problems)
    if read.loaded is None:
        raise RuntimeError("the file is invalid, but no reason was recorded")
    return read.loaded


def _sorted(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """In the order of the file, and each once."""
    once = dict.fromkeys(problems)
    return sorted(once, key=lambda p: (p.place.line, p.place.col) if p.place else (0, 0))


def _kind(source: Source, text: str) -> Kind:
    if isinstance(source.data.get("nodes"), dict):
        return "cluster"
    keys = list(source.data) or re.findall(r"^([A-Za-z_]+):", text[:100_000], re.MULTILINE)
    ours = sum(k in _ONLY_CLUSTER for k in keys)
    return "cluster" if ours > sum(k in _ONLY_JOB for k in keys) else "job"


__all__ = [
    "CheckedFile",
    "Form",
    "Kind",
    "Read",
    "build_schema",
    "check",
    "detect_kind",
    "is_script",
    "list_variants",
    "load_cluster",
    "load_job",
    "read_data",
    "read_job",
]
