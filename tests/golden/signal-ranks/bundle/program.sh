#!/bin/bash
# The program of one rank, as run: in job.yaml:8 says.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # in the author's own words
exec python -u train.py
