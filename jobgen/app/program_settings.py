"""A setting that a diagnosis proposes, in the words of the program that has to have it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobgen.diagnose.program_framework import list_frame_files, recognize_framework

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jobgen.app.prepare import PreparedJob
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded

_SETTING = re.compile(r"--set train\.(\S+)=(\S+)")
_GENERAL = ("", "none", "torch")
"""Frameworks of the plan that leave open which options the program has."""
_CONFIGURED = "--deepspeed=FILE"
"""The option that names a configuration of DeepSpeed, which has the setting."""
_SUBCOMMAND = "(a subcommand, last on the command line)"
"""Where torchtitan's parser takes the kind of activation checkpointing."""
_LOSSES = {
    "fused": "a fused cross-entropy, such as Liger's,",
    "chunked": "one in chunks (ChunkedLossWrapper)",
}
_PHRASES = {
    "micro_batch": "the batch size per GPU to {}",
    "activation_checkpointing": "activation checkpointing to {}",
    "strategy": "the sharding to {}",
    "loss": "the loss to {}",
    "gradient_clipping": "gradient clipping to {}",
    "timeout": "the timeout of its process group to {}",
}
"""Key of ``train`` → what a program without options that are known has it as."""


def describe_setting(value: str, framework: str = "", job: Loaded[JobSpec] | None = None) -> str:
    """``train.timeout=2h`` as the program has it; empty for what jobgen alone does.

    A key that the job sets and jobgen passes goes before an option that ``run`` has, and that
    before a name of the framework.
    """
    section, dot, rest = value.partition(".")
    if section == "env":
        return rest
    if section != "train":
        return f"--{rest or value} for sbatch" if dot or value.startswith("mem=") else ""
    from jobgen.strategy.frameworks.torchtitan import RECOMPUTE
    from jobgen.strategy.setting_names import can_set, locate_settings, name_setting
    from jobgen.strategy.supported import get_small_loss

    key, _, word = rest.partition("=")
    if key == "loss":
        word = get_small_loss(framework) or ""
    if not word or not can_set(framework, key, word):
        return ""
    written = job and (
        _find_key(job, framework, key, word) or find_written(job, framework, key, word)
    )
    if written:
        return written
    name = name_setting(framework, key, word)
    if name.endswith(_CONFIGURED):
        name += f" ({name_setting('deepspeed', key, word)} in FILE)"
    where = _SUBCOMMAND if name.startswith(RECOMPUTE) else locate_settings(framework)
    return f"{name} {where}".rstrip() if name else _name_key(key, word, job)


def _find_key(job: Loaded[JobSpec], framework: str, key: str, word: str) -> str:
    """The key of ``train`` with the other value, and its place, if the job sets it and jobgen
    passes it to the program; else empty."""
    place = _name_place(job, key)
    return f"train.{key}: {word}, {place}" if place and _passes_train(job, framework) else ""


def _passes_train(job: Loaded[JobSpec], framework: str) -> bool:
    """Whether jobgen passes ``train`` to the program of a job."""
    from jobgen.strategy.frameworks import MODULES

    train = job.value.train
    return train is not None and framework == train.framework and framework in MODULES


def describe_batch(value: str, framework: str = "", job: Loaded[JobSpec] | None = None) -> str:
    """How the program of a framework keeps its batch with another micro-batch; empty for other
    settings, and where jobgen passes the batch."""
    from jobgen.strategy.setting_names import name_batch_option

    if not value.startswith("train.micro_batch=") or (job and _passes_train(job, framework)):
        return ""
    option = name_batch_option(framework)
    return f"keep the batch with {option}" if option else ""


def _name_place(job: Loaded[JobSpec], key: str) -> str:
    """The line at which the job sets a key of ``train``; empty if none does."""
    path = ("train", *key.split("."))
    place = job.find_place(*path) if path in {*job.places, *job.overrides} else None
    return f"{place.file}:{place.line}" if place and place.line else ""


def find_written(job: Loaded[JobSpec], framework: str, key: str, word: str) -> str:
    """The option of ``run`` that sets this key, with the other value and its place; empty if there
    is none."""
    from jobgen.resolve.arguments import find_option
    from jobgen.strategy.setting_names import name_setting

    for program, place in job.programs:
        row, option = find_option(program, framework, key) or (None, None)
        value = row.find_word(word) if row else ""
        if row is None or option is None or not value:
            continue
        name, equals, _ = option.flag.text.partition("=")
        together = name_setting(row.framework, key, word)  # with those that it needs beside it
        text = together if " --" in together else f"{name}{equals or ' '}{value}"
        return f"{text} in run" + (f", {place.file}:{place.line}" if place and place.line else "")
    return ""


