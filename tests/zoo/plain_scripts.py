"""Batch scripts as people write them, one for each launcher."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.zoo.failure import Failure

HEAD = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks}
#SBATCH --nodelist={on}
#SBATCH --exclusive
#SBATCH --time=6:00
{output}{options}
export PATH={programs}:$PATH
export OMP_NUM_THREADS=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
{lines}
{launch}
"""
OUTPUT = "#SBATCH --output=slurm-%j.out\n"
ERROR = "#SBATCH --error=slurm-%j.err\n"
RANKS = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
LAUNCHES = {
    "torchrun": (
        "srun{flags} torchrun --nnodes=$SLURM_NNODES --nproc-per-node={ranks}"
        " --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT"
        " --rdzv-id=$SLURM_JOB_ID{tree} {run}"
    ),
    "srun": f"srun{{flags}} bash -c '{RANKS} exec python -u {{run}}'",
    "deepspeed": (
        'for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do\n'
        '    echo "$node slots={ranks}"\n'
        "done >hostfile\n"
        "deepspeed --hostfile=hostfile --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT {run}"
    ),
    "accelerate": (
        "srun{flags} bash -c 'accelerate launch --multi_gpu --num_machines=$SLURM_NNODES"
        " --num_processes={world} --machine_rank=$SLURM_NODEID --main_process_ip=$MASTER_ADDR"
        " --main_process_port=$MASTER_PORT --mixed_precision=no --dynamo_backend=no {run}'"
    ),
    "python": "python {run}",
}
PER_RANK = ("srun", "lightning")
"""What Slurm starts once for each rank, not once for each node."""


def write_script(failure: Failure) -> str:
    """The batch script of a failure that a person wrote."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in failure.env.items()]
    return HEAD.format(
        nodes=len(failure.on),
        tasks=failure.ranks if failure.launcher in PER_RANK else 1,
        on=",".join(failure.on),
        output=OUTPUT + ERROR * (failure.log == "split"),
        options="".join(f"#SBATCH {option}\n" for option in failure.options),
        programs=Path(sys.executable).parent,
        lines="\n".join([*lines, failure.setup]).strip(),
        launch=_write_launch(failure),
    )


def _write_launch(failure: Failure) -> str:
    flags = {"label": " --label", "ranks": " --output=logs/rank_%t.log"}.get(failure.log, "")
    tree = " --log-dir=logs --redirects=3" if failure.log == "tree" else ""
    return (failure.launch or LAUNCHES[failure.launcher]).format(
        flags=flags,
        tree=tree,
        ranks=failure.ranks,
        world=failure.ranks * len(failure.on),
        run=failure.run,
    )
