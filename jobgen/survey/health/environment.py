"""The environment that a job's setup makes: its Python, torch, launcher, and modules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jobgen.model.launchers import get_facts
from jobgen.named_tuple import NamedTuple
from jobgen.shell import quote
from jobgen.survey.health import CheckRow, Verdict, fail, skip, succeed, warn
from jobgen.survey.python_imports import ImportedModule

_SHOWN = 8
"""Modules that are named one by one."""
_NOT_FOUND = 127
"""What a shell exits with if there is no such command."""
_PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "flash_attn": "flash-attn",
    "skimage": "scikit-image",
    "bs4": "beautifulsoup4",
    "pytorch_lightning": "pytorch-lightning",
    "apex": "apex from github.com/NVIDIA/apex",
    "transformer_engine": "transformer-engine[pytorch]",
    "google": "protobuf",
    "hydra": "hydra-core",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
}
"""Modules whose package on PyPI has another name."""


class JobEnvironment(NamedTuple):
    """What a job's Python reported, and what the program needs of it."""

    report: Mapping[str, Any] | None
    """None if there was none: the setup failed, or there is no ``python``."""
    ending: str
    """Without a report: what was printed last."""
    code: int | None
    """The exit code; None if there is none."""
    modules: Sequence[ImportedModule]
    """Modules that the program imports and no uploaded file provides."""
    setup: str
    """Where setup is written: ``job.yaml:7``, or ``job.yaml has none``."""
    launcher: str
    """The launcher's command; empty if ranks are started without one."""
    gpus: int
    """GPUs that the check asked for."""
    readable: bool = True
    """Whether the program's files were there to be read."""
    log: str = ""
    """The command that prints all of what was printed."""
    needs_model: bool = False
    """Whether the job cannot run without its model."""

    @property
    def needs_torch(self) -> bool:
        """Whether the program or its launcher cannot start without torch."""
        imported = any(m.name == "torch" and m.required for m in self.modules)
        return imported or (bool(self.launcher) and get_facts(self.launcher).needs_torch)


def parse_report(text: str) -> Mapping[str, Any] | None:
    """The report of environment_report.py; None for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(value, dict) and isinstance(value.get("modules"), dict)
    return value if fits and isinstance(value.get("python"), str) else None


def _setup(case: JobEnvironment) -> Verdict:
    if case.report is not None:
        return succeed(f"ran (host name {case.report.get('host', '?')})")
    printed = f": {case.ending}" if case.ending else ""
    log = f"; log: {case.log}" if case.log else ""
    if not case.code:
        return fail(f"the check gave no report{printed}", f"try it again{log}", "J439")
    if case.code == _NOT_FOUND and "python" in case.ending:
        fix = f"setup ({case.setup}) has to put the job's python on PATH{log}"
        return fail(f"there is no python on PATH{printed}", fix, "J439")
    fix = f"correct setup ({case.setup}){log}"
    return fail(f"ended with exit code {case.code}{printed}", fix, "J439")


def _python(case: JobEnvironment) -> Verdict | None:
    if case.report is None:
        return None
    return succeed(f"{case.report['python']}, {case.report.get('executable') or '?'}")


def _torch(case: JobEnvironment) -> Verdict | None:
    if case.report is None:
        return None
    torch = case.report.get("torch")
    fix = f"install torch in the environment of setup ({case.setup})"
    if not isinstance(torch, dict):
        return fail("not installed", fix, "J439") if case.needs_torch else None
    if error := torch.get("error"):
        return fail(f"import torch fails: {error}", f"reinstall torch ({case.setup})", "J439")
    parts = [f"torch {torch.get('version')}"]
    parts += [f"CUDA {torch['cuda']}"] if torch.get("cuda") else []
    parts += [f"ROCm {torch['hip']}"] if torch.get("hip") else []
    parts += [f"NCCL {torch['nccl']}"] if torch.get("nccl") else []
    return succeed(", ".join(parts))


def _gpus(case: JobEnvironment) -> Verdict | None:
    torch = (case.report or {}).get("torch")
    if not case.gpus or not isinstance(torch, dict) or "error" in torch:
        return None
    gpus = torch.get("gpus") or []
    if gpus:
        return succeed(f"{len(gpus)} visible of {case.gpus} requested: {gpus[0]}")
    if not torch.get("cuda") and not torch.get("hip"):
        fix = f"install a build of torch for CUDA or ROCm ({case.setup})"
        return fail("this torch is a CPU build, but the job has GPUs", fix, "J439")
    note = f": {torch['note']}" if torch.get("note") else ""
    fix = "compare torch's CUDA with the driver: nvidia-smi on the node"
    return fail(f"torch sees no GPU{note}", fix, "J439")


def _launcher(case: JobEnvironment) -> Verdict | None:
    found = (case.report or {}).get("launcher")
    if not isinstance(found, dict):
        return None
    name, path = found.get("name"), found.get("path")
    if not path:
        fix = f"setup ({case.setup}) has to put {name} on PATH"
        return fail(f"{name} is not on PATH", fix, "J439")
    return succeed(f"{name}, {path}")


def _modules(case: JobEnvironment) -> Verdict | None:
    if case.report is None:
        return None
    if not case.readable:
        return skip("the program is not in the workdir, so its imports are unknown")
    present = case.report["modules"]
    absent = [module for module in case.modules if present.get(module.name) is False]
    required = [module for module in absent if module.required]
    maybe = [module for module in absent if not module.required]
    optional = f"{_name(maybe)}, imported in a function or behind a condition" if maybe else ""
    if required:
        more = f"; also not found: {optional}" if maybe else ""
        return fail(f"not found: {_name(required)}{more}", _advise(required, case), "J439")
    if maybe:
        return warn(f"not found: {optional}", _advise(maybe, case), "J439")
    return succeed(f"all imported modules found ({len(case.modules)})")


def _name(modules: Sequence[ImportedModule]) -> str:
    """``foo (train.py:3), bar (train.py:4)``."""
    names = [f"{module.name} ({module.place})" for module in modules[:_SHOWN]]
    more = [f"{len(modules) - _SHOWN} more"] if len(modules) > _SHOWN else []
    return ", ".join([*names, *more])


def _advise(modules: Sequence[ImportedModule], case: JobEnvironment) -> str:
    names = " ".join(_PACKAGES.get(module.name, module.name) for module in modules[:_SHOWN])
    return f"pip install {names}  # in the environment of setup ({case.setup})"


def _model(case: JobEnvironment) -> Verdict | None:
    """The model of a job on nodes without internet."""
    seen = (case.report or {}).get("model")
    if not isinstance(seen, dict):
        return None
    name, cache = seen.get("name"), seen.get("cache")
    if seen.get("found"):
        return succeed(f"{name} is there")
    text = f"{name} is not in the Hugging Face cache {cache}, and the nodes have no internet"
    fix = f"on a login node: HF_HUB_CACHE={quote(str(cache))} hf download {quote(str(name))}"
    return (fail if case.needs_model else warn)(text, fix, "J439")


ROWS: tuple[CheckRow[JobEnvironment], ...] = (
    CheckRow("environment.setup", "setup runs without an error", _setup),
    CheckRow("environment.python", "the job has a python", _python),
    CheckRow("environment.torch", "torch can be imported", _torch),
    CheckRow("environment.gpus", "torch sees the job's GPUs", _gpus),
    CheckRow("environment.launcher", "the launcher is on PATH", _launcher),
    CheckRow("environment.model", "the model is in the Hugging Face cache", _model),
    CheckRow("environment.modules", "every imported module is installed", _modules),
)
