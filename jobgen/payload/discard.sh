# shellcheck shell=sh
# discard DIRECTORY TOKEN: remove a run directory that was refused; never another's.
discard() {
    enter "$1" "$2" || return 0
    discard_name=$(basename -- "$1")
    cd .. && rm -rf -- "$discard_name"
}

# clear DIRECTORY TOKEN: the same, and the unfinished uploads of that run.
clear() {
    (discard "$1" "$2")
    rm -rf -- "$1".part-*
}

# sweep DIRECTORY TOKEN: remove the secrets of a run that has ended.
sweep() {
    (enter "$1" "$2" && rm -rf -- secrets.env state/*/enroot.*)
}
