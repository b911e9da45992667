#!/bin/bash
# Runs a step on every node of the job, by one srun for each of its components: components.sh [gpus] OPTION... COMMAND
# With gpus, the step shares the GPUs. The exit code is that of a component that failed.
set -uo pipefail
gpus='' steps=() rc=0
if [[ $1 == gpus ]]; then
    gpus=1
    shift
fi
# shellcheck disable=SC2317,SC2329  # called by traps
forward() { kill -s "$1" "${steps[@]}" 2>/dev/null; }
trap 'forward USR2' USR2
trap 'forward TERM' TERM
srun --het-group=0 --nodes=2 --ntasks=2 --wait=0 --kill-on-bad-exit=0 \
    ${gpus:+--gpus-per-node=8 --gpu-bind=none} "$@" &
steps+=("$!")
srun --het-group=1 --nodes=1 --ntasks=1 --wait=0 --kill-on-bad-exit=0 \
    "$@" &
steps+=("$!")
for step in "${steps[@]}"; do
    code=127 alive=1
    while [[ -n $alive ]]; do # a signal interrupts wait; 127: exit code already read
        kill -0 "$step" 2>/dev/null || alive=
        wait "$step"; last=$?
        ((last == 127)) || code=$last
    done
    ((code == 0)) || rc=$code
done
exit "$rc"
