"""Arguments in ``run:`` that say something else than ``train:``, or than what the plan assumes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

from jobgen.data import RunArgument, run_arguments
from jobgen.errors import Place
from jobgen.launch.distributed import forms_group
from jobgen.model.decision import PlanCheck
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.inputs import Inputs
from jobgen.shell.python_command import read_long_options
from jobgen.wording import format_value

if TYPE_CHECKING:
    from jobgen.model.loaded import PlacedProgram
    from jobgen.model.train import Train
    from jobgen.shell import Word
    from jobgen.shell.lexer import ShellWord
    from jobgen.shell.started_program import StartedProgram
    from jobgen.strategy import Strategy

CONTRADICTION = "J255"
FILE = "ds_config"
"""The framework of rows that are keys of DeepSpeed's configuration."""
_PASSED = ("precision", "strategy", "activation_checkpointing", "offload", "tp", "pp", "cp", "ep")
"""Keys whose value is decided, and handed over, also where the job does not write them."""
_TITLES = {"hf-trainer": "the Trainer", "megatron": "Megatron-LM"}
_YES, _NO = {"true", "1", "yes", "y", "t"}, {"false", "0", "no", "n", "f"}


class PlannedArguments(NamedTuple):
    """What the plan is made for."""

    train: Train
    strategy: Strategy
    args: tuple[Word, ...]
    """What is added behind the program's own words."""
    length: int | None
    """Tokens of a sequence that the estimate is made for; None where nothing is estimated."""


class FoundArgument(NamedTuple):
    """An argument of a program that is a key of ``train``."""

    row: RunArgument
    text: str
    """As it is written: ``--bf16 true``, ``ds.json:4: bf16.enabled true``."""
    values: tuple[str, ...]
    """What the key of ``train`` would have to be, the nearest first."""
    place: Place | None


class ArgumentDifference(NamedTuple):
    """An argument that differs."""

    option: str
    """Its name, as ``run:`` has it."""
    check: PlanCheck


def check_arguments(
    look: Inputs, launcher: str, planned: PlannedArguments
) -> Iterator[ArgumentDifference]:
    """A warning for each argument that differs; a failed check where the program would stop."""
    expected = _list_expected(planned)
    seen = set()
    for program in look.spec.programs:
        if program.program.launcher is None and not forms_group(program.program, launcher):
            continue
        for found in read_arguments(look, program, planned.strategy.framework):
            value = expected.get(found.row.key)
            if value is None or _agree(found.values, value) or found.text in seen:
                continue
            if (check := _judge(look, found, value, planned)) is not None:
                seen.add(found.text)
                yield ArgumentDifference(found.text.split()[0], check)


def _list_expected(planned: PlannedArguments) -> Mapping[str, str | None]:
    """Key of ``train`` → the value that the plan is made for; None where there is none."""
    from jobgen.strategy.batch import assume_batch
    from jobgen.strategy.dsconfig.user_config import read_batch

    train, strategy = planned.train, planned.strategy
    mesh, clipping = strategy.mesh, strategy.clipping
    known = read_batch(strategy.config, strategy.config_name) if strategy.config else None
    batch = strategy.batch or assume_batch(strategy.framework, mesh.data, known)
    length = strategy.seq_len or planned.length
    limit = None if clipping is None else f"{clipping:g}"
    return {
        "micro_batch": str(batch.micro),
        "gradient_accumulation": str(batch.accumulation),
        "global_batch": str(batch.total),
        "seq_len": str(length) if length else None,
        "precision": strategy.precision,
        "strategy": strategy.name,
        "gradient_clipping": limit,
        "activation_checkpointing": strategy.recompute,
        "offload": train.offload.what,
        "optimizer": train.optimizer,
        "loss": train.loss,
        "compiled": str(train.compiled).lower(),
        "fp8": str(bool(train.fp8)).lower(),
        **{axis: str(getattr(mesh, axis)) for axis in ("tp", "pp", "cp", "ep")},
        "etp": str(mesh.expert_tp),
    }


