#!/bin/bash
# Runs once on every node: the setup, then the launcher, which starts the node's ranks.
# shellcheck disable=SC1090,SC1091  # the cluster's files are not here to be read
die() {
    printf 'jobgen: %s: %s\n' "${SLURMD_NODENAME:-$HOSTNAME}" "$2" >&2
    exit "$1"
}
cd "$JOBGEN_WORK_DIR" || die 96 'the working directory is not here'

# ---- Launch ------------------------------------------------------------------------------------
set -uo pipefail
command -v torchrun >/dev/null || die 127 "torchrun is not on PATH here: setup has to bring it"
exec torchrun --nnodes=4 --nproc-per-node=8 \
  --node-rank="$SLURM_NODEID" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
  --rdzv-conf=timeout=900 --local-addr="$SLURMD_NODENAME" \
  --max-restarts=0 --log-dir "\$HOME/x y" \
  --no-python bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
