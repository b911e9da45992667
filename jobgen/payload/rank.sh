#!/bin/bash
# rank.sh PROGRAM [WORD...]: run one rank of the job. Every launcher starts every rank through this
# file: it checks that the world has the size that was asked for, loads the secrets, sends the
# program's output to files of its own, records its start and end, and leaves with its exit code.
set -uo pipefail

node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
if [[ -z ${SLURMD_NODENAME:-} && -n ${CROSS_RANK:-} ]]; then
    # DeepSpeed came over ssh and says which line of its hostfile this node is
    node=$(sed -n "$((CROSS_RANK + 1))s/ .*//p" "$JOBGEN_STATE_DIR/hostfile")
fi
# under launcher: plain a node is a rank, and nothing of torch's is set
rank=${JOBGEN_NODE_RANK:-${RANK:-}}

# record KIND [KEY=VALUE...]: a line of this rank's file in the run's event record.
record() {
    local time=${EPOCHREALTIME:-$(date +%s.%N)} word line
    line="v=1 time=${time/,/.} kind=$1 node=$node rank=$rank"
    for word in "${@:2}"; do
        word=${word//%/%25}
        line+=" ${word// /%20}"
    done
    printf '%s\n' "$line" >>"$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART.$node.$rank"
}
die() {
    printf 'jobgen: rank %s on %s: %s\n' "${rank:-?}" "$node" "$2" >&2
    [[ -z $rank ]] || record exit "code=$1" signal=0 "why=$2"
    exit "$1"
}

mkdir -p "$JOBGEN_LOG_DIR" "$JOBGEN_STATE_DIR"/{pids,events} || die 96 'no room for logs'
if [[ -z ${JOBGEN_NODE_RANK:-} ]]; then
    [[ -n $rank && -n ${WORLD_SIZE:-} ]] || die 97 'the launcher set no RANK and WORLD_SIZE'
    least=${JOBGEN_MIN_WORLD_SIZE:-$JOBGEN_WORLD_SIZE}
    ((WORLD_SIZE >= least && WORLD_SIZE <= JOBGEN_WORLD_SIZE)) ||
        die 97 "the world has $WORLD_SIZE ranks, the job asked for $JOBGEN_WORLD_SIZE"
    export LOCAL_WORLD_SIZE=${LOCAL_WORLD_SIZE:-$JOBGEN_RANKS_PER_NODE}
fi

# DeepSpeed's launcher numbers the GPUs from 0, whichever of them Slurm gave, and if it gave none.
if [[ ${JOBGEN_VISIBLE_DEVICES-} == unset ]]; then
    unset CUDA_VISIBLE_DEVICES
elif [[ -n ${JOBGEN_VISIBLE_DEVICES+set} ]]; then
    export CUDA_VISIBLE_DEVICES=$JOBGEN_VISIBLE_DEVICES
fi

[[ ! -r ${JOBGEN_BUNDLE_DIR:-}/bind.sh ]] || bash "$JOBGEN_BUNDLE_DIR/bind.sh" $$ 2>/dev/null

if [[ -n ${JOBGEN_SECRETS:-} ]]; then
    # shellcheck source=/dev/null
    [[ ! -r $JOBGEN_RUN_DIR/secrets.env ]] || source "$JOBGEN_RUN_DIR/secrets.env"
    for name in $JOBGEN_SECRETS; do
        [[ -n ${!name+set} ]] || die 97 "the secret $name is not there: put it into secrets.env"
    done
fi

# Whole files and no pipe between: every byte arrives, also those of a rank that is killed.
log=$JOBGEN_LOG_DIR/$node.$rank
touch "$log.out" "$log.err" || die 96 "cannot write to $JOBGEN_LOG_DIR"
for name in out err; do
    [[ $rank != 0 ]] || ln -sfn "$node.0.$name" "$JOBGEN_LOG_DIR/rank0.$name"
done

# ---- The program: in this process group, and never longer than this shell ---------------------------
program=("$@") id=$$.$RANDOM. signals=(TERM INT HUP QUIT USR1 USR2)
# the kernel ends it with this shell, where setpriv can ask for that (util-linux 2.33)
if setpriv --pdeathsig KILL true 2>/dev/null; then program=(setpriv --pdeathsig KILL "$@"); fi
start_program() {
    trap - INT QUIT # bash ignores them in what it starts in the background
    printf '%s\n' "$BASHPID" >"$JOBGEN_STATE_DIR/pids/$node.$rank"
    export JOBGEN_RANK_ID=$id
    exec "${program[@]}" >>"$log.out" 2>>"$log.err" {alive}>&-
}
# signal_all SIGNAL: to the program and all that it started; false where nothing is left.
signal_all() {
    local pids
    mapfile -t pids < <(grep -lsF "JOBGEN_RANK_ID=$id" /proc/[0-9]*/environ | cut -d/ -f3)
    ((${#pids[@]} > 0)) || return
    kill -s "$1" "${pids[@]}" 2>/dev/null || true # some may have ended by now
}
# What came over ssh, or runs below a daemon, Slurm ends neither with the job nor when another rank
# has failed: JOBGEN_GUARD says that it has to look for itself.
is_over() {
    local state=$JOBGEN_STATE_DIR start=$JOBGEN_RESTART
    [[ -e $JOBGEN_RUN_DIR/cancel || -e $state/failed.$start || -e $state/exit.$start ||
        -e $state/requeued.$start ]]
}
# Reads a pipe that ends with this shell, also where that is killed: then nothing may live on.
keep() {
    trap : "${signals[@]}"
    while :; do
        read -r ${JOBGEN_GUARD:+-t 1} && return
        (($? > 128)) || break
        if is_over && signal_all TERM; then break; fi
    done
    read -r -t 30 && return # time to save after SIGTERM; none where this shell has gone
    while signal_all KILL; do sleep 0.2; done
}
exec {alive}> >(keep >/dev/null 2>&1)

record start "local=${LOCAL_RANK:-0}" "world=${WORLD_SIZE:-$JOBGEN_WORLD_SIZE}"
if (($$ > 1 && PPID > 1)); then
    # Slurm and the launchers signal the program itself: this shell waits for what it makes of that
    trap : "${signals[@]}"
    { (start_program); } 2>/dev/null
    rc=$?
else
    # the first process of a container: a signal reaches nobody else
    (start_program) 2>/dev/null &
    child=$! rc=127 again=1
    # shellcheck disable=SC2064  # the name of now
    for name in "${signals[@]}"; do trap "again=1; signal_all $name || kill -s $name $child" "$name"; done
    while [[ -n $again ]]; do again= && wait "$child"; code=$?; ((code == 127)) || rc=$code; done
fi
record exit "code=$rc" "signal=$((rc > 128 && rc < 193 ? rc - 128 : 0))"
if ((rc == 0)); then mark=left; else mark=failed; fi
# torchrun itself ends the ranks where it may start them again
((rc && ${TORCHELASTIC_MAX_RESTARTS:-0})) || : >"$JOBGEN_STATE_DIR/$mark.$JOBGEN_RESTART"
(printf '\n' >&"$alive") 2>/dev/null
exit "$rc"