# ---- reading


def read_arguments(look: Inputs, placed: PlacedProgram, framework: str) -> Iterator[FoundArgument]:
    """The arguments of a program that the table knows, and the keys of files that they name."""
    table = _table(framework)
    for option in read_options(placed.program):
        value, place = option.value, locate_word(look, placed, option.flag)
        name = option.flag.text.partition("=")[0]
        for row in table.get(option.name, ()):
            if row.is_file:
                yield from _read_file(look, value, place)
            elif not option.expands and (values := _translate(row, value)):
                shown = f"{name} {value}".rstrip()
                yield FoundArgument(row, shown if _takes(row, value) else name, values, place)


class ParsedOption(NamedTuple):
    """An option of a program, with its value."""

    name: str
    """As :func:`plain_name` spells it."""
    value: str
    """Empty where none follows."""
    expands: bool
    """Whether the shell puts something into it."""
    flag: ShellWord
    holder: ShellWord
    """The word that holds the value, which may be the flag itself."""


def read_options(program: StartedProgram) -> Iterator[ParsedOption]:
    """The options of a program."""
    words = program.words
    for name, value, at, value_at in read_long_options([word.text for word in words]):
        flag, holder = words[at], words[value_at]
        expands = flag.expands or holder.expands
        yield ParsedOption(normalize_option(name), value or "", expands, flag, holder)


def find_option(
    program: StartedProgram, framework: str, key: str
) -> tuple[RunArgument, ParsedOption] | None:
    """The last option of a program for a key of ``train``, which wins; None if it has none."""
    table = _table(framework)
    known = [(row, o) for o in read_options(program) for row in table.get(o.name, ())]
    return next(((row, option) for row, option in known[::-1] if row.key == key), None)


@cache
def _table(framework: str) -> Mapping[str, tuple[RunArgument, ...]]:
    """Plain name → rows, one a key: of the framework, and the distinct names of the others."""
    rows = [row for row in run_arguments() if row.framework != FILE]
    others = {normalize_option(row.name): (row,) for row in rows if row.distinct or row.is_file}
    own: dict[str, tuple[RunArgument, ...]] = {}
    for row in rows:
        if row.framework == framework:
            name = normalize_option(row.name)
            own[name] = (*own.get(name, ()), row)
    return others | own


def normalize_option(name: str) -> str:
    """The name of an option without its dashes, in one spelling."""
    return name.lstrip("-").replace("_", "-")


def is_yes(value: str | None) -> bool:
    """Whether a flag with this value is on; a flag alone is."""
    return value is None or value.strip("'\"").lower() in _YES


def _is_flag(row: RunArgument) -> bool:
    return "true" in row.values


def _takes(row: RunArgument, value: str) -> bool:
    """Whether this is the argument's value, and no word behind a flag."""
    return not _is_flag(row) or value.lower() in _YES | _NO


def _translate(row: RunArgument, value: str) -> tuple[str, ...]:
    """The key's values that an argument's value stands for; nothing where it is not known."""
    if not row.values:
        return (value,) if _number(value) is not None else ()
    if _is_flag(row):
        value = "false" if value.lower() in _NO else "true"
    return next((row.values[word] for word in value.split() if word in row.values), ())


def _read_file(look: Inputs, name: str, place: Place | None) -> Iterator[FoundArgument]:
    """What a DeepSpeed configuration says that ``run:`` names and the workdir holds."""
    from jobgen.strategy.dsconfig import user_config
    from jobgen.strategy.dsconfig.chosen import get

    train = look.job.train
    text = (look.facts.sources or {}).get(name.removeprefix("./"))
    if text is None or (train is not None and train.config == name.removeprefix("./")):
        return
    read, faults = user_config.read(text.encode("utf-8", "replace"), name)
    for row in run_arguments() if not faults else ():
        path = tuple(row.name.split("."))
        value = get(read.values, path) if row.framework == FILE else None
        if value is None or value == "auto" or value is False:
            continue
        word = format_value(value)
        if values := _translate(row, word):
            yield FoundArgument(row, f"{read.cite(path)}: {row.name} {word}", values, place)


