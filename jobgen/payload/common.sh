# shellcheck shell=sh
# Shared by the scripts that are sent to the login host: how they answer, and a clean environment.
# They need a POSIX shell, the coreutils, tar, and (for one question) grep.
user_locale=${LC_ALL-}
LC_ALL=C
export LC_ALL
# what the account had before the connection made it private, or before this does
user_umask=${jg_umask:-$(umask)}
umask 077

# emit KEY TEXT: one frame, "KEY LENGTH\nTEXT\n". A length cannot be forged by what it measures.
emit() {
    printf '%s %s\n%s\n' "$1" "${#2}" "$2"
}

# emit_file KEY FILE: the first 16 KiB of a file, nothing where it is not there.
emit_file() {
    if [ -f "$2" ]; then
        emit "$1" "$(head -c 16384 -- "$2")"
    fi
}

# emit_arrays: which further jobs of a run the scheduler took (arrays of a large sweep, entries of a race), why others
# were not, and which the winner of a race withdrew.
emit_arrays() {
    for array in submit/array.[0-9]*; do
        if [ -s "$array" ]; then
            emit array "${array##*.} $(cat "$array")"
        fi
    done
    emit_file arrays-failed submit/arrays.failed
    emit_file withdrawn state/0/withdrawn
}

# ask KEY COMMAND...: what it printed, what it complained of and its exit code, in three frames. A
# controller that does not answer must not hold up the rest: fifteen seconds, then exit code 124.
ask() {
    ask_key=$1
    shift
    {
        ask_err=$(
            {
                ask_out=$(timeout 15 "$@" 2>&4 3>&- </dev/null)
                ask_code=$?
                emit "$ask_key.out" "$ask_out" >&3
                emit "$ask_key.code" "$ask_code" >&3
            } 4>&1
        )
    } 3>&1
    emit "$ask_key.err" "$ask_err"
}

# clean_environment: a login profile may set defaults of the scheduler's commands behind our back.
# What says where the controller is, and who we are to it, stays.
clean_environment() {
    for clean_name in $(env | while IFS='=' read -r found _; do
        case $found in
        *[!A-Za-z0-9_]*) ;;
        SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_SACK_*) ;;
        SBATCH_* | SLURM_* | SQUEUE_* | SACCT_* | SCONTROL_* | SCANCEL_*) printf '%s\n' "$found" ;;
        esac
    done); do
        unset "$clean_name"
    done
}

# enter DIRECTORY TOKEN: into a run directory, only if it is the one of this token.
enter() {
    cd -- "$1" 2>/dev/null || return 1
    read -r enter_token <TOKEN 2>/dev/null || [ -n "${enter_token:-}" ] || return 1
    [ "$enter_token" = "$2" ]
}

# detach COMMAND...: in a session of its own, which the end of the connection does not reach, with
# the account's own locale and umask.
detach() {
    (
        umask "$user_umask"
        unset LC_ALL
        if [ -n "$user_locale" ]; then
            LC_ALL=$user_locale
            export LC_ALL
        fi
        exec setsid "$@" </dev/null >/dev/null 2>&1
    ) &
}