def _name_key(key: str, word: str, job: Loaded[JobSpec] | None) -> str:
    """A setting in words, and where the job sets jobgen's key of it for its plan."""
    from jobgen.strategy.spec import TRAITS

    place = _name_place(job, key) if job else ""
    also = f", and train.{key} in {place}" if place else ""
    value = _LOSSES.get(word, word) if key == "loss" else word
    value = TRAITS[word].title if key == "strategy" and word in TRAITS else value
    phrase = _PHRASES.get(key, f"{key}={{}}").format(value)
    return f"{phrase} in the program{also}"


def find_framework(ready: PreparedJob, lines: Sequence[str]) -> str:
    """The framework that the job names, else the one of its program or of these log lines."""
    planned = _get_framework(ready)
    if planned not in _GENERAL:
        return planned
    return recognize_framework([*list_programs(ready.job), *list_frame_files(lines)])


def _get_framework(ready: PreparedJob) -> str:
    """The framework of the plan; empty if it has none."""
    planned = ready.plan.other.get("framework")
    return str(planned.value) if planned is not None else ""


def is_other(framework: str | None, shown: str) -> bool:
    """Whether a job's framework is known and is not that which its log shows."""
    return bool(shown) and framework not in (None, *_GENERAL, shown)


def list_programs(job: Loaded[JobSpec]) -> Iterator[str]:
    """The Python files that a job starts."""
    for program, _ in job.programs:
        yield from [program.script] if program.script else []
        yield from [f"{program.module.replace('.', '/')}.py"] if program.module else []
    if job.value.launcher.type == "axolotl":
        yield "axolotl/cli/train.py"


def name_passed(settings: Iterable[str], ready: PreparedJob) -> str:
    """The options by which jobgen passes these settings to the program; empty if it passes none."""
    scripts = _join_scripts(ready)
    names = list(_name_options(settings, ready))
    return " ".join(n for n in names if n and re.split("[= ]", n)[0].encode() in scripts)


def is_set(setting: str, ready: PreparedJob) -> bool:
    """Whether the job has this variable, passes this option to its program, or has a monitor: what
    that shows is there, and another period shows no more."""
    if setting.startswith("monitor="):
        return ready.plan.monitor is not None
    section, _, rest = setting.partition(".")
    name, _, value = rest.partition("=")
    if section == "env":
        return ready.job.value.env.get(name) == value
    option = next(_name_options([setting], ready))
    pattern = rb"(?<![\w-])" + re.escape(option.encode()) + rb"(?![\w.-])"
    return bool(option) and re.search(pattern, _join_scripts(ready)) is not None


def is_of_program(setting: str, ready: PreparedJob) -> bool:
    """Whether the program alone has a setting of ``train``: a loss that jobgen does not pass, or an
    option that stands in ``run``."""
    section, _, rest = setting.partition(".")
    key, _, word = rest.partition("=")
    if section != "train":
        return False
    if key == "loss" and not name_passed([setting], ready):
        return True
    return bool(find_written(ready.job, _get_framework(ready), key, word))


def _join_scripts(ready: PreparedJob) -> bytes:
    return b"".join(file.content for file in ready.bundle.files if file.path.endswith(".sh"))


def _name_options(settings: Iterable[str], ready: PreparedJob) -> Iterator[str]:
    """What the job's framework calls each setting; empty if it has no option for it."""
    from jobgen.strategy.setting_names import name_setting

    framework = _get_framework(ready)
    for setting in settings:
        key, _, word = setting.removeprefix("train.").partition("=")
        yield name_setting(framework, key, word) if setting.startswith("train.") else ""


def list_names(fixes: str) -> list[tuple[str, str]]:
    """Framework → what its programs call the settings of ``train`` that these commands change."""
    from jobgen.strategy.setting_names import FRAMEWORKS, locate_settings, name_setting

    settings = _SETTING.findall(fixes)
    rows = []
    for framework in FRAMEWORKS:
        names = [name_setting(framework, key, value) for key, value in settings]
        text = ", ".join(name for name in names if name)
        rows += [(framework, f"{text} {locate_settings(framework)}".rstrip())] if text else []
    return rows
