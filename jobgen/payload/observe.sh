# shellcheck shell=sh
# look DIRECTORY: what the markers of one run say, in frames after "run DIRECTORY".
look() {
    emit run "$1"
    if ! cd -- "$1" 2>/dev/null; then
        emit missing "$1"
        return 0
    fi
    emit_file token TOKEN
    emit_file jobid submit/jobid
    if [ -e cancel ]; then
        emit cancel yes
    fi
    if [ -e secrets.env ]; then
        emit secrets yes
    fi
    for state in state/*; do
        if [ -d "$state" ]; then
            look_task "$state" "${state#state/}"
        fi
    done
}

# look_task STATE TASK: "TASK JOB" of the claim, "TASK RESTART TIME" of each start, "TASK RESTART"
# of each requeue, "TASK RESTART WORDS" of each end.
look_task() {
    if [ -L "$1/claim" ]; then
        emit claim "$2 $(readlink -- "$1/claim")"
    fi
    for mark in "$1"/started.*; do
        if [ -e "$mark" ] || [ -L "$mark" ]; then
            emit started "$2 ${mark##*started.} $(stat -c %Y -- "$mark")"
        fi
    done
    for mark in "$1"/requeued.*; do
        if [ -e "$mark" ]; then
            emit requeued "$2 ${mark##*requeued.}"
        fi
    done
    for mark in "$1"/exit.*; do
        if [ -f "$mark" ]; then
            words=''
            while IFS= read -r line || [ -n "$line" ]; do
                words="$words $line"
            done <"$mark"
            emit exit "$2 ${mark##*exit.}$words"
        fi
    done
}
