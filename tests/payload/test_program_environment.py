"""The record of a program's environment, made by its own Python beside it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from jobgen.model.origin import read_environment

SCRIPT = Path(__file__).parents[2] / "jobgen" / "payload" / "program_environment.py"


def record(folder: Path, **env: str) -> str:
    target = folder / "environment.0"
    subprocess.run(
        [sys.executable, str(SCRIPT), str(target)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        check=True,
    )
    assert [path.name for path in folder.glob("environment*")] == [target.name]
    return target.read_text()


def test_packages_are_those_that_the_program_can_import(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "mine-1.2.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: My_Own.Package\nVersion: 1.2\n")
    (tmp_path / "lib" / "broken-1.dist-info").mkdir()
    found = read_environment(record(tmp_path, PYTHONPATH=str(tmp_path / "lib")))
    assert found is not None
    assert found.packages["my-own-package"] == "1.2"
    assert found.packages["pytest"] == importlib.metadata.version("pytest")
    assert (found.executable, found.modules) == (sys.executable, ())


def test_no_other_variable_and_no_module_of_the_program_is_read(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the module of the program')\n")
    text = record(tmp_path, API_TOKEN="canary-value", LOADEDMODULES="gcc/12:")
    found = read_environment(text)
    assert found is not None
    assert found.modules == ("gcc/12",)
    assert "canary-value" not in text


def test_the_cuda_release_of_torch_is_read_without_an_import(tmp_path: Path) -> None:
    (tmp_path / "torch-9.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 9.0+cu999\n"
    (tmp_path / "torch-9.dist-info" / "METADATA").write_text(metadata)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "torch" / "version.py").write_text(
        "cuda: Optional[str] = '99.9'\nhip: Optional[str] = None\n"
    )
    found = read_environment(record(tmp_path, PYTHONPATH=str(tmp_path)))
    assert found is not None
    assert (found.torch, found.cuda, found.hip) == ("9.0+cu999", "99.9", "")


def test_an_image_is_known_by_its_path_and_size(tmp_path: Path) -> None:
    image = tmp_path / "image.sif"
    image.write_bytes(b"x" * 7)
    found = read_environment(record(tmp_path, APPTAINER_CONTAINER=str(image)))
    assert found is not None
    assert (found.image, found.image_size) == (str(image), 7)
    assert found.image_time == int(image.stat().st_mtime)
