#!/bin/bash
# The program of one rank: run: in job.yaml:7.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # unchanged from run:
set -eo pipefail
export PYTHONUNBUFFERED=1
# on SIGTERM, the running command may save first; no further command starts
trap 'exit 143' TERM
trap : HUP USR1 USR2
./bench.sh --nodes $SLURM_NNODES --head $MASTER_ADDR:$MASTER_PORT > bench.$SLURM_NODEID.txt
