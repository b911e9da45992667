"""DeepSpeed configurations that the launcher is given: checked as ``train.config`` is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Severity
from jobgen.launch.accelerate import name_deepspeed_file
from jobgen.model.launchers import LAUNCHERS
from jobgen.model.plan import Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.strategy import TrainDiagnostic

_FILLS_AUTO = ("accelerate", "hf-trainer")
"""Frameworks that replace ``auto``."""
_FILLING = re.compile(r"\b(?:accelerate|transformers|trl)\b")
_DIVIDED = re.compile(r"\bmpu\b|PipelineModule|tensor_parallel|sequence_parallel|autotp", re.I)
"""What programs mention in which fewer ranks are data parallel than there are."""
_READING = {"deepspeed": re.compile("JOBGEN_DEEPSPEED_CONFIG"), "accelerate": _FILLING}


class _Config(NamedTuple):
    name: str
    content: bytes


def check_configs(look: Inputs, size: Shape, launcher: str, framework: str) -> Iterator[Diagnostic]:
    """What DeepSpeed would refuse of ``launcher.config``; a warning if the program may differ."""
    form = LAUNCHERS[launcher].config_format
    config = _find(look, form)
    if config is None:
        return
    from jobgen.strategy.dsconfig import user_config

    train, texts = look.job.train, _list_texts(look)
    filled = form == "accelerate" or framework in _FILLS_AUTO or look.facts.sources is None
    filled = filled or any(_FILLING.search(text) for text in texts)
    ranks = size.world // (train.tp * train.pp * train.cp if train else 1)
    read, faults = user_config.read(config.content, config.name)
    faults = faults or list(user_config.check(read, ranks, "accelerate" if filled else "deepspeed"))
    severity = _judge(form, texts)
    yield from (_problem(look, fault, severity) for fault in faults)


def _find(look: Inputs, form: str) -> _Config | None:
    name, texts = look.job.launcher.config, look.facts.texts
    content = texts.get(name) if name else None
    if name is None or content is None or not form:
        return None
    if form == "accelerate":
        name = name_deepspeed_file(content)
        content = texts.get(name)
        return _Config(name, content) if content is not None else None
    return _Config(name, content)


def _list_texts(look: Inputs) -> tuple[str, ...]:
    """What the job and its program say, as far as it was read."""
    return (look.job.run, *(look.facts.sources or {}).values())


def _judge(form: str, texts: tuple[str, ...]) -> Severity:
    """An error where the program reads the file, on ranks that are all data parallel."""
    reads = any(_READING[form].search(text) for text in texts)
    divided = any(_DIVIDED.search(text) for text in texts)
    return "error" if reads and not divided else "warning"


def _problem(look: Inputs, fault: TrainDiagnostic, severity: Severity) -> Diagnostic:
    problem = look.diagnose_job(fault.code, fault.message, "launcher", "config", hint=fault.hint)
    return problem._replace(severity=severity)
