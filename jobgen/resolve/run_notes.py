"""Notes on options in ``run:`` that a plan does not follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.resolve.arguments import is_yes, normalize_option

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.shell import Word
    from jobgen.strategy import Note, Strategy
    from jobgen.strategy.shapes import Architecture


def note_repeated(
    words: tuple[str, ...], args: tuple[Word, ...], reported: set[str]
) -> Iterator[Note]:
    """The options that run has too, with other values: of two alike, programs take the last. Those
    that recompute layers are compared with the strategy, which may do so itself."""
    from jobgen.strategy import Note
    from jobgen.strategy.frameworks.hf_trainer import RECOMPUTES
    from jobgen.strategy.frameworks.program_options import read_values

    reported = {*reported, *RECOMPUTES}
    own, added = read_values(words), read_values([str(arg) for arg in args])
    both = [
        f"{name} {_plain(own[name])} (train: {_plain(added[name])})"
        for name in added
        if name in own and name not in reported and not _is_same(own[name], added[name])
    ]
    if both:
        message = f"run: also sets {', '.join(both)}; options from train: come last and win"
        yield Note(message, ("run",))


def _is_same(one: str | None, other: str | None) -> bool:
    """Whether a program reads two values alike: case makes no difference to a flag's."""
    return _plain(one) == _plain(other) or (is_yes(one) and is_yes(other))


def _plain(value: str | None) -> str:
    """A value without quotes; a flag alone is true."""
    return (value or "true").strip("'\"")


_MODEL_OPTIONS = ("--model_name_or_path", "--model-name-or-path", "--model_name", "--model")


def note_other_model(words: tuple[str, ...], arch: Architecture | None) -> Iterator[Note]:
    """A model of the catalogue that run names, if its parameters are not those of train.model."""
    from jobgen.strategy import Note
    from jobgen.strategy.frameworks.program_options import read_values
    from jobgen.strategy.shapes import build_model, find_model

    own = read_values(words)
    for option in _MODEL_OPTIONS:
        other = find_model(own.get(option) or "")
        if other and arch and arch.vocab and build_model(other).count != build_model(arch).count:
            message = (
                f"run: has {option} {own[option]}, but train.model has other sizes: the estimates "
                "are for train.model"
            )
            yield Note(message, ("run",), "warning", f"set train.model to {own[option]}")


def note_batch_search(words: tuple[str, ...], decided: Strategy) -> Iterator[Note]:
    """The Trainer's own search for a batch that fits, which no plan can follow (transformers 5.23,
    training_args.py, ``auto_find_batch_size``)."""
    from jobgen.strategy import Note
    from jobgen.strategy.frameworks.program_options import read_values

    value = read_values(words).get("--auto_find_batch_size", "false")
    if decided.framework == "hf-trainer" and _plain(value).lower() == "true":
        message = (
            "run: --auto_find_batch_size lowers the batch size after an out-of-memory error; "
            "the plan is for the first size"
        )
        hint = "to plan for a smaller one, set micro_batch under train:"
        yield Note(message, ("run",), hint=hint)


_ADAPTERS = {
    "--use_peft": "set lora: 16 under train:",
    "--load_in_4bit": "set lora: {rank: 16, bits: 4} under train:",
    "--load_in_8bit": "set lora: {rank: 16, bits: 8} under train:",
}
"""Options of trl's ModelConfig for adapters and quantized weights → the key that counts them."""


def note_uncounted(words: tuple[str, ...], train: Train, decided: Strategy) -> Iterator[Note]:
    """Options of the Trainer's programs that change the memory, and that the plan does not
    count."""
    from jobgen.data import run_arguments
    from jobgen.strategy import Note
    from jobgen.strategy.frameworks.program_options import read_values

    if decided.framework != "hf-trainer":
        return
    own = {normalize_option(name): value for name, value in read_values(words).items()}
    if _plain(own.get("attn-implementation")) == "eager":
        message = (
            "run: --attn_implementation eager keeps the attention scores in memory, but the plan "
            "assumes FlashAttention or SDPA"
        )
        yield Note(message, ("run",), "warning", "set --attn_implementation sdpa in run:")
    known = {word for row in run_arguments() if row.name == "optim" for word in row.values}
    optimizer = _plain(own.get("optim", train.optimizer))
    if "optim" in own and "$" not in optimizer and optimizer not in known:
        message = f"run: --optim {optimizer} is not counted; the plan is for {train.optimizer}"
        yield Note(message, ("run",), "warning")
    for option, hint in _ADAPTERS.items() if train.lora is None else ():
        name = normalize_option(option)
        if name in own and is_yes(own[name]):
            yield Note(f"run: {option} is not counted in the plan", ("run",), "warning", hint)
