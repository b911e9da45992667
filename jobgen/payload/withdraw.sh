#!/bin/sh
# withdraw.sh JOB ROUNDS: cancel the other jobs of a race that JOB runs, at most so many times, until Slurm lists none
# and none is on its way. submit/race holds the mark that the comments of all share. Their ids are appended to
# state/0/withdrawn, whose last line is then "all".
umask 077
cd "$(dirname "$0")/.." || exit 1
job=$1 left=$2
read -r mark <submit/race || exit 1

# cancel_others: fails unless Slurm answers that there is none
cancel_others() {
    listed=$(timeout 10 squeue --me --noheader --states=PENDING,CONFIGURING,RUNNING,SUSPENDED --format='%A %k') || return 1
    others=$(printf '%s\n' "$listed" | while read -r id words; do
        case " $words:" in
        *"jobgen:$mark:"*) [ "$id" = "$job" ] || printf '%s\n' "$id" ;;
        esac
    done)
    [ -n "$others" ] || return 0
    printf '%s\n' "$others" >>state/0/withdrawn
    # shellcheck disable=SC2086  # several ids
    timeout 10 scancel $others
    return 1
}

while [ "$left" -gt 0 ]; do
    left=$((left - 1))
    if cancel_others && [ -e submit/arrays.done ]; then
        printf 'all\n' >>state/0/withdrawn
        exit 0
    fi
    if [ "$left" -gt 60 ]; then
        sleep 2
    elif [ "$left" -gt 0 ]; then
        sleep 30
    fi
done
exit 1
