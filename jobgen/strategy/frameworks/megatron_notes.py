"""What of a model stays with Megatron-LM's defaults or with run, and what run must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jobgen.strategy.frameworks import FrameworkRequest
from jobgen.strategy.frameworks.megatron_model import find_builder
from jobgen.strategy.frameworks.program_options import has_option, read_values
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.spec import Note
from jobgen.wording import join_words

_MODEL = ("train", "model")
_UNCOUNTED = ("--mtp-num-layers", "--moe-latent-size")
"""Arguments for parameters that no model of the planner has."""
_DEFAULTS = {
    "--rotary-base": "10000",
    "--norm-epsilon": "1e-05",
    "--hidden-dropout": "0.1",
    "--attention-dropout": "0.1",
    "--moe-aux-loss-coeff": "0.0",
}
"""What no size of the model says, with Megatron-LM's value."""
_OTHERS = {
    "--rotary-base": "500000",
    "--norm-epsilon": "1e-06",
    "--hidden-dropout": "0.0",
    "--attention-dropout": "0.0",
    "--moe-aux-loss-coeff": "0.01",
}
"""Values that published models have instead, as examples: Llama 3's base, Qwen3's epsilon."""


def list_notes(request: FrameworkRequest) -> Iterator[Note]:
    """What of the model stays with Megatron-LM or with run."""
    arch, words, name = request.model, request.run_args, request.strategy.sizes.name
    builder = find_builder(words)
    if builder and (arch or name):
        message = (
            f"run: has {builder}: the program builds its own model, the estimates are for "
            "train.model"
        )
        yield Note(message, ("run",))
    elif arch is None and name:
        yield Note(
            f"{name} is not passed on, because its exact sizes are unknown: pass "
            "Megatron-LM's model arguments in run:",
            _MODEL,
        )
    elif arch is not None:
        left = dict(_list_defaults(arch, words))
        if left:
            names = ", ".join(f"{option} {value}" for option, value in left.items())
            message = f"not set by train.model, so Megatron-LM's defaults apply: {names}"
            yield Note(message, _MODEL, hint=_name_values(arch, left))
        for option in (name for name in read_values(words) if name in _UNCOUNTED):
            message = f"run: has {option}; the estimates do not count its parameters"
            yield Note(message, ("run",))


def list_requirements(request: FrameworkRequest) -> Iterator[Note]:
    """What run must have for the program to start."""
    words = request.run_args
    if words and not find_builder(words) and not has_option(words, "--tokenizer-type"):
        hint = "pass --tokenizer-type in run:"
        yield Note("Megatron-LM stops without a tokenizer", ("run",), "warning", hint)


def _name_values(arch: Architecture, left: Mapping[str, str]) -> str:
    """What to add to run: the model's values as far as they are known, else an example."""
    dropped = {
        "--hidden-dropout": arch.hidden_dropout,
        "--attention-dropout": arch.attention_dropout,
    }
    without = [f"{option} 0.0" for option in left if arch.name and dropped.get(option) is False]
    if without:
        others = [option for option in left if f"{option} 0.0" not in without]
        also = f", and {join_words(others, 'and')} if it has other values" if others else ""
        return f"{arch.name} has no dropout: add {' '.join(without)} to run:{also}"
    other = next(f"{option} {_OTHERS[option]}" for option in left)
    return f"if your model has others, add them to run:, such as {other}"


def _list_defaults(arch: Architecture, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    passed = {
        "--rotary-base": bool(arch.positions) or arch.rotary_base is not None,
        "--norm-epsilon": arch.norm_epsilon is not None,
        "--moe-aux-loss-coeff": arch.balance_loss is not None,
    }
    for option, value in _DEFAULTS.items():
        has_none = "moe" in option and not arch.experts
        if not (passed.get(option) or has_none or has_option(words, option)):
            yield option, value


def drops_out(words: Sequence[str]) -> bool:
    """Whether a program with these words drops out what layers return, as it does by default."""
    rate = read_values(words).get("--hidden-dropout") or _DEFAULTS["--hidden-dropout"]
    try:
        return float(rate) > 0
    except ValueError:
        return True
