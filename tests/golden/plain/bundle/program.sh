#!/bin/bash
# The program of one rank, as run: in job.yaml:7 says.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # in the author's own words
set -eo pipefail
export PYTHONUNBUFFERED=1
./bench.sh --nodes $SLURM_NNODES --head $MASTER_ADDR:$MASTER_PORT > bench.$SLURM_NODEID.txt
