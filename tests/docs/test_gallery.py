"""The jobs of examples/gallery are checked and rendered, and the page lists them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from jobgen.cli.main import run
from tests.corpus.originals import is_known
from tests.shellcheck import shellcheck

REPOSITORY = Path(__file__).parents[2]
GALLERY = REPOSITORY / "examples" / "gallery"
NEEDS = {"grpo-vllm": "groups"}
"""A key without which a job cannot be expressed."""


def list_jobs() -> list[object]:
    """One case a file; skipped where jobgen does not know a key that it needs."""
    cases: list[object] = []
    for path in sorted(GALLERY.glob("*.yaml")):
        need = NEEDS.get(path.stem, "")
        unknown = bool(need) and not is_known(need)
        marks = [pytest.mark.skip(reason=f"needs {need}")] if unknown else []
        cases.append(pytest.param(path, id=path.stem, marks=marks))
    return cases


@pytest.mark.parametrize("path", list_jobs())
def test_a_job_is_checked_and_rendered(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(GALLERY)
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 34)
    code = run(["lint", path.name])
    assert code == 0, capsys.readouterr().err
    assert run(["render", path.name, "-o", str(tmp_path / "out"), "-q"]) == 0
    scripts = [
        str(each)
        for pattern in ("*.sh", "*.sbatch")
        for each in sorted((tmp_path / "out").rglob(pattern))
    ]
    assert scripts
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
    done = subprocess.run([shellcheck(), *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted(GALLERY.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_job_begins_with_what_it_is(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


def test_the_page_lists_every_job() -> None:
    page = (REPOSITORY / "docs" / "howto" / "gallery.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[([\w-]+\.yaml)\]", page, re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in GALLERY.glob("*.yaml"))
    assert len(listed) == 11
