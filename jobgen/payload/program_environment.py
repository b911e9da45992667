"""Records the environment of rank 0's program: ``environment.sh`` starts it with its Python.

Not with ``-I -S`` as other helpers: the packages are those that the program can import, which
depends on PYTHONPATH, the user's site and a virtual environment. Imports none of them, and reads no
variable but LOADEDMODULES and those that name an image. Python 3.7 or later.
"""

from __future__ import annotations

import os
import sys

sys.path[:] = [path for path in sys.path if path != os.path.dirname(__file__)]  # noqa: PTH120

import json  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
from typing import Any  # noqa: E402

MOST = 5000
"""Packages that are recorded at most."""


def list_packages() -> tuple[dict[str, str], str]:
    """Name → version of each installed package, and torch's folder; the nearest of a name."""
    try:
        from importlib.metadata import distributions
    except ImportError:
        return {}, ""
    packages: dict[str, str] = {}
    torch = ""
    for found in distributions():
        try:
            name, version = found.metadata["Name"], found.version
        except Exception:  # noqa: BLE001, S112  a damaged package hides no other
            continue
        name = re.sub(r"[-_.]+", "-", str(name)).lower()
        if version and name not in packages and len(packages) < MOST:
            packages[name] = str(version)
            torch = str(found.locate_file("torch")) if name == "torch" else torch
    return packages, torch


def read_text(path: str) -> str:
    """The beginning of a small file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            return stream.read(4096)
    except OSError:
        return ""


def search(pattern: str, text: str) -> str:
    """What the first group of a pattern matches; empty without a match."""
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def describe_image() -> dict[str, Any]:
    """The image of a container that Apptainer started: its path, size and time."""
    path = os.environ.get("APPTAINER_CONTAINER") or os.environ.get("SINGULARITY_CONTAINER") or ""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return {"path": path}
    return {"path": path, "size": status.st_size, "time": status.st_mtime}


def main() -> None:
    """Write the record; a reader never sees half of it."""
    packages, torch = list_packages()
    version = read_text(os.path.join(torch, "version.py")) if torch else ""  # noqa: PTH118
    modules = os.environ.get("LOADEDMODULES", "").split(":")
    record = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": dict(sorted(packages.items())),
        "modules": [name for name in modules if name],
        "cuda": search(r"cuda\b[^=\n]*= ?'([^']+)'", version),
        "hip": search(r"hip\b[^=\n]*= ?'([^']+)'", version),
        "driver": search(r"Kernel Module\D+([\d.]+)", read_text("/proc/driver/nvidia/version")),
        "image": describe_image(),
    }
    part = sys.argv[1] + ".part"
    with open(part, "w") as stream:  # noqa: PTH123
        json.dump(record, stream)
    os.replace(part, sys.argv[1])  # noqa: PTH105


if __name__ == "__main__":
    main()
