# shellcheck shell=sh
# Sent to the login host: the job that looks at a node, submitted, looked after and cleaned up.

# probe_start ROOT NONCE HOSTS OPTION...: make a folder of its own below ROOT, put the script from
# standard input there and submit it with these options; it is handed the names in HOSTS.
probe_start() {
    probe_folder=$1/.jobgen-probe-$2
    probe_hosts=$3
    shift 3
    probe_error=$({ mkdir -p -- "${probe_folder%/*}" && mkdir -- "$probe_folder" &&
        cat >"$probe_folder/probe.sh"; } 2>&1)
    if [ -n "$probe_error" ] || ! cd -- "$probe_folder" || [ ! -s probe.sh ]; then
        emit failed "${probe_error:-nothing could be written to $probe_folder}"
        return 0
    fi
    emit folder "$probe_folder"
    # shellcheck disable=SC2086  # host names are words
    ask sbatch sbatch "$@" --chdir="$probe_folder" --output="$probe_folder/slurm.out" \
        probe.sh "$probe_folder" $probe_hosts
}

# probe_look FOLDER JOB: where the job stands, and the node's answer once it is there.
probe_look() {
    ask queue squeue --noheader --states=all --jobs="$2,$2" --format='%T|%r|%N'
    # to open a folder is when NFS asks the server what is in it
    ls -- "$1" >/dev/null 2>&1
    if [ -f "$1/answer" ]; then
        emit answer "$(cat -- "$1/answer")"
    fi
}

# probe_end FOLDER JOB ROOT: the job is cancelled if it is still there, and nothing is left behind.
probe_end() {
    if [ -n "$2" ]; then
        ask cancel scancel "$2"
    fi
    emit_file said "$1/slurm.out"
    case $1 in
    */.jobgen-probe-*)
        rm -f -- "$1/probe.sh" "$1/answer" "$1/answer.part" "$1/slurm.out"
        rmdir -- "$1" "$3" 2>/dev/null
        ;;
    esac
    emit ended yes
}
