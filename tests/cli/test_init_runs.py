"""What ``jobgen init`` writes for a folder runs: the job is submitted as it is, on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import process
from tests.products import one_of_each

FOLDERS: Mapping[str, Mapping[str, str]] = {
    "torch.distributed": {
        "train.py": "import torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "print('world', dist.get_world_size())\n"
        "dist.barrier()  # a rank that leaves early breaks connections that others still make\n"
        "dist.destroy_process_group()\n",
    },
    "one process": {"train.py": "def main():\n    import torch\nprint('world', 1)\n"},
    "Lightning": {
        "train.py": "import lightning as L\n"
        "from lightning.pytorch.demos.boring_classes import BoringModel\n"
        "trainer = L.Trainer(accelerator='cpu', devices=2, strategy='ddp', max_steps=1,\n"
        "    logger=False, enable_checkpointing=False, limit_val_batches=0)\n"
        "trainer.fit(BoringModel())\n"
        "print('world', trainer.world_size)\n",
    },
    "accelerate with a configuration": {
        "train.py": "from accelerate import Accelerator\n"
        "accelerator = Accelerator(cpu=True)\n"
        "print('world', accelerator.num_processes)\n"
        "accelerator.end_training()\n",
        "conf/cpu.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"
        "num_machines: 1\nnum_processes: 8\n",
    },
}


@pytest.mark.train
@pytest.mark.slow
@pytest.mark.parametrize("kind", one_of_each(FOLDERS, kept=["torch.distributed", "one process"]))
def test_the_job_of_init_runs_as_it_is(kind: str, tmp_path: Path) -> None:
    for name, text in FOLDERS[kind].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert process("init", "-y", cwd=tmp_path).returncode == 0
    linted = process("lint", "-c", "local", cwd=tmp_path)
    assert linted.returncode == 0, linted.stdout
    done = process("submit", "--follow", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    world = 1 if kind == "one process" else 2
    assert f"world {world}" in done.stdout
