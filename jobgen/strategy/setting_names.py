"""What a training program calls a setting of ``train``: its framework's option, or a file's key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from jobgen.data import run_arguments
from jobgen.model.train import Train
from jobgen.source import scan
from jobgen.strategy import check_train, decide
from jobgen.strategy.frameworks import MODULES, FrameworkRequest, configure
from jobgen.strategy.frameworks.torchtitan import RECOMPUTE
from jobgen.strategy.spec import TRAITS, ModelSizes, RankLayout

_FILES = {
    "deepspeed": ("ds_config", "in the DeepSpeed configuration"),
    "axolotl": ("axolotl", "in axolotl's YAML"),
}
"""Frameworks that read their settings from a file → the rows of its keys, and where it is."""
FRAMEWORKS = (*MODULES, "axolotl")
"""Those whose names are known."""
_BATCH = ("micro_batch", "gradient_accumulation", "global_batch")
"""Settings that depend on each other: passed together, one alone is not to be seen."""
_RENDERED = re.compile(r'"\$JOBGEN_BUNDLE_DIR/[^"]*"')
_WORLD = RankLayout(nodes=2, ranks_per_node=8)
"""Any ranks will do: options that depend on their number stay as they are."""


def name_setting(framework: str, path: str, value: str) -> str:
    """A key of ``train`` with this value as the program of a framework has it.

    ``--gradient_checkpointing=true``, or of a file ``zero_optimization.stage: 3``; empty if the
    framework has no name for it, or is not known.
    """
    if framework in _FILES:
        return _find_argument(_FILES[framework][0], path, value, ": ")
    passed = "" if path in _BATCH else _list_passed(framework, path, value)
    return passed or _find_argument(framework, path, value, " ", dashes="--")


def name_batch_option(framework: str) -> str:
    """The option that keeps the batch as the micro-batch changes: that of gradient accumulation,
    else that of the whole batch; empty if none is known."""
    names = (name_setting(framework, key, "1") for key in ("gradient_accumulation", "global_batch"))
    return next((name.split(" ")[0].rstrip(":") for name in names if name), "")


def locate_settings(framework: str) -> str:
    """``in the DeepSpeed configuration`` of settings that a file holds; empty for options."""
    return _FILES[framework][1] if framework in _FILES else ""


def can_set(framework: str, path: str, value: str) -> bool:
    """Whether a framework has this strategy; other settings, and unknown frameworks, may."""
    trait = TRAITS.get(value) if path == "strategy" else None
    return trait is None or framework not in MODULES or framework in trait.frameworks


def _find_argument(framework: str, path: str, value: str, between: str, dashes: str = "") -> str:
    rows = (row for row in run_arguments() if row.framework == framework and row.key == path)
    names = ((row.name, row.find_word(value)) for row in rows)
    return next((f"{dashes}{name}{between}{word}" for name, word in names if word), "")


def _list_passed(framework: str, path: str, value: str) -> str:
    """The options that jobgen passes with this value and not without it."""
    changes = _nest(path, value)
    for base in TRAITS:
        before, after = _pass_options(framework, base, {}), _pass_options(framework, base, changes)
        if before and after:
            return " ".join(option for option in after if option not in before)
    return ""


def _nest(path: str, value: str) -> dict[str, Any]:
    """``strategy.static_graph`` and ``true`` as nested mappings, as job.yaml has them."""
    *above, last = path.split(".")
    inner = scan(f"{last}: {value}", path).data
    return reduce(lambda below, key: {key: below}, reversed(above), dict(inner))


def _pass_options(framework: str, base: str, changes: dict[str, Any]) -> list[str]:
    """What a program is given for a strategy with these changes; nothing where it is refused."""
    asked = changes.get("strategy", {})
    kind = {"type": base, **asked} if isinstance(asked, dict) else {"type": asked}
    keys = {"micro_batch": 1, **changes, "strategy": kind, "framework": framework}
    sizes = ModelSizes()
    if framework not in MODULES or framework not in TRAITS[kind["type"]].frameworks:
        return []
    train = Train.read(keys)
    if next(iter(check_train(train, sizes, _WORLD, launcher="torchrun")), None) is not None:
        return []
    decided = decide(train, sizes, _WORLD, launcher="torchrun")
    made = configure(FrameworkRequest(decided, _WORLD.nodes, _WORLD.ranks_per_node))
    return list(_join_options([str(word) for word in made.args]))


def _join_options(words: Sequence[str]) -> Iterator[str]:
    """Each option with its value; a file that jobgen would render is FILE."""
    option = ""
    for word in (_RENDERED.sub("FILE", word) for word in words):
        if word.startswith(("--", RECOMPUTE)):
            yield from [option] if option else []
            option = word
        else:
            option = f"{option} {word}"
    yield from [option] if option else []
