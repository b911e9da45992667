# shellcheck shell=sh
# resolve DIRECTORY TOKEN K MARK: whether the process of attempt K still lives; after report and the
# questions to the scheduler, the claims once more.
resolve() {
    if ! enter "$1" "$2"; then
        emit missing "$1"
        return 1
    fi
    report "$3"
    # sbatch is a child that may outlive submit.sh: look for the words they share. The pattern goes
    # through a pipe, or this grep would find itself; -q counts a find although another process
    # ended while it was being read.
    resolve_mark=jobgen:$4:$3
    set -- /proc/[0-9]*/cmdline
    if printf '%s\n' "$resolve_mark" | grep -q -a -F -f - -- "$@" 2>/dev/null; then
        emit alive yes
    else
        emit alive no
    fi
}
