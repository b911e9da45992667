# shellcheck shell=sh
# start DIRECTORY TOKEN K SECONDS FORGET COMMAND...: run attempt K beside us, wait some seconds for
# its end, tell what is known. FORGET is an id that the scheduler has lost, or nothing.
start() {
    if ! enter "$1" "$2"; then
        emit missing "$1"
        return 1
    fi
    attempt=$3 patience=$4 forget=$5
    shift 5
    if [ -n "$forget" ] && [ "$(cat submit/jobid 2>/dev/null)" = "$forget" ]; then
        mv -T -- submit/jobid "submit/lost.$forget"
        if [ -e submit/arrays ]; then
            # the scheduler lost all jobs of the run
            rm -f -- submit/array.[0-9]* submit/arrays.done submit/arrays.failed submit/.failed submit/entry
        fi
    fi
    # date, because a shell's own printf does not say why it cannot write
    if ! said=$({ date >submit/.room && rm -f submit/.room; } 2>&1); then
        emit failed "$said"
        emit free "$(df -Pk . 2>/dev/null | tail -n 1)"
        return 1
    fi
    detach sh submit/submit.sh "$attempt" "$@"
    started=$(date +%s)
    while [ ! -e "submit/rc.$attempt" ] && [ ! -s submit/jobid ] && [ ! -e cancel ]; do
        sleep 0.03 2>/dev/null || sleep 1
        [ "$(($(date +%s) - started))" -lt "$patience" ] || break
    done
    report "$attempt"
}

# report K: all that the run directory knows of attempt K.
report() {
    emit now "$(date +%s)"
    emit host "$(uname -n)"
    if [ -e cancel ]; then
        emit cancel yes
    fi
    # first, because the rest is complete where this is there
    if [ -f "submit/rc.$1" ]; then
        emit rc "$(cat "submit/rc.$1")"
        emit ended "$(stat -c %Y -- "submit/rc.$1")"
    fi
    emit_file jobid submit/jobid
    emit_file out "submit/out.$1"
    emit_file err "submit/err.$1"
    if [ -L "submit/attempt.$1" ]; then
        emit attempt "$(readlink -- "submit/attempt.$1")"
    fi
    claims
}

# claims: which job has claimed each task of this run.
claims() {
    for claim in state/*/claim; do
        if [ -L "$claim" ]; then
            emit claim "$(readlink -- "$claim")"
        fi
    done
}
