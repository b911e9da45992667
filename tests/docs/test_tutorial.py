"""Every command of the tutorial is run, those that submit jobs too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SCREEN = re.compile(r"```console\n\$ (.+?)\n(.*?)```", re.DOTALL)


@pytest.mark.train
@pytest.mark.slow
def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    page = tmp_path / "tutorial.md"
    page.write_bytes((ROOT / "docs" / "tutorial.md").read_bytes())
    words = [sys.executable, "scripts/screens", "--all", str(page)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    screens = dict(SCREEN.findall(page.read_text(encoding="utf-8")))
    said = "\n".join(screens.values())
    # torch's agents sometimes log a traceback of their own when the first of them leaves
    assert "Traceback" not in re.sub(r"^job +\| .*", "", said, flags=re.MULTILINE)
    assert re.search(r"^digits-1  COMPLETED after ", said, re.MULTILINE)
    assert re.search(r"epoch  8  loss .* accuracy 9[6-9]", said)
    assert "go on with the next thing" in said
    ended = (
        r"^Error in .*\n(.*\n)+digits-2  FAILED after .*\n  why .*\n  where .*\n  retry .*\n\n"
        r"  diagnose .*\n  error log .*\nexit code 1$"
    )
    assert re.search(ended, said, re.MULTILINE)
    assert "\n  why    rank 3 fails, as --fail-rank asks (likely)\n" in said
    assert "\n  where  rank 3 on local2 failed first (exit code 1)\n" in said
    assert "local2 r3 ! rank 3 fails, as --fail-rank asks" in said
    assert re.search(r"^digits-3  CANCELLED$", said, re.MULTILINE)
