#!/bin/bash
# The program of one rank, as run: in job.yaml:7 says.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # in the author's own words
set -eo pipefail
export PYTHONUNBUFFERED=1
# a command that is told to end may save first; no further one starts after it
trap 'exit 143' TERM
trap : HUP USR1 USR2
./bench.sh --nodes $SLURM_NNODES --head $MASTER_ADDR:$MASTER_PORT > bench.$SLURM_NODEID.txt
