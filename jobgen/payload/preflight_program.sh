#!/bin/bash
# The program of the preflight's all-reduce: each node records its software versions, all ranks take part,
# and rank 0 records the times.
if [[ ${LOCAL_RANK:-0} == 0 ]]; then
    # without importing them, which takes seconds
    python -c '
import platform
from importlib import metadata
print("python", platform.python_version(), sep="\t")
for name in ("torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "deepspeed", "accelerate"):
    try:
        print(name, metadata.version(name), sep="\t")
    except metadata.PackageNotFoundError:
        print(name, "none", sep="\t")
' >"$JOBGEN_STATE_DIR/versions.${SLURMD_NODENAME:-${HOSTNAME%%.*}}"
fi
export PYTHONPATH=$JOBGEN_BUNDLE_DIR${PYTHONPATH:+:$PYTHONPATH}
below=$(cat "$JOBGEN_STATE_DIR/below" 2>/dev/null)
exec python -m bench_collectives --ops all_reduce --sizes 16777216,268435456 --seconds 2 --repeats 20 \
    --below "${below:-0}" --pair-size 67108864 \
    --out "$JOBGEN_STATE_DIR/bench.jsonl"
