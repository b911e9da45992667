"""What of ``train`` is counted in the plan, but not passed on to the program that trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.model.decision import PlanCheck
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.unread import UNREAD

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy import Note, Strategy

_CHOSEN = ("activation_checkpointing", "offload", "tp", "pp", "ep")
"""Keys that ``auto`` chooses beside the strategy."""


class _Unpassed(NamedTuple):
    """A key that a framework's program is not told, and what it does instead."""

    instead: str
    hint: str


_LORA = {
    "megatron": _Unpassed(
        "Megatron-LM has no adapters, so that pretrain_gpt.py trains all parameters",
        "remove lora, or set framework: hf-trainer",
    ),
    "torchtitan": _Unpassed(
        "torchtitan trains all parameters unless the function of --config has a LoRAConverter",
        "remove lora, or name a --config that has one",
    ),
}
"""Megatron-LM core 0.16.1, megatron/training/arguments.py; torchtitan 0.3, components/lora.py."""
_OPTIMIZER = {
    "megatron": _Unpassed(
        "Megatron-LM uses adam unless run: has --optimizer",
        "add --optimizer to run:",
    ),
    "torchtitan": _Unpassed(
        "torchtitan uses the optimizer of --config, AdamW by default",
        "name a --config that has it",
    ),
    "hf-trainer": _Unpassed(
        "the Trainer has no such --optim, and uses AdamW unless the program gives it another",
        "",
    ),
}
"""What each does, and how it is given an optimizer that it has (``supported.OPTIMIZERS``)."""
_LOSS = {
    "megatron": _Unpassed("Megatron-LM computes the loss from all logits, in place", "remove loss"),
    "torchtitan": _Unpassed("torchtitan has a chunked loss and no fused one", "set loss: chunked"),
    "hf-trainer": _Unpassed(
        "the Trainer has an option for a fused loss only",
        "set loss: fused, or compute it so in the program",
    ),
}
"""Frameworks that lack some kinds of loss (``supported.get_small_loss``)."""
_COMPILED = {
    "megatron": _Unpassed("Megatron-LM compiles single functions and no layers", "remove compiled"),
}
"""Megatron-LM core 0.16.1, core/jit.py (``jit_fuser``)."""
_PASSED_LOSSES = {"hf-trainer": ("fused",), "torchtitan": ("chunked", "compiled")}
"""Framework → kinds of loss that an option or a configuration of it has."""
_COMPILES = ("hf-trainer", "torchtitan")
"""Frameworks that have an option which compiles the layers."""
_LOSS_WORDS = {
    "compiled": "compile it with torch.compile",
    "chunked": "compute it in chunks",
    "fused": "compute it with Liger or cut cross entropy",
}
"""What a program does that computes its loss itself."""
_MASTER = {
    "Megatron-LM": "remove pure",
    "DeepSpeed": "remove pure, or set train.config to a configuration that keeps no such copy",
}
"""Program that keeps an fp32 copy of 16-bit parameters → what to do instead."""


def check_passed(look: Inputs, decided: Strategy, words: tuple[str, ...]) -> Iterator[PlanCheck]:
    """A warning for each key that only the plan obeys. ``words`` are those of run."""
    train = look.job.train
    if train is None:
        return
    for key, value, found in _list_unpassed(train, decided, words):
        message = f"train.{key}{value} is only counted in the plan: {found.instead}"
        yield PlanCheck("warn", message, UNREAD, found.hint, look.spec.find_place("train", key))


