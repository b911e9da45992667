"""Every verb that renders says so where a template is not jobgen's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.conftest import Jobgen

TEMPLATE = "#!/bin/bash\n# mine\n{{ text }}\n"


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str], None]:
    """A job in this folder, and a template beside it."""

    def write(text: str) -> None:
        (tmp_path / "job.yaml").write_text(
            "name: x\nnodes: 1\ntime: 1h\nlauncher: srun\nrun: hostname\n"
        )
        folder = tmp_path / "templates" / "slurm"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.sh.j2").write_text(text)

    return write


@pytest.mark.parametrize(
    "words", [("plan",), ("render",), ("submit", "--dry-run"), ("render", "-o", "out")]
)
def test_a_verb_that_renders_names_it_with_its_sum(
    jobgen: Jobgen, put: Callable[[str], None], words: tuple[str, ...]
) -> None:
    put(TEMPLATE)
    verb, *more = words
    said = jobgen(verb, "job.yaml", "-c", "local", *more)
    assert said.code == 0, said.err
    text = " ".join((said.out + said.err).split())
    assert f"this template (sha256 {sha256(TEMPLATE.encode()).hexdigest()[:12]}" in text
    assert re.search(r"templates/slurm/program\.sh\.j2(: note\[|, )J240", text)


def test_a_mistake_in_it_is_shown_with_its_line(jobgen: Jobgen, put: Callable[[str], None]) -> None:
    put("#!/bin/bash\n{{ txt }}\n")
    said = jobgen("render", "job.yaml", "-c", "local")
    assert said.code == 3
    assert said.out == ""
    assert "templates/slurm/program.sh.j2:2: error[J241]: 'txt' is undefined" in said.err
    assert "2 | {{ txt }}" in said.err
    assert "did you mean text?" in said.err
