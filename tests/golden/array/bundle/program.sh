#!/bin/bash
# The program of one rank, as run: in job.yaml:9 says.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # in the author's own words
exec python -u train.py --seed $SLURM_ARRAY_TASK_ID
