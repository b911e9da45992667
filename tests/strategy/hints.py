"""Hints of refusals, read as changes of the keys that they name."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

from jobgen.model.parallel import Parallel
from jobgen.model.train import Offload, Train
from jobgen.strategy import ModelSizes, RankLayout, check_train, decide
from jobgen.strategy.frameworks import FrameworkRequest, configure
from jobgen.strategy.model_sizes import read_sizes

_CHANGE = re.compile(r"(?:set )?(\w+): ([\w./-]+(?: or \d+)*)|(?:remove )?(?!it$)(\w+)")


def asked(**keys: Any) -> Train:
    """What the job says; a word is a strategy."""
    kind = keys.pop("strategy", "3d")
    return Train(strategy=Parallel(**({"type": kind} if isinstance(kind, str) else kind)), **keys)


def read_changes(hint: str) -> list[dict[str, Any]]:
    """The changes that a hint proposes as alternatives; None removes a key."""
    changes: list[dict[str, Any]] = []
    for alternative in hint.split(", or "):
        parts = [_CHANGE.fullmatch(part) for part in re.split(", | and ", alternative)]
        names = [part[1] or part[3] for part in parts if part]
        values = [map(_read, (part[2] or "null").split(" or ")) for part in parts if part]
        if all(parts):
            changes += (dict(zip(names, each, strict=True)) for each in product(*values))
    return changes


def _read(value: str) -> Any:
    return json.loads(value) if re.fullmatch(r"\d+|true|null", value) else value


def change_keys(keys: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The job's keys with a change of a hint."""
    changed = {**keys, "strategy": {**keys["strategy"]}, "offload": {**keys.get("offload", {})}}
    for name, value in change.items():
        if name in {"strategy", "offload"}:
            changed[name] = {} if value is None else {_WORDS[name]: value}
            continue
        forms = (Train.keys, changed), (Parallel.keys, changed["strategy"])
        owner = next((form for known, form in forms if name in known), changed["offload"])
        owner.pop(name, None)
        if value is not None:
            owner[name] = value
    return changed


_WORDS = {"strategy": "type", "offload": "what"}


def list_paths(
    keys: dict[str, Any],
    world: RankLayout | None,
    sizes: ModelSizes | None = None,
    launcher: str = "torchrun",
) -> set[tuple[str, ...]]:
    """What is refused, by the framework as well where nothing else is."""
    offload = Offload(**keys["offload"]) if keys.get("offload") else Offload(what="none")
    train = asked(**{**keys, "offload": offload})
    sizes = sizes or read_sizes(train, {})[0]
    faults = list(check_train(train, sizes, world, launcher=launcher))
    if world is not None and not faults:
        decided = decide(train, sizes, world, launcher=launcher)
        request = FrameworkRequest(decided, world.nodes, world.ranks_per_node, world.gpus)
        faults = list(configure(request).faults)
    return {fault.path for fault in faults}
