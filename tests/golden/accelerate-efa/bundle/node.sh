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
command -v accelerate >/dev/null || die 127 "accelerate is not on PATH here: setup has to bring it"
exec accelerate launch --config_file="$JOBGEN_BUNDLE_DIR/accelerate.yaml" --multi_gpu --mixed_precision=no --dynamo_backend=no \
  --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
  --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" --same_network \
  --rdzv_backend=static --rdzv_conf=timeout=900 --mixed_precision=bf16 \
  --no_python bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
