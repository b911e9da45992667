"""What a job's Python is, and which modules it finds: run after a job's setup, by its ``python``.

Needs nothing but the standard library, and runs nothing of the user's. Reads what to look for from
environment_request.json beside it, or from its first argument, and writes a JSON object into
$JOBGEN_STATE_DIR, or to standard output. Python 3.7 or later.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

MARK = "jobgen-environment "
REPORT, REQUEST = "environment.json", "environment_request.json"


def find_module(name: str) -> bool:
    """Whether an import of this module would find it."""
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def report_launcher(name: str) -> dict[str, str]:
    """Where the launcher is, if anywhere on PATH."""
    return {"name": name, "path": shutil.which(name) or ""}


def report_model(name: str) -> dict[str, Any]:
    """Where the Hugging Face cache is, and whether it has the model; rank.sh looks there, too."""
    home = os.environ.get("HF_HOME") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    )
    caches = [os.environ.get(key) for key in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")]
    cache = Path(next(filter(None, caches), str(Path(home, "hub")))).expanduser()
    files = cache.glob(f"models--{name.replace('/', '--')}/snapshots/*/*")
    found = Path(name).exists() or any(path.exists() for path in files)
    return {"name": name, "cache": str(cache), "found": found}


def report_torch() -> dict[str, Any]:
    """Releases of torch, CUDA and NCCL, and the GPUs that torch sees."""
    try:
        import torch
    except Exception as error:  # noqa: BLE001  a broken library raises anything
        return {"error": f"{type(error).__name__}: {error}"}
    cuda: Any = torch.cuda
    found: dict[str, Any] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda or "",
        "hip": getattr(torch.version, "hip", None) or "",
        "gpus": [],
    }
    try:
        found["gpus"] = [cuda.get_device_name(n) for n in range(cuda.device_count())]
        if found["cuda"] or found["hip"]:
            found["nccl"] = ".".join(map(str, cuda.nccl.version()))
    except Exception as error:  # noqa: BLE001  so does a broken driver
        found["note"] = f"{type(error).__name__}: {error}"
    return found


def write(report: dict[str, Any]) -> None:
    """Put the report where it is read; a reader never sees half of it."""
    folder, text = os.environ.get("JOBGEN_STATE_DIR"), json.dumps(report)
    if not folder:
        print(MARK + text)
        return
    path = Path(folder, REPORT)
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def main() -> None:
    """Report twice: a torch that crashes the interpreter must not take the rest along."""
    argument = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name(REQUEST).read_text()
    request = json.loads(argument)
    sys.path[:1] = [str(Path.cwd() / folder) for folder in request["folders"]]
    report = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "host": platform.node(),
        "launcher": report_launcher(request["launcher"]) if request["launcher"] else None,
        "model": request["model"] and report_model(request["model"]),
        "modules": {name: find_module(name) for name in request["modules"]},
        "torch": None,
    }
    write(report)
    if find_module("torch"):
        report["torch"] = report_torch()
        write(report)


if __name__ == "__main__":
    main()
