#!/bin/bash
# The program of one rank: run: in job.yaml:7.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # unchanged from run:
exec tune run full_finetune_distributed --config llama3_1/8B_full epochs=1
