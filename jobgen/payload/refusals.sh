# shellcheck shell=sh
# is_refused CODE FILE: whether sbatch, which ended with this code and wrote its complaints to this file, was certainly
# not obeyed, so that no other attempt changes the answer. submit/refusals lists such complaints; all else is unclear.
is_refused() {
    if [ "$1" = 0 ]; then
        return 1
    elif [ "$1" = 126 ] || [ "$1" = 127 ]; then
        grep -q -E '(not found|No such file or directory|Permission denied)[[:space:]]*$' "$2"
        return
    elif [ "$1" -ge 128 ] && [ "$1" != 255 ]; then
        return 1
    fi
    ! grep -q -i -E -f submit/refusals "$2" || return 0
    # a plug-in of the site: Slurm's error -1, with words of its own that do not speak of the connection
    unspecified='Batch job submission failed: Unspecified error'
    grep -q -F "$unspecified" "$2" || return 1
    words=$(grep -v -F "$unspecified" "$2" | grep '[^[:space:]]') || return 1
    wire='socket|connect|transport|timed out|communication|message|zero bytes|reset by peer|contact'
    ! printf '%s\n' "$words" | grep -q -i -E "$wire|authentication|credential"
}
