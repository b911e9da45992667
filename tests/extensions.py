"""What DeepSpeed compiles for ranks on CPUs, compiled once for all tests of this environment.

torch guards the folder in which it compiles by a file that a killed process leaves, and then every
later one waits for ever: so tests share no such folder. Each gets a copy of one that is whole.
``python -m tests.extensions`` compiles it, as the installation does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

NAME = "deepspeed_shm_comm"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
"""With this environment's ninja first: another one compiles all anew."""
ENGINE_IMPORT = "deepspeed.runtime.zero.muon.muon_optimizer"
"""What DeepSpeed imports with its first engine, and torch's whole compiler with it: a second a rank
where it is not done before ranks are forked."""
COMPILE = """
from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder
ShareMemCommBuilder().load(verbose=False)
"""


def copy_extensions(folder: Path) -> Path:
    """The folder, for TORCH_EXTENSIONS_DIR, with all compiled in it."""
    shutil.copytree(_compiled() / NAME, folder / NAME)
    return folder


def _compiled() -> Path:
    """What is compiled, and compiled now where no test has done so."""
    cache = Path(sys.prefix, "share", "jobgen-tests")
    # ninja compiles anew where the environment has another path, as a copied one does
    place = sha256(sys.prefix.encode()).hexdigest()[:8]
    whole = cache / f"torch-{version('torch')}-deepspeed-{version('deepspeed')}-{place}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "in-use").open("w") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)  # it ends with its holder
        if not whole.exists():
            for left in cache.glob("part-*"):  # by one that was killed
                shutil.rmtree(left, ignore_errors=True)
            part = Path(tempfile.mkdtemp(prefix="part-", dir=cache))
            env = {**os.environ, "TORCH_EXTENSIONS_DIR": str(part), "CUDA_VISIBLE_DEVICES": ""}
            subprocess.run((sys.executable, "-c", COMPILE), env=env | {"PATH": PATH}, check=True)
            part.rename(whole)
    return whole


if __name__ == "__main__":
    _compiled()