def _list_unpassed(
    train: Train, decided: Strategy, words: tuple[str, ...]
) -> Iterator[tuple[str, str, _Unpassed]]:
    from jobgen.strategy.frameworks.program_options import has_option, read_values
    from jobgen.strategy.supported import has_optimizer

    framework = decided.framework
    config = (read_values(words).get("--config") or "").lower()
    if train.lora is not None and "lora" not in config and framework in _LORA:
        yield "lora", "", _LORA[framework]
    passed = has_option(words, "--optimizer", "--optim") or decided.optimizer in config
    passed |= framework == "hf-trainer" and has_optimizer(framework, decided.optimizer)
    if decided.optimizer != "adamw" and not passed and framework in _OPTIMIZER:
        yield "optimizer", f": {decided.optimizer}", _explain_optimizer(framework, decided)
    lossless = decided.loss not in ("plain", *_PASSED_LOSSES.get(framework, ()))
    if lossless and framework in _LOSS:
        yield "loss", f": {decided.loss}", _LOSS[framework]
    if decided.compiled and framework in _COMPILED:
        yield "compiled", "", _COMPILED[framework]
    if decided.pure and (program := _name_master(decided)):
        yield (
            "pure",
            "",
            _Unpassed(f"{program} keeps an fp32 copy of the parameters", _MASTER[program]),
        )


def _explain_optimizer(framework: str, decided: Strategy) -> _Unpassed:
    """What the framework does instead, and what to do: nothing passes one that it lacks."""
    from jobgen.strategy.supported import OPTIMIZERS, has_optimizer
    from jobgen.wording import join_words

    found = _OPTIMIZER[framework]
    if has_optimizer(framework, decided.optimizer):
        return found._replace(hint=f"remove optimizer, or {found.hint}")
    names = join_words(OPTIMIZERS[framework], "or")
    return found._replace(hint=f"remove optimizer, or set it to {names}")


def _name_master(decided: Strategy) -> str:
    """The program that keeps fp32 parameters beside those of 16 bits; empty where none does."""
    if decided.framework == "megatron":
        return "Megatron-LM"
    zero = decided.trait.family == "zero" and decided.framework != "none"
    return "DeepSpeed" if zero and decided.config is None else ""


def note_set_by_hand(look: Inputs, decided: Strategy, train: Train) -> Iterator[Note]:
    """A strategy that ``--set`` names, as ``plan`` proposes it, and that nothing applies."""
    from jobgen.strategy import Note

    place = look.spec.find_place("train", "strategy")
    if (
        decided.framework == "none"
        and place
        and place.kind == "option"
        and train.strategy.type != "auto"
    ):
        message = (
            f"{place} is for the planner alone: with framework: none jobgen passes nothing on, and "
            f"the program must apply {decided.trait.title} itself"
        )
        yield Note(message, ("train", "strategy"))


def note_computing(decided: Strategy) -> Iterator[Note]:
    """What of the loss and of compiled layers the program must do, as no option passes it."""
    from jobgen.strategy import Note

    framework = decided.framework
    if decided.loss == "chunked" and framework == "torchtitan":
        message = "train.loss: chunked needs a ChunkedLossWrapper in the function of --config"
        yield Note(message, ("train", "loss"))
    elif decided.loss in _LOSS_WORDS and framework not in _LOSS:
        message = f"train.loss: {decided.loss} is only counted in the plan; the program must "
        yield Note(message + _LOSS_WORDS[decided.loss], ("train", "loss"))
    if decided.compiled and framework not in (*_COMPILED, *_COMPILES):
        message = "train.compiled is only counted in the plan; the program must call torch.compile"
        yield Note(message, ("train", "compiled"))


def note_unapplied(asked: Train, decided: Strategy, train: Train) -> Iterator[Note]:
    """What ``auto`` chose that nothing applies, because there is no framework to be told."""
    from jobgen.strategy import Note

    if asked.strategy.type != "auto" or decided.framework != "none":
        return
    values = {
        key: getattr(train, key) for key in _CHOSEN if getattr(train, key) != getattr(asked, key)
    }
    chosen = [decided.trait.title] if train.strategy.type != "ddp" else []
    chosen += [f"{key} {getattr(value, 'what', value)}" for key, value in values.items()]
    if chosen:
        message = (
            f"strategy: auto chose {', '.join(chosen)}; with framework: none jobgen passes nothing "
            "on, and the program must apply it itself "
            f"(framework: {decided.trait.frameworks[0]} writes it into a file)"
        )
        yield Note(message, ("train", "strategy"))
