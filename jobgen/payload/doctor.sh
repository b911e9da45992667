# shellcheck shell=sh
# Questions of the doctor: each within its own time, and none to what has not answered before.
doctor_left_out=' '

# leave_out GROUP: ask nothing more of this group.
leave_out() {
    doctor_left_out="$doctor_left_out$1 "
}

# milliseconds: of a clock that only has to go forward.
milliseconds() {
    milliseconds_now=$(date +%s%N)
    case $milliseconds_now in
    *[!0-9]*) printf '0' ;; # a date without %N
    *) printf '%s' "${milliseconds_now%??????}" ;;
    esac
}

# probe GROUP KEY SECONDS COMMAND...: what it printed, what it complained of, its exit code and how
# long it took. It says beforehand what it asks: who reads no answer then knows what hangs.
# Its own exit code is that of the command.
probe() {
    probe_group=$1 probe_key=$2 probe_limit=$3
    shift 3
    case $doctor_left_out in
    *" $probe_group "*) return 0 ;;
    esac
    emit asking "$probe_key"
    probe_begin=$(milliseconds)
    {
        probe_err=$(
            {
                probe_out=$(timeout -k 1 "$probe_limit" "$@" 2>&4 3>&- </dev/null)
                probe_code=$?
                emit "$probe_key.out" "$probe_out" >&3
                printf '\n%s' "$probe_code"
            } 4>&1
        )
    } 3>&1
    probe_code=${probe_err##*[!0-9]}
    emit "$probe_key.err" "${probe_err%"$probe_code"}"
    emit "$probe_key.ms" "$(($(milliseconds) - probe_begin))"
    emit "$probe_key.code" "$probe_code"
    case $probe_code in
    124 | 137) leave_out "$probe_group" ;;
    esac
    return "$probe_code"
}
