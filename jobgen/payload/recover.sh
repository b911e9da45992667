# shellcheck shell=sh
# recover ROOT NAME...: what the run directories below ROOT say of themselves, those of these names or
# all, in frames after "run DIRECTORY". A directory of another user is none of ours, whatever it says.
recover() {
    if ! cd -- "$1" 2>/dev/null; then
        emit missing "$1"
        return 0
    fi
    recover_root=$(pwd -P)
    shift
    if [ "$#" = 0 ]; then
        set -- *-????????
    fi
    for recover_name; do
        recover_path=$recover_root/$recover_name
        if [ -n "$(find "$recover_path" -prune -type d -user "$(id -u)" 2>/dev/null)" ]; then
            recover_one
        fi
    done
}

recover_one() {
    cd -- "$recover_path" 2>/dev/null || return 0
    emit run "$recover_path"
    emit token "$(head -c 64 TOKEN 2>/dev/null)"
    emit about "$(head -c 262144 run.json 2>/dev/null)"
    emit_file jobid submit/jobid
    for recover_mark in submit/attempt.*; do
        if [ -L "$recover_mark" ]; then
            emit attempt "${recover_mark##*.}"
        fi
    done
    if [ -e cancel ]; then
        emit cancel yes
    fi
}
