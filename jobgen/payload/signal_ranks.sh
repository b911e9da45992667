#!/bin/bash
# signal_ranks.sh SIGNAL SECONDS [GROUP...]: send a signal once to the program of each rank on this node. A separate
# step, because launchers exit on signals or swallow them.
#
# Of each rank's processes, the topmost one that handles the signal gets it; others would die without saving.
# A program that is still importing libraries may handle it later, so sending is retried.
set -uo pipefail
signal=$1 until=$((SECONDS + $2))
number=$(kill -l "$signal")
node=${SLURMD_NODENAME:-$HOSTNAME} groups=" ${*:3} "
declare -A sent=() start rank parent handles shells

# read_processes: the processes of this start's ranks on this node.
read_processes() {
    local pid key value host step
    start=() rank=() parent=() handles=() shells=()
    while read -r pid; do
        host=$node step=''
        while IFS='=' read -r -d '' key value; do
            case $key in
            JOBGEN_RANK_ID) start[$pid]=$value ;;
            RANK | JOBGEN_NODE_RANK) rank[$pid]=$value ;;
            SLURMD_NODENAME) host=$value ;;
            JOBGEN_STEP) step=$value ;;
            esac
        done <"/proc/$pid/environ"
        # all nodes of the local cluster are one machine
        [[ $host == "$node" ]] || unset "start[$pid]"
        # other groups of the job run on
        [[ -z ${groups// /} || $groups == *" $step "* ]] || unset "start[$pid]"
        # a shell that runs several commands only waits for them
        ! grep -qz '/program\.sh$' "/proc/$pid/cmdline" || shells[$pid]=1
    done < <(grep -lszxF "JOBGEN_STATE_DIR=$JOBGEN_STATE_DIR" /proc/[0-9]*/environ | cut -d/ -f3)
    # bash's own read goes back in a file and finds another text if the process has slept or woken meanwhile
    while IFS=$'/:\t' read -r _ _ pid _ key value; do
        [[ -n ${start[$pid]:-} ]] || continue
        case $key in
        PPid) parent[$pid]=$value ;;
        SigCgt) handles[$pid]=$((!${shells[$pid]:-0} && (16#$value >> (number - 1)) & 1)) ;;
        esac
    done < <(printf '/proc/%s/status\0' "${!start[@]}" | xargs -0 grep -sHE '^(PPid|SigCgt):')
}
# send: signal processes that can save; ranks without one are listed in unready.
send() {
    local -A ready=() without=()
    local pid above
    read_processes 2>/dev/null # processes may exit meanwhile
    for pid in "${!start[@]}"; do
        ((${handles[$pid]:-0})) || continue
        above=${parent[$pid]:-}
        # a process that has the signal stays the topmost, also when one look at /proc misses it
        [[ -z ${sent[${above:-0}]:-} ]] || continue
        while [[ -n $above && -n ${start[$above]:-} ]] && ((!${handles[$above]:-0})); do
            above=${parent[$above]:-}
        done
        [[ -z $above || -z ${start[$above]:-} ]] || continue
        ready[${start[$pid]}]=1
        [[ -z ${sent[$pid]:-} ]] || continue
        : >"$JOBGEN_STATE_DIR/signaled.$JOBGEN_RESTART"
        kill -s "$signal" "$pid" && sent[$pid]=1
    done
    for pid in "${!start[@]}"; do
        [[ -n ${ready[${start[$pid]}]:-} ]] || without[${rank[$pid]:-?}]=1
    done
    unready=("${!without[@]}")
}

told=
send
while ((${#unready[@]} > 0 || ${#sent[@]} == 0)) && ((SECONDS < until)); do
    [[ ! -e $JOBGEN_STATE_DIR/left.$JOBGEN_RESTART ]] || break # a program has succeeded
    if [[ -z $told ]] && ((SECONDS >= 3 && ${#unready[@]} > 0)); then
        printf 'jobgen: %s: no process of rank %s handles SIG%s yet: not sent\n' \
            "$node" "${unready[*]}" "$signal" >&2
        told=1
    fi
    sleep 1
    send
done
