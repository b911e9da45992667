"""save_on_stop.py before a program that needs no framework: nothing of the program changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "jobgen" / "payload" / "save_on_stop.py"

SHOWS = """
import multiprocessing, os, pickle, sys
class Thing: pass
def double(n): return 2 * n
if __name__ == "__main__":
    print(sys.argv, __name__, os.path.basename(__file__), os.path.realpath(sys.path[0]))
    print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, "torch" in sys.modules)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [21]))
    sys.exit(int(sys.argv[1]))
"""


def run(folder: Path, *words: str, wrapped: bool = True, **env: str) -> tuple[int, str]:
    before = [str(SCRIPT)] if wrapped else []
    done = subprocess.run(
        [sys.executable, "-u", *before, *words],
        cwd=folder,
        env={**os.environ, "JOBGEN_STOP_FILE": "stop", "JOBGEN_STOPPED_FILE": "stopped", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("words", [("sub/shows.py",), ("-m", "sub.shows")])
def test_the_program_sees_what_it_would_see_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "shows.py").write_text(SHOWS)
    code, text = run(tmp_path, *words, "7", "--x=1")
    assert (code, text) == run(tmp_path, *words, "7", "--x=1", wrapped=False)
    assert code == 7
    assert "True False\n[42]\n" in text


TRAINER = """
class TrainerCallback: pass
class Trainer:
    def __init__(self, folder): self.args = type("Args", (), {"output_dir": folder})
    def add_callback(self, _): pass
    def train(self, resume_from_checkpoint=None): return resume_from_checkpoint
"""


def test_a_requeued_job_resumes_from_the_last_whole_checkpoint(tmp_path: Path) -> None:
    """The Trainer writes its state last: a checkpoint without it was cut short."""
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").touch()
    (tmp_path / "transformers" / "trainer.py").write_text(TRAINER)
    (tmp_path / "main.py").write_text(
        "import transformers.trainer as t\nprint(t.Trainer('out').train('begin'))"
    )
    for step, state in (("9", "{}"), ("10", "{}"), ("11", ""), ("12", None), ("x", "{}")):
        folder = tmp_path / "out" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    assert run(tmp_path, "main.py", JOBGEN_RESTART="1") == (0, "out/checkpoint-10\n")
    assert run(tmp_path, "main.py", JOBGEN_RESTART="0") == (0, "begin\n")
    (tmp_path / "out").rename(tmp_path / "other")
    assert run(tmp_path, "main.py", JOBGEN_RESTART="1") == (0, "begin\n")


LIGHTNING = """
class Callback: pass
class Trainer:
    default_root_dir, callbacks = "out", []
    def fit(self, model, ckpt_path=None): return ckpt_path
"""


def test_a_requeued_lightning_job_resumes_from_the_last_whole_checkpoint(tmp_path: Path) -> None:
    """A folder of many ranks' parts counts once all are written."""
    package = tmp_path / "lightning" / "pytorch" / "trainer"
    package.mkdir(parents=True)
    for folder in (package, *list(package.parents)[:2]):
        (folder / "__init__.py").touch()
    (package / "trainer.py").write_text(LIGHTNING)
    (tmp_path / "main.py").write_text(
        "from lightning.pytorch.trainer import trainer as t\n"
        "print(t.Trainer().fit('model', ckpt_path='last'))"
    )
    for name in ("hpc_ckpt_9.ckpt", "hpc_ckpt_9.ckpt.whole", "hpc_ckpt_10.ckpt", "epoch=1.ckpt"):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / name).touch()
    assert run(tmp_path, "main.py", JOBGEN_RESTART="2") == (0, "out/hpc_ckpt_9.ckpt\n")
    assert run(tmp_path, "main.py", JOBGEN_RESTART="0") == (0, "last\n")
