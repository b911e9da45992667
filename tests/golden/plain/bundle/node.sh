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
export JOBGEN_NODE_RANK="$SLURM_NODEID" JOBGEN_NUM_NODES="$SLURM_NNODES"
exec bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
