# shellcheck shell=sh
# start_arrays DIRECTORY TOKEN SECONDS WORD...: submit the other arrays of a sweep beside us, and wait some
# seconds for them.
start_arrays() {
    if ! enter "$1" "$2"; then
        emit missing "$1"
        return 1
    fi
    patience=$3
    shift 3
    detach sh submit/submit_arrays.sh "$@"
    started=$(date +%s)
    while [ ! -e submit/arrays.done ] && [ ! -e submit/arrays.failed ] && [ ! -e cancel ]; do
        sleep 0.05 2>/dev/null || sleep 1
        [ "$(($(date +%s) - started))" -lt "$patience" ] || break
    done
    emit_arrays
}

# lose_arrays DIRECTORY TOKEN WHY NUMBER=ID...: put aside the ids of arrays that the scheduler has lost, so that they are
# missing; WHY they stay so, or nothing.
lose_arrays() {
    enter "$1" "$2" || return 0
    why=$3
    shift 3
    for lost; do
        array=submit/array.${lost%%=*} id=${lost#*=}
        if [ "$(cat "$array" 2>/dev/null)" = "$id" ]; then
            mv -T -- "$array" "submit/lost.$id"
        fi
    done
    rm -f -- submit/arrays.done submit/arrays.failed
    if [ -n "$why" ]; then
        printf '%s\n' "$why" >submit/arrays.failed
    fi
}
