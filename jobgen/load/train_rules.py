"""What of ``train:`` cannot work, as far as the job alone shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen import strategy
from jobgen.model.launchers import get_facts
from jobgen.model.trained import ModelShape, is_function
from jobgen.strategy.model_sizes import find_unknown_model, read_sizes
from jobgen.strategy.shapes import build_model
from jobgen.strategy.shapes.size_rules import list_conflicts
from jobgen.strategy.shapes.written import complete_shape
from jobgen.strategy.spec import TRAITS

if TYPE_CHECKING:
    from jobgen.errors import Severity
    from jobgen.load.tree import Tree
    from jobgen.model.job import JobSpec
    from jobgen.model.train import Train


UNKNOWN_MODEL = "J254"
"""The code of a model whose sizes are not known; a warning if its name resembles a known one."""


def check(tree: Tree, spec: JobSpec, train: Train) -> None:
    """Say it at the key that it is about."""
    _check_model(tree, train)
    nearest = _check_shape(tree, train)
    _check_functions(tree, train)
    launcher, world = spec.launcher.type or "", _world(spec)
    if train.strategy.type == "auto":
        train = strategy.replace_auto(train, launcher)
        if strategy.choose_framework(train, launcher) in TRAITS["3d"].frameworks:
            world = None  # auto may divide the ranks by tp and pp
    known, _ = read_sizes(train, {})
    known = known._replace(
        heads=nearest.get("heads", known.heads), kv_heads=nearest.get("kv_heads", known.kv_heads)
    )
    for fault in strategy.check_train(train, known, world, launcher=launcher):
        tree.say(fault.code, f"train: {fault.message}", ("train", *fault.path), fault.hint)


def _check_model(tree: Tree, train: Train) -> None:
    """Warn of a name that resembles one whose sizes are known: its memory is not estimated."""
    unknown = find_unknown_model(train)
    if unknown is None:
        return
    auto = train.strategy.type == "auto"
    code = "J250" if auto else UNKNOWN_MODEL
    severity: Severity = "warning" if auto or unknown.near else "note"
    cannot = "strategy: auto cannot choose" if auto else "memory is not estimated"
    message = f"train.model: unknown sizes of '{unknown.name}', so that {cannot}"
    tree.note(code, message, ("train", "model"), unknown.hint, severity)


_DIFFERENT = 0.05
"""Of the parameters: more than the rounding of names like 7B for 7.2 billion is another model."""


def _check_shape(tree: Tree, train: Train) -> dict[str, int]:
    """Sizes that no model has together, and a number of parameters that they do not make. Returns
    heads and kv_heads as the hints have them: parallel sizes are checked with these."""
    shape = train.model
    if not isinstance(shape, ModelShape):
        return {}
    sizes = {key: getattr(shape, key) for key in shape.keys}
    found = list(list_conflicts(sizes, {key: key for key in sizes}))
    for conflict in found:
        places = [("train", "model", key) for key in conflict.keys]
        tree.contradict(f"train.model: {conflict.message}", places, conflict.hint)
    nearest = {size: value for conflict in found for size, value in conflict.changes.items()}
    if found or shape.params is None or shape.vocab is None:
        return nearest
    counted = build_model(complete_shape(shape)).count
    if abs(counted - shape.params) > _DIFFERENT * counted:
        message = (
            f"train.model: params is {shape.params:g}, but the sizes make {counted:.4g} "
            "parameters, which is what the plan counts"
        )
        hint = f"set params: {counted:.4g}, or correct the sizes (ffn, gated, tied, experts)"
        tree.note("J138", message, ("train", "model", "params"), hint)
    return nearest


def _check_functions(tree: Tree, train: Train) -> None:
    """A function that builds the model needs one for its batch, and the other way round."""
    built = is_function(train.model)
    if built and train.batch is None:
        message = f"train.model: {train.model} builds the model, but train.batch is not set"
        hint = "set batch: FILE.py:NAME, a function that returns one micro-batch"
        tree.say("J138", message, ("train", "model"), hint)
    if train.batch is not None and not built:
        message = "train.batch is for a model that a function builds"
        tree.say("J138", message, ("train", "batch"), "set model: FILE.py:NAME, or remove batch")


def _world(spec: JobSpec) -> strategy.RankLayout | None:
    """The ranks, where the job itself says them and every cluster would read it alike."""
    given = [n for n in (spec.gpus_per_node, spec.procs_per_node) if n]
    if len(given) != 1 or get_facts(spec.launcher.type or "").task == "command":
        return None
    each = (spec.ranks_per_gpu or 1) if spec.gpus_per_node else 1
    return strategy.RankLayout(spec.nodes, given[0] * each, fabric=None)
