# shellcheck shell=sh
# record DIRECTORY TOKEN ID: write down the id that was found by another way.
record() {
    enter "$1" "$2" || return 1
    if [ ! -s submit/jobid ]; then
        printf '%s\n' "$3" >submit/.jobid.found && mv -T submit/.jobid.found submit/jobid
    fi
}
