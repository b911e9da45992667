#!/bin/sh
# submit_arrays.sh DIGEST COMMENT DEPENDENCY COMMAND...: submit the jobs of a run after its first one, as submit/arrays
# lists them: the arrays of a large sweep, the jobs of a chain, or the entries of a race, whose options are in
# submit/race.NUMBER. DEPENDENCY: one job after the other, behind this dependency. A job that Slurm takes twice runs once: its first copy
# to start claims it. It is started detached, so that it outlives the connection.
umask 077
cd "$(dirname "$0")/.." || exit 1
digest=$1 comment=$2 dependency=$3
shift 3

# one process at a time; what a process left behind is taken over: at once on its own host, elsewhere when the lock was
# not renewed for so long. A job that two submit runs once.
if ! ln -sT "$(uname -n) $$" submit/arrays.lock 2>/dev/null; then
    holder=$(readlink submit/arrays.lock)
    if [ "${holder% *}" = "$(uname -n)" ]; then
        ! kill -0 "${holder##* }" 2>/dev/null || exit 0
    else
        [ -n "$(find submit/arrays.lock -mmin +10)" ] || exit 0
    fi
    ln -sfT "$(uname -n) $$" submit/arrays.lock
fi
trap 'rm -f submit/arrays.lock' EXIT
# shellcheck disable=SC1091
. submit/refusals.sh

# take ID: write down the id of this array
take() {
    printf '%s\n' "$1" >submit/.array && mv -T submit/.array "submit/array.$number"
}

# find_taken: the id of this array if an earlier question was answered after all; fails if Slurm does not say
find_taken() {
    listed=$(squeue --me --noheader --states=all --format='%i %k') || return 1
    id=$(printf '%s\n' "$listed" | while read -r job words; do
        case "$words " in
        *"$comment.$number "*) printf '%s\n' "${job%%_*}" ;;
        esac
    done | sort -n | head -n 1)
}

# submit_job WORD...: run sbatch with these words, at most four times, and write down the id
submit_job() {
    tries=0
    while [ "$tries" -lt 4 ]; do
        [ ! -e cancel ] || return 1
        [ "$tries" = 0 ] || sleep "$((tries * 5))"
        tries=$((tries + 1))
        touch -h -c submit/arrays.lock
        if [ -e "submit/array-out.$number" ]; then
            find_taken || continue
            if [ -n "$id" ]; then
                take "$id"
                return
            fi
        fi
        : >>"submit/array-out.$number" || return 1
        "$@" </dev/null >"submit/array-out.$number" 2>"submit/array-err.$number"
        code=$?
        id=$(sed -n 's/^\([0-9][0-9]*\)\(;.*\)\{0,1\}$/\1/p' "submit/array-out.$number" | tail -n 1)
        if [ -n "$id" ]; then
            take "$id"
            return
        fi
        ! is_refused "$code" "submit/array-err.$number" || return 1
    done
    return 1
}

# submit_array COMMAND...: one array of a sweep; without it the sweep is incomplete
submit_array() {
    submit_job "$@" "--comment=$comment.$number" "--array=$indexes" "--output=logs/job-%A_%a+$offset.out" \
        ${dependency:+"--dependency=$dependency$before"} bundle/job.sbatch "$digest" "$offset" "$number" && return
    head -c 1000 "submit/array-err.$number" >submit/arrays.failed
    return 1
}

# submit_entry COMMAND...: one entry of a race, unless another one runs; the others do without it
submit_entry() {
    [ ! -L state/0/claim ] || return 0
    set -- "$@" "--comment=$comment.$number"
    while IFS= read -r word; do
        case $word in
        --*) set -- "$@" "$word" ;;
        esac
    done <"submit/race.$number"
    script=bundle/job.sbatch
    [ ! -e "bundle/race.$number/job.sbatch" ] || script=bundle/race.$number/job.sbatch
    if submit_job "$@" "$script" "$digest"; then
        # what has started meanwhile may have looked for others before this one was there
        if [ -e cancel ] || [ -L state/0/claim ]; then
            id=$(cut -d';' -f1 "submit/array.$number")
            [ "$(readlink state/0/claim)" = "$id" ] || scancel "$id"
        fi
    else
        note_refusal
    fi
}

# note_refusal: write down why this job is not queued
note_refusal() {
    [ -e cancel ] ||
        printf '%s %s\n' "$number" "$(head -c 200 "submit/array-err.$number" | tr '\n' ' ')" >>submit/.failed
}

# has_ended: whether the run needs no further start
has_ended() {
    grep -qs '^end=finished$' state/0/exit.*
}

# submit_next COMMAND...: the next job of a chain, which goes on with the batch script's log; fails if there will be
# no other one
submit_next() {
    ! has_ended || return 1
    if ! submit_job "$@" "--comment=$comment.$number" "--dependency=$dependency$before" "--output=logs/job-$first.out" \
        bundle/job.sbatch "$digest" "$number"; then
        note_refusal
        return 1
    fi
    # the run may have ended before this job was there to be withdrawn
    ! has_ended || scancel "$(cut -d';' -f1 "submit/array.$number")"
}

number=0
first=$(cut -d';' -f1 submit/jobid) || exit 1
before=$first
# of a race, the entry that stands in for a refused first one has its job
if [ -s submit/entry ]; then
    printf '%s\n' "$before" >"submit/array.$(cat submit/entry)"
fi
while read -r offset indexes <&3; do
    number=$((number + 1))
    if [ "$offset" = race ]; then
        [ -s "submit/array.$number" ] || submit_entry "$@"
    elif [ "$offset" = chain ]; then
        [ -s "submit/array.$number" ] || submit_next "$@" || break
        before=$(cut -d';' -f1 "submit/array.$number")
    else
        [ -s "submit/array.$number" ] || submit_array "$@" || exit 1
        before=$(cat "submit/array.$number")
    fi
done 3<submit/arrays
[ ! -e submit/.failed ] || mv -T submit/.failed submit/arrays.failed
: >submit/arrays.done
