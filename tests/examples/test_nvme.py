"""ZeRO-3 with everything on a disk trains as DDP does, and says what is missing where it cannot.

DeepSpeed compiles its async_io for minutes, so the tests that need it are exhaustive.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.starts import EXAMPLE, Start, Warm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train("torch", "deepspeed", "accelerate"),
]

WIDE = ("--layers=2", "--hidden=512", "--heads=8", "--save-every=2")
"""A rank has more of the largest matrices than the MiB below which DeepSpeed swaps nothing."""
TRAIN = {
    "precision": "fp32",
    "micro_batch": 2,
    "global_batch": 8,
    "seq_len": 32,
    "gradient_clipping": 1.0,
}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with async_io, compiled here and now: a cache may hold another environment's."""
    from deepspeed.ops.op_builder.cpu import AsyncIOBuilder

    if not AsyncIOBuilder().is_compatible(verbose=False):
        pytest.skip(
            "async_io needs libaio's headers and a compiler: apt-get install g++ libaio-dev"
        )
    folder = tmp_path_factory.mktemp("operator")
    load = "from deepspeed.ops.op_builder.cpu import AsyncIOBuilder; AsyncIOBuilder().load()"
    env = {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder)}
    subprocess.run((sys.executable, "-c", load), env=env, check=True)
    return folder


def jobgen(home: Path, *words: str) -> str:
    """What jobgen says to a user of this machine."""
    env = {"HOME": str(home), "PYTHONPATH": str(EXAMPLE.parents[1])}
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        (sys.executable, "-m", "jobgen", *words),
        env={**os.environ, **env},
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def job(home: Path, steps: int, **keys: Any) -> str:
    """A job file beside a copy of nothing: it runs the example where it lies."""
    train = {**TRAIN, "strategy": "zero3"}
    train["offload"] = {"what": "both", "to": "nvme", "path": str(home / "disk")}
    data = {
        "name": "nvme",
        "run": " ".join(("train_deepspeed.py", f"--steps={steps}", *WIDE)),
        "workdir": str(EXAMPLE),
        "nodes": 1,
        "procs_per_node": 2,
        "time": "30m",
        "train": train,
        **keys,
    }
    path = home / "job.yaml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


def losses(text: str) -> list[float]:
    """Those of the first report in a text."""
    said = re.search(r"^report (\{.*\})$", text, re.M)
    assert said is not None, text
    return json.loads(said[1])["losses"]  # type: ignore[no-any-return]


def plain(warm: Warm, folder: Path, steps: int) -> list[float]:
    """The losses of plain DDP."""
    folder.mkdir()
    file = folder / "strategy.json"
    file.write_text(json.dumps({**TRAIN, "gradient_accumulation": 2, "strategy": "ddp"}))
    env = {"JOBGEN_STRATEGY": str(file)}
    start: Start = warm.start(folder / "0", "train_ddp", [f"--steps={steps}", *WIDE], env)
    assert start.wait() == [0, 0], start.said()
    return losses(start.text(0))


@pytest.mark.exhaustive
def test_what_lies_on_the_disk_trains_as_ddp_and_goes_on(
    operator: Path, warm: Warm, tmp_path: Path
) -> None:
    keys = {
        "env": {"TORCH_EXTENSIONS_DIR": str(operator)},
        "checkpoint": {"dir": str(tmp_path / "checkpoints")},
    }
    found: list[float] = []
    for steps in (2, 5):
        jobgen(tmp_path, "submit", job(tmp_path, steps, **keys), "-c", "local", "--wait")
        found += losses(jobgen(tmp_path, "logs", "@last", "--rank", "0", "--stdout", "--raw"))
    assert found == pytest.approx(plain(warm, tmp_path / "ddp", 5), rel=2e-5)
    for kind in ("float32params", "optimizer"):
        for rank in ("rank0", "rank1"):
            swapped = list((tmp_path / "disk" / "zero_stage_3" / kind / rank).glob("*.swp"))
            assert sum(p.stat().st_size for p in swapped) > 2**20, (kind, rank)


@pytest.mark.exhaustive
def test_a_model_too_small_for_the_disk_does_not_go_on_without_its_moments(
    operator: Path, warm: Warm, tmp_path: Path
) -> None:
    rendered = tmp_path / "rendered"
    jobgen(tmp_path, "render", job(tmp_path, 2), "-c", "local", "--output", str(rendered))
    env = {
        "TORCH_EXTENSIONS_DIR": str(operator),
        "JOBGEN_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "JOBGEN_STRATEGY": str(rendered / "strategy.json"),
        "JOBGEN_DEEPSPEED_CONFIG": str(rendered / "ds_config.json"),
    }
    words = ["--layers=1", "--hidden=32", "--heads=2"]
    first = warm.start(tmp_path / "0", "train_deepspeed", [*words, "--steps=1"], env)
    assert first.wait() == [0, 0], first.said()
    second = warm.start(tmp_path / "1", "train_deepspeed", [*words, "--steps=2"], env)
    assert 1 in second.wait()
    assert "does not bring it back from a checkpoint" in second.said()


def test_without_libaio_the_program_says_what_to_install(warm: Warm, tmp_path: Path) -> None:
    linker = tmp_path / "cc"  # as the linker answers where there is no libaio.so
    linker.write_text('#!/bin/sh\ncase "$*" in *-laio*) exit 1 ;; esac\nexec cc "$@"\n')
    linker.chmod(0o755)
    rendered = tmp_path / "rendered"
    jobgen(tmp_path, "render", job(tmp_path, 1), "-c", "local", "--output", str(rendered))
    env = {
        "CC": str(linker),
        "JOBGEN_STRATEGY": str(rendered / "strategy.json"),
        "JOBGEN_DEEPSPEED_CONFIG": str(rendered / "ds_config.json"),
    }
    start = warm.start(tmp_path / "0", "train_deepspeed", WIDE, env)
    assert set(start.wait()) <= {1, -9}
    last = [start.text(rank).strip().splitlines() for rank in (0, 1)]
    assert any("apt-get install g++ libaio-dev" in lines[-1] for lines in last if lines)
