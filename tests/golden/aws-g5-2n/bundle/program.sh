#!/bin/bash
# The program of one rank: run: in job.yaml:6.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # unchanged from run:
exec python -u train.py
