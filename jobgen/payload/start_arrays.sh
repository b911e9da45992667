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
