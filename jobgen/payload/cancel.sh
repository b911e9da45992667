# shellcheck shell=sh
# bury DIRECTORY TOKEN: the cancel marker. From now on no attempt and no accepted copy of this run
# starts, even while the controller cannot be reached. Twice is as good as once.
bury() {
    if ! enter "$1" "$2"; then
        emit missing "$1"
        return 0
    fi
    if said=$({ date +%s >>cancel; } 2>&1); then
        emit buried yes
    else
        emit failed "$said"
    fi
}

# bury_elements DIRECTORY TOKEN ELEMENT...: the cancel markers of elements of a packed sweep. From now on no worker
# takes them.
bury_elements() {
    if ! enter "$1" "$2"; then
        emit missing "$1"
        return 0
    fi
    shift 2
    for element in "$@"; do
        if ! said=$({ mkdir -p "state/$element" && date +%s >>"state/$element/cancel"; } 2>&1); then
            emit failed "$said"
            return 0
        fi
    done
    emit buried yes
}
