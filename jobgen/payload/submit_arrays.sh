#!/bin/sh
# submit_arrays.sh DIGEST COMMENT PARALLEL COMMAND...: submit the arrays of a large sweep after its first one, as
# submit/arrays lists them. PARALLEL: one after the other, behind this dependency. An array that Slurm takes twice
# runs once: its first copy to start claims it. It is started detached, so that it outlives the connection.
umask 077
cd "$(dirname "$0")/.." || exit 1
digest=$1 comment=$2 chain=$3
shift 3

# one process at a time; what a process of this host left behind is taken over
if ! ln -sT "$(uname -n) $$" submit/arrays.lock 2>/dev/null; then
    holder=$(readlink submit/arrays.lock)
    [ "${holder% *}" = "$(uname -n)" ] || exit 0
    ! kill -0 "${holder##* }" 2>/dev/null || exit 0
    ln -sfT "$(uname -n) $$" submit/arrays.lock
fi
trap 'rm -f submit/arrays.lock' EXIT

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

submit_array() {
    tries=0
    while [ "$tries" -lt 4 ]; do
        [ ! -e cancel ] || return 1
        [ "$tries" = 0 ] || sleep "$((tries * 5))"
        tries=$((tries + 1))
        if [ -e "submit/array-out.$number" ]; then
            find_taken || continue
            if [ -n "$id" ]; then
                take "$id"
                return
            fi
        fi
        : >>"submit/array-out.$number" || return 1
        "$@" "--comment=$comment.$number" "--array=$indexes" "--output=logs/job-%A_%a+$offset.out" \
            ${chain:+"--dependency=$chain$before"} bundle/job.sbatch "$digest" "$offset" "$number" \
            </dev/null >"submit/array-out.$number" 2>"submit/array-err.$number"
        id=$(sed -n 's/^\([0-9][0-9]*\)\(;.*\)\{0,1\}$/\1/p' "submit/array-out.$number" | tail -n 1)
        if [ -n "$id" ]; then
            take "$id"
            return
        fi
    done
    head -c 1000 "submit/array-err.$number" >submit/arrays.failed
    return 1
}

number=0
before=$(cut -d';' -f1 submit/jobid) || exit 1
while read -r offset indexes <&3; do
    number=$((number + 1))
    [ -s "submit/array.$number" ] || submit_array "$@" || exit 1
    before=$(cat "submit/array.$number")
done 3<submit/arrays
: >submit/arrays.done
