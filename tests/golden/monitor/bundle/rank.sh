#!/bin/bash
# rank.sh PROGRAM [WORD...]: become one rank of the job. Every launcher starts every rank through
# this file: it checks that the world is the one that was asked for, loads the secrets, leaves its
# process id, sends its output to files of its own, and becomes the program.
set -uo pipefail

node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
if [[ -z ${SLURMD_NODENAME:-} && -n ${CROSS_RANK:-} ]]; then
    # DeepSpeed came over ssh and says which line of its hostfile this node is
    node=$(sed -n "$((CROSS_RANK + 1))s/ .*//p" "$JOBGEN_STATE_DIR/hostfile")
fi

die() {
    printf 'jobgen: rank %s on %s: %s\n' "${RANK:-?}" "$node" "$2" >&2
    exit "$1"
}

[[ -n ${RANK:-} && -n ${WORLD_SIZE:-} ]] || die 97 'the launcher set no RANK and WORLD_SIZE'
least=${JOBGEN_MIN_WORLD_SIZE:-$JOBGEN_WORLD_SIZE}
((WORLD_SIZE >= least && WORLD_SIZE <= JOBGEN_WORLD_SIZE)) ||
    die 97 "the world has $WORLD_SIZE ranks, the job asked for $JOBGEN_WORLD_SIZE"
export LOCAL_WORLD_SIZE=${LOCAL_WORLD_SIZE:-$JOBGEN_RANKS_PER_NODE}

# DeepSpeed's launcher numbers the GPUs from 0, whichever of them Slurm gave, and if it gave none.
if [[ ${JOBGEN_VISIBLE_DEVICES-} == unset ]]; then
    unset CUDA_VISIBLE_DEVICES
elif [[ -n ${JOBGEN_VISIBLE_DEVICES+set} ]]; then
    export CUDA_VISIBLE_DEVICES=$JOBGEN_VISIBLE_DEVICES
fi

if [[ -n ${JOBGEN_SECRETS:-} ]]; then
    if [[ -r $JOBGEN_RUN_DIR/secrets.env ]]; then
        # shellcheck source=/dev/null
        source "$JOBGEN_RUN_DIR/secrets.env"
    fi
    for name in $JOBGEN_SECRETS; do
        [[ -n ${!name+set} ]] || die 97 "the secret $name is not there: put it into secrets.env"
    done
fi

mkdir -p "$JOBGEN_LOG_DIR" "$JOBGEN_STATE_DIR/pids" || die 96 'no room for logs'

# Whole files and no pipe between: every byte arrives, also those of a rank that is killed.
out=$JOBGEN_LOG_DIR/$node.$RANK.out
err=$JOBGEN_LOG_DIR/$node.$RANK.err
if [[ $RANK == 0 ]]; then
    ln -sfn "$node.0.out" "$JOBGEN_LOG_DIR/rank0.out"
    ln -sfn "$node.0.err" "$JOBGEN_LOG_DIR/rank0.err"
fi

if [[ -z ${JOBGEN_GUARD:-} ]]; then
    printf '%s\n' "$$" >"$JOBGEN_STATE_DIR/pids/$node.$RANK"
    exec "$@" >>"$out" 2>>"$err"
fi

# What came over ssh, or runs below a daemon, is no process of Slurm's: Slurm ends it neither with
# the job nor when another rank has failed. So this rank looks for itself.
over() {
    [[ -e $JOBGEN_RUN_DIR/cancel || -e $JOBGEN_STATE_DIR/failed.$JOBGEN_RESTART ||
        -e $JOBGEN_STATE_DIR/exit.$JOBGEN_RESTART ||
        -e $JOBGEN_STATE_DIR/requeued.$JOBGEN_RESTART ]]
}
"$@" >>"$out" 2>>"$err" &
program=$!
printf '%s\n' "$program" >"$JOBGEN_STATE_DIR/pids/$node.$RANK"
trap 'kill -TERM "$program" 2>/dev/null' TERM INT
told=0
while kill -0 "$program" 2>/dev/null; do
    if over; then
        if ((told < 5)); then kill -TERM "$program"; else kill -KILL "$program"; fi 2>/dev/null
        told=$((told + 1))
    fi
    sleep 1 &
    wait "$!"
done
wait "$program"
rc=$?
# of the exit codes of all ranks the launcher takes the largest: the one that failed first shall win
((told == 0)) || exit 1
((rc == 0)) || : >"$JOBGEN_STATE_DIR/failed.$JOBGEN_RESTART"
exit "$rc"
