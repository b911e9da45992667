"""The documentation builds as a site: every page is in the navigation, and every link leads."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed"
)


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    return subprocess.run(words, cwd=root, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What a site is made from, and the files that its pages name."""
    for name in ("docs", "examples", "tests/golden", "templates", "clusters"):
        shutil.copytree(ROOT / name, tmp_path / "copy" / name)
    (tmp_path / "copy/scripts").mkdir()
    for name in ("mkdocs.yml", "scripts/site_links.py"):
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    return tmp_path / "copy"


def test_the_site_is_whole(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs").with_suffix("")
        parts = path.parent if path.name == "README" else path
        assert (tmp_path / "site" / parts / "index.html").exists(), page


@pytest.mark.parametrize(
    "link", ["missing.md", "tutorial.md#no-such-heading", "../examples/missing.yaml"]
)
def test_a_broken_link_fails(copy: Path, tmp_path: Path, link: str) -> None:
    page = copy / "docs" / "decisions.md"
    page.write_text(f"{page.read_text()}\n[broken]({link})\n")
    done = build(copy, tmp_path / "site")
    assert done.returncode != 0
    assert link.rpartition("/")[2].rpartition("#")[2] in done.stderr
