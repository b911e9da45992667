"""FSDP and DeepSpeed in one training of the Trainer, which refuses both at its start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from jobgen.model.decision import PlanCheck
from jobgen.resolve.arguments import CONTRADICTION, locate_word, normalize_option, read_options
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.shell import Word

_BOTH = ("fsdp", "deepspeed")
_OFF = {"", "false", "0", "no", "none"}
_TRAINER = ("transformers", "trl")
"""Packages whose programs have the Trainer's arguments."""


def check_sharding(look: Inputs, framework: str, args: Sequence[Word]) -> Iterator[PlanCheck]:
    """A failed check where both are asked for; a warning if it may be another program."""
    status = _judge(look, framework)
    if status is None:
        return
    passed = {normalize_option(str(arg).partition("=")[0]) for arg in args}
    for placed in look.spec.programs:
        known = (option for option in read_options(placed.program) if not option.expands)
        own = {option.name: option.flag for option in known if option.value.lower() not in _OFF}
        for name, other in (_BOTH, _BOTH[::-1]):
            if name not in own or other not in {*own, *passed}:
                continue
            said = f"train: passes --{other}" if other in passed else "run: has both"
            message = f"the Trainer rejects --fsdp together with --deepspeed: {said}"
            hint = f"remove --{name} from run:"
            if other not in passed:
                hint = "keep one of the two"
            place = locate_word(look, placed, own[name])
            yield PlanCheck(status, message, CONTRADICTION, hint, place)
            break


def _judge(look: Inputs, framework: str) -> Literal["warn", "fail"] | None:
    """How certain it is that the program is one of the Trainer."""
    if framework:
        return "fail" if framework == "hf-trainer" else None
    sources = look.facts.sources
    if not sources or not any(path.endswith(".py") for path in sources):
        return "warn"
    uses = any(package in text for text in sources.values() for package in _TRAINER)
    return "fail" if uses else None
