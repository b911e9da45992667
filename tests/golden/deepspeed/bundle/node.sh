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
command -v deepspeed >/dev/null || die 127 "deepspeed is not on PATH here: setup has to bring it"
export JOBGEN_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-unset}
exec deepspeed --hostfile="$JOBGEN_STATE_DIR/hostfile" --no_ssh --node_rank="$SLURM_NODEID" \
  --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" \
  --no_python --no_local_rank bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
