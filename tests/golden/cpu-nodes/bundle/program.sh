#!/bin/bash
# The program of one rank: run: in job.yaml:14.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # unchanged from run:
set -eo pipefail
export PYTHONUNBUFFERED=1
# on SIGTERM, the running command may save first; no further command starts
trap 'exit 143' TERM
trap : HUP USR1 USR2
python prepare.py --shard $RANK
python train.py --note 'not $RANK' | tail -n 3
