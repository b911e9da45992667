#!/bin/bash
# Runs as every rank: the setup, then the rank itself.
# shellcheck disable=SC1090,SC1091  # the cluster's files are not here to be read
die() {
    printf 'jobgen: %s: %s\n' "${SLURMD_NODENAME:-$HOSTNAME}" "$2" >&2
    exit "$1"
}
cd "$JOBGEN_WORK_DIR" || die 96 'the working directory is not here'

# ---- Launch ------------------------------------------------------------------------------------
set -uo pipefail
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_NTASKS" LOCAL_WORLD_SIZE=4
exec bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