def _number(text: str) -> float | None:
    if not re.fullmatch(r"[0-9_]{1,15}(\.[0-9]{0,15})?([eE][-+]?[0-9]{1,3})?", text):
        return None
    return float(text.replace("_", "")) if text.strip("_.") else None


def _agree(values: Sequence[str], expected: str) -> bool:
    wanted = _number(expected)
    return any(v == expected or (wanted is not None and _number(v) == wanted) for v in values)


def locate_word(look: Inputs, placed: PlacedProgram, word: ShellWord) -> Place | None:
    """The place of a word of ``run:``, seen from that of its program."""
    program, place, run = placed.program, placed.place, look.job.run
    if place is None or not place.line or run[word.start : word.end] != word.raw:
        return place
    if place.end_col:
        start = place.col + word.start - program.start
        return place._replace(col=start, end_col=start + word.end - word.start)
    lines = run.count("\n", 0, word.start) - run.count("\n", 0, program.start)
    return place._replace(line=place.line + lines)


# ---- judging


def _judge(
    look: Inputs, found: FoundArgument, value: str, planned: PlannedArguments
) -> PlanCheck | None:
    """What to say of an argument that differs; None where the plan does not depend on it."""
    key, write = found.row.key, found.values[0]
    written = look.has_written("train", key)
    derived = key in {"micro_batch", "gradient_accumulation"} and look.has_written(
        "train", "global_batch"
    )
    names = {normalize_option(str(word).partition("=")[0]) for word in planned.args}
    wins = normalize_option(found.row.name) in names
    passed = key in _PASSED and planned.strategy.framework != "none"
    if not (written or derived or wins or passed or planned.length is not None):
        return None
    status: Literal["warn", "fail"] = "warn"
    said = f"run: {clip(found.text, 120)}, but "
    if rival := _rival(found, planned, names):
        title = _TITLES.get(planned.strategy.framework, planned.strategy.framework)
        said += f"train: passes --{rival}, and {title} rejects the two together"
        status = "fail"
    elif written:
        said += f"train.{key} is {value}"
    elif derived:
        said += f"train.global_batch sets {key} to {value}"
    elif wins or passed:
        said += _name_origin(look, key, value)
    else:
        said += f"the plan assumes {key}: {value}"
    if wins:
        said += "; options from train: come last and win"
    is_set = derived or look.spec.find_place("train", key).kind == "option"
    hint = _advise_run(found, value) if is_set else f"set {key}: {write} under train:"
    return PlanCheck(status, said, CONTRADICTION, hint, found.place)


def _name_origin(look: Inputs, key: str, value: str) -> str:
    """Where the value of a key comes from that the job does not write."""
    from jobgen.strategy.choice.setups import VARIED

    train = look.job.train
    if train is not None and train.strategy.type == "auto" and key in VARIED:
        return f"strategy: auto sets {key} to {value}"
    return f"train: leaves {key} at its default, {value}"


def _advise_run(found: FoundArgument, value: str) -> str:
    """What to change in ``run:`` so that an argument has this value of its key."""
    row = found.row
    name, _, _ = found.text.partition(" ")
    if row.framework == FILE:
        return f"set {row.name} to {row.find_word(value)} in {name.partition(':')[0]}"
    word = row.find_word(value)
    if not word:
        return f"remove {name} from run:"
    return f"set {name} {word} in run:"


def _rival(found: FoundArgument, planned: PlannedArguments, names: set[str]) -> str:
    """The flag of train: that excludes this one: neither takes the other back."""
    row = found.row
    if row.key != "precision" or not _is_flag(row):
        return ""
    table = (r for r in run_arguments() if r.framework == planned.strategy.framework)
    others = (r.name for r in table if r.key == row.key and r.name != row.name and _is_flag(r))
    return next((name for name in others if normalize_option(name) in names), "")
