# shellcheck shell=sh
# look DIRECTORY: what the markers of one run say, in frames after "run DIRECTORY"; the last frame is
# "looked yes" if every marker was read.
look() {
    emit run "$1"
    if ! cd -- "$1" 2>/dev/null; then
        emit missing "$1"
        emit looked yes
        return 0
    fi
    if [ -e cancel ]; then
        emit cancel yes
    fi
    if [ -e secrets.env ]; then
        emit secrets yes
    fi
    emit_arrays
    for state in state/*; do
        if [ -d "$state" ]; then
            look_marks || return 0
            break
        fi
    done
    emit looked yes
}

# look_marks: "TIME 'NAME' -> 'TARGET'" of each mark, by one process for all of them, and "TASK
# RESTART WORDS" of each end, of what the batch shell recorded, and of what each preflight found.
# Fails if one of them cannot be read.
look_marks() {
    set --
    for mark in cancel claim 'started.*' 'requeued.*'; do
        # shellcheck disable=SC2086  # a pattern
        set -- state/*/$mark "$@"
        # a pattern that matches nothing stays
        if ! [ -e "$1" ] && ! [ -L "$1" ]; then
            shift
        fi
    done
    if [ "$#" -gt 0 ]; then
        words=$(stat -c '%Y %N' -- "$@" 2>/dev/null) || return 1
        emit marks "$words"
    fi
    for mark in state/*/exit.*; do
        if [ -f "$mark" ]; then
            words=''
            while IFS= read -r line || [ -n "$line" ]; do
                words="$words $line"
            done <"$mark" || return 1
            task=${mark#state/}
            emit exit "${task%%/*} ${mark##*exit.}$words"
        fi
    done
    # an end that could not be written down
    for mark in state/*/.exit; do
        if [ -f "$mark" ] && ! [ -s "$mark" ]; then
            emit full "$mark"
        fi
    done
    for mark in state/*/events/*.job; do
        if [ -s "$mark" ]; then
            task=${mark#state/}
            restart=${mark##*/}
            words=$(head -c 16384 -- "$mark") || return 1
            emit events "${task%%/*} ${restart%%.*} $words"
        fi
    done
    for mark in state/*/preflight.*/findings; do
        if [ -s "$mark" ]; then
            task=${mark#state/}
            restart=${mark%/findings}
            words=$(grep -E -m 5 '^(bad|wrong)' "$mark" | cut -c 1-300) || return 1
            emit preflight "${task%%/*} ${restart##*.} $words"
        fi
    done
    for mark in state/*/report; do
        if [ -f "$mark" ]; then
            words=$(head -c 4096 -- "$mark") || return 1
            emit report "$words"
        fi
    done
}
