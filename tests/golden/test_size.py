"""How much the README's job renders, file by file. Later keys must not raise it for this job."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.app.prepare import make_standalone, prepare
from jobgen.app.world import World
from jobgen.model.bundle import Bundle

ROOT = Path(__file__).parents[2]
FILES = 6
"""With plan.json."""
LINES, STANDALONE = 450, 400
"""Without plan.json."""


@pytest.fixture
def bundles(tmp_path: Path) -> tuple[Bundle, Bundle]:
    """What is submitted, and what a person keeps."""
    world = World(environ={}, cwd=ROOT, home=tmp_path)
    ready = prepare(world, ROOT / "examples" / "digits-ddp" / "job.yaml", "a100x16")
    return ready.bundle, make_standalone(world, ready).bundle


def count(bundle: Bundle) -> dict[str, int]:
    """File → lines, without plan.json."""
    files = {file.path: file.content.count(b"\n") for file in bundle.files}
    del files["plan.json"]
    return files


def test_the_job_of_the_readme_is_small(bundles: tuple[Bundle, Bundle]) -> None:
    for name, bundle, ceiling in zip(
        ("submitted", "standalone"), bundles, (LINES, STANDALONE), strict=True
    ):
        files = count(bundle)
        total = sum(files.values())
        table = "\n".join(f"  {path:14} {lines:4}" for path, lines in sorted(files.items()))
        print(f"{name}: {len(files) + 1} files, {total} lines of {ceiling}\n{table}")
        assert len(files) + 1 <= FILES
        assert total <= ceiling
        assert files["preflight.sh"] <= 120


def test_no_line_hides_several(bundles: tuple[Bundle, Bundle]) -> None:
    """The count would mean nothing; a long value of the profile is not ours to break."""
    for bundle in bundles:
        for file in bundle.files:
            lines = file.content.decode().splitlines() if file.path != "plan.json" else []
            long = [line for line in lines if len(line) > 120]
            assert all("NCCL_IB_HCA" in line or "named=" in line for line in long), long


def test_standalone_knows_nothing_of_a_submission(bundles: tuple[Bundle, Bundle]) -> None:
    submitted, standalone = ({file.path: file.content for file in b.files} for b in bundles)
    script = standalone["job.sbatch"]
    for word in (b"TOKEN", b"claim", b"started.0", b"cancel", b"exit.$", b"bundle/", b"src/"):
        assert word in submitted["job.sbatch"]
        assert word not in script, word
    assert {**standalone, "job.sbatch": b""} == {**submitted, "job.sbatch": b""}
