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


def describe_setting(value: str, framework: str = "", job: Loaded[JobSpec] | None = None) -> str:
    """``train.timeout=2h`` as the program has it; empty for what jobgen alone does.

    An option that ``run`` has goes before a name of the framework, and that before jobgen's own.
    """
    section, dot, rest = value.partition(".")
    if section == "env":
        return rest
    if section != "train":
        return f"--{rest or value} for sbatch" if dot or value.startswith("mem=") else ""
    from jobgen.strategy.setting_names import can_set, locate_settings, name_setting

    key, _, word = rest.partition("=")
    if not can_set(framework, key, word):
        return ""
    if job and (written := _find_written(job, framework, key, word)):
        return written
    name = name_setting(framework, key, word)
    return f"{name} {locate_settings(framework)}".rstrip() if name else _name_key(rest, job)


def _find_written(job: Loaded[JobSpec], framework: str, key: str, word: str) -> str:
    """The option of ``run`` that sets this key, with the other value and its place."""
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


def _name_key(setting: str, job: Loaded[JobSpec] | None) -> str:
    """jobgen's key, and where the job sets it for its plan."""
    key = setting.partition("=")[0].split(".")
    path = ("train", *key)
    place = job.find_place(*path) if job and path in {*job.places, *job.overrides} else None
    also = (
        f", and train.{'.'.join(key)} in {place.file}:{place.line}" if place and place.line else ""
    )
    return f"{setting} in the program{also}"


def find_framework(ready: PreparedJob, lines: Sequence[str]) -> str:
    """The framework that the job names, else the one of its program or of these log lines."""
    planned = ready.plan.other.get("framework")
    if planned is not None and planned.value not in _GENERAL:
        return str(planned.value)
    return recognize_framework([*_list_files(ready.job), *list_frame_files(lines)])


def _list_files(job: Loaded[JobSpec]) -> Iterator[str]:
    for program, _ in job.programs:
        yield from [program.script] if program.script else []
        yield from [f"{program.module.replace('.', '/')}.py"] if program.module else []
    if job.value.launcher.type == "axolotl":
        yield "axolotl/cli/train.py"


def name_passed(settings: Iterable[str], ready: PreparedJob) -> str:
    """The options by which jobgen passes these settings to the program; empty if it passes none."""
    from jobgen.strategy.setting_names import name_setting

    planned = ready.plan.other.get("framework")
    framework = str(planned.value) if planned is not None else ""
    scripts = b"".join(file.content for file in ready.bundle.files if file.path.endswith(".sh"))
    names = []
    for setting in settings:
        key, _, word = setting.removeprefix("train.").partition("=")
        name = name_setting(framework, key, word) if setting.startswith("train.") else ""
        option = name.split("=")[0].split(" ")[0]
        names += [name] if option and option.encode() in scripts else []
    return " ".join(names)


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
