"""The three batch keys of a user's own ds_config.json: with each other and with ``train``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.strategy.dsconfig.chosen import Path, UserConfig, get
from jobgen.strategy.spec import Batch, TrainDiagnostic
from jobgen.wording import join_words

TOTAL, MICRO, STEPS = _KEYS = (
    ("train_batch_size",),
    ("train_micro_batch_size_per_gpu",),
    ("gradient_accumulation_steps",),
)
_FIELDS: Mapping[Path, tuple[str, str]] = {
    TOTAL: ("global_batch", "total"),
    MICRO: ("micro_batch", "micro"),
    STEPS: ("gradient_accumulation", "accumulation"),
}
"""Key → the key of ``train`` that says the same, and the field of Batch."""


def check_product(found: UserConfig, ranks: int, reader: str) -> Iterator[TrainDiagnostic]:
    """A batch that is not micro x accumulation x ranks, as DeepSpeed completes and checks it."""
    held = _read(found)
    wrong = next((n for n in held.values() if type(n) is not int or n < 1), None)
    if wrong is not None:
        message = f"{found.name}: invalid batch size {wrong}"
        yield TrainDiagnostic("J230", message, ("config",), "must be an integer of at least 1")
        return
    if TOTAL not in held and MICRO not in held:
        if reader == "deepspeed":
            hint = f'set "{MICRO[0]}": 1, or the largest that fits'
            yield TrainDiagnostic("J237", f"{found.name} sets no batch", ("config",), hint)
        return
    total, step = held.get(TOTAL), held.get(MICRO, 1) * held.get(STEPS, 1) * ranks
    if total is None or (total == step if {MICRO, STEPS} <= {*held} else total % step == 0):
        return
    others = [f"{key[0]} {held[key]}" for key in (MICRO, STEPS) if key in held]
    product = " x ".join([*others, f"{ranks} ranks"]) + (f" = {step}" if others else "")
    if len(others) == 2:
        message, hint = f"is {total}, but {product}", f"set {step}, or remove it"
    else:
        message = f"{total} is not a multiple of {product}"
        near = [n for n in (total // step * step, -(-total // step) * step) if n]
        hint = "set " + " or ".join(map(str, near))
    message = f"{found.cite(TOTAL)}: {TOTAL[0]} {message}"
    yield TrainDiagnostic("J230", message, ("config",), hint)


def compare_batch(found: UserConfig, batch: Batch) -> Iterator[TrainDiagnostic]:
    """Keys of the file that do not set the batch of ``train``, in one fault."""
    held = _read(found)
    differing = [key for key, n in held.items() if n != getattr(batch, _FIELDS[key][1])]
    if not differing:
        return
    sets = join_words([f"{key[0]} {held[key]}" for key in held], "and")
    product = f"{batch.micro} x {batch.accumulation} x {batch.ranks} ranks = {batch.total}"
    message = f"{found.cite(differing[0])}: {found.name} sets {sets}, but train: sets the batch to "
    them = "it" if len(held) == 1 else "them"
    hints = [*_say_same(held, batch.ranks), f"remove {them} from {found.name}"]
    yield TrainDiagnostic("J230", message + product, ("config",), ", or ".join(hints))


def _say_same(held: Mapping[Path, Any], ranks: int) -> Iterator[str]:
    """``train`` with the batch of the file, if that comes out even."""
    if any(type(n) is not int or n < 1 for n in held.values()):
        return
    micro, steps, total = (held.get(key) for key in (MICRO, STEPS, TOTAL))
    if micro is None:
        micro = total // (ranks * (steps or 1)) if total else 1
    if steps is None:
        steps = total // (ranks * micro) if total and micro else 1
    batch = Batch(micro, steps, ranks)
    if micro and steps and total in {None, batch.total}:
        values = [f"{key}: {getattr(batch, field)}" for key, field in _FIELDS.values()]
        yield f"set {join_words(values, 'and')} under train:"


def _read(found: UserConfig) -> dict[Path, Any]:
    """The keys that are there and not "auto"."""
    values = {key: get(found.values, key) for key in _KEYS}
    return {key: value for key, value in values.items() if value not in (None, "auto")}
