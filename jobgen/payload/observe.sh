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
    for state in state/*; do
        if [ -d "$state" ]; then
            look_task "$state" "${state#state/}"
        fi
    done
    for dup in dup.* state/*/dup.*; do
        if [ -e "$dup" ]; then
            emit dup "${dup##*dup.}"
        fi
    done
}

# look_task STATE TASK: "TASK CLAIM", "TASK RESTART" of each start, "TASK RESTART WORDS" of each end.
look_task() {
    if [ -L "$1/claim" ]; then
        emit claim "$2 $(readlink -- "$1/claim")"
    fi
    for mark in "$1"/started.*; do
        if [ -e "$mark" ] || [ -L "$mark" ]; then
            emit started "$2 ${mark##*started.}"
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
    for mark in stop stopped; do
        if [ -e "$1/$mark" ]; then
            emit "$mark" "$2"
        fi
    done
}
