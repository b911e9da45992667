"""What was decided of a strategy, in words: the rows of ``plan --section decisions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.model.decision import cite_rule
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.wording import format_value

if TYPE_CHECKING:
    from jobgen.strategy import Strategy

NAME = "train"


def tell_decisions(look: Inputs, decided: Strategy, sized: Sized, why: str) -> None:
    """Keep every decision, with its why, for ``plan``."""
    for key, value, plain, path in _decisions(decided):
        reason = why if why and key == "strategy" else plain
        place = (
            look.cite_job(NAME, *path) if (NAME, *path) in look.spec.places else cite_rule("train")
        )
        sized.decide(key, value, reason, place)


def _decisions(decided: Strategy) -> list[tuple[str, str, str, tuple[str, ...]]]:
    mesh, batch = decided.mesh, decided.batch
    axes = "".join(f", {axis} {count}" for axis, count in mesh.list_degrees())
    rows: list[tuple[str, str, str, tuple[str, ...]]] = [
        ("strategy", decided.trait.title, _SHARDED[decided.trait.stage], ("strategy",)),
        ("framework", decided.framework, "format of the generated configuration", ("framework",)),
        ("mesh", f"data {mesh.data}{axes}", _copies(decided), ("dp",)),
        ("precision", decided.precision, _PRECISION[decided.precision], ("precision",)),
    ]
    if batch:
        product = f"micro {batch.micro} x accumulation {batch.accumulation} x {batch.ranks} ranks"
        rows.append(("global_batch", str(batch.total), product, ("global_batch",)))
    if decided.recompute != "none":
        why = "recompute activations instead of storing them"
        rows.append(
            ("activation_checkpointing", decided.recompute, why, ("activation_checkpointing",))
        )
    if decided.offload:
        kept = " and ".join(n for n in ("optimizer", "params") if getattr(decided.offload, n))
        rows.append(
            ("offload", decided.offload.to, f"{kept} moved out of GPU memory", ("offload",))
        )
    return [*rows, *_changed_settings(decided)]


def _changed_settings(decided: Strategy) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """The settings of the strategy and of the optimizer that the job changes."""
    asked = decided.settings
    for name, form_key in asked.keys.items():
        value = getattr(asked, name)
        if name not in {"type", "shard"} and value != form_key.default:
            yield name, format_value(value), _SETTING, ("strategy", name)
    if decided.min_params is not None:
        why = "FSDP shards modules of at least so many parameters as units of their own"
        yield "wrap", f"{decided.min_params} parameters", why, ("wrap", "min_params")
    if decided.timeout is not None:
        why = "longest wait of a collective before the job is stopped"
        yield "timeout", f"{decided.timeout} s", why, ("timeout",)
    if decided.fused is not None:
        yield "fused", format_value(decided.fused), "implementation of the optimizer", ("fused",)


_SETTING = "setting of the strategy"


def _copies(decided: Strategy) -> str:
    """How many copies of the parameters there are, and what is divided among them."""
    mesh = decided.mesh
    apart = decided.trait.stage == 3 or decided.trait.family == "fsdp"
    count = mesh.replicate if apart else mesh.data
    said = f"{count} cop{'y' if count == 1 else 'ies'} of the model"
    if mesh.shard == 1:
        return said
    return (
        f"{said}, each sharded over {mesh.shard} ranks" if apart else f"{said}, with sharded states"
    )


_SHARDED = {
    0: "every rank holds parameters, gradients and optimizer state",
    1: "optimizer state is sharded",
    2: "gradients and optimizer state are sharded",
    3: "parameters, gradients and optimizer state are sharded",
}
_PRECISION = {
    "fp32": "everything in fp32",
    "bf16": "compute in bf16, optimizer in fp32",
    "fp16": "compute in fp16 with loss scaling, optimizer in fp32",
}
