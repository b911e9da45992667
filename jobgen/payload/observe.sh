# shellcheck shell=sh
# look DIRECTORY: what the markers of one run say, in frames after "run DIRECTORY".
look() {
    emit run "$1"
    if ! cd -- "$1" 2>/dev/null; then
        emit missing "$1"
        return 0
    fi
    if [ -e cancel ]; then
        emit cancel yes
    fi
    if [ -e secrets.env ]; then
        emit secrets yes
    fi
    for state in state/*; do
        if [ -d "$state" ]; then
            look_marks
            break
        fi
    done
}

# look_marks: "TIME 'NAME' -> 'TARGET'" of each mark, by one process for all of them, and "TASK
# RESTART WORDS" of each end and of what each preflight found.
look_marks() {
    # what is not there is complained of and passed over
    emit marks "$(stat -c '%Y %N' -- state/*/claim state/*/started.* state/*/requeued.* 2>/dev/null)"
    for mark in state/*/exit.*; do
        if [ -f "$mark" ]; then
            words=''
            while IFS= read -r line || [ -n "$line" ]; do
                words="$words $line"
            done <"$mark"
            task=${mark#state/}
            emit exit "${task%%/*} ${mark##*exit.}$words"
        fi
    done
    for mark in state/*/preflight.*/findings; do
        if [ -s "$mark" ]; then
            task=${mark#state/}
            restart=${mark%/findings}
            words=$(grep -E -m 5 '^(bad|wrong)' "$mark" | cut -c 1-300)
            emit preflight "${task%%/*} ${restart##*.} $words"
        fi
    done
    for mark in state/*/report; do
        if [ -f "$mark" ]; then
            emit report "$(head -c 4096 -- "$mark")"
        fi
    done
}
