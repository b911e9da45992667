#!/bin/bash
# preflight.sh [WHAT=VALUE...]: look whether this node is fit for the job, and say what was found.
# By hand, on any node: bash preflight.sh gpus=8 shm=1024
#
# A line is NODE, KIND, WORDS..., with tabs between. The kinds:
#   clock SECONDS     what this node's clock says, first of all
#   look WHAT         looked at next: the last of them tells where a node is stuck
#   fact NAME VALUE   to be compared with the other nodes
#   bad WHAT FIX      the node is not fit: the job must not start on it
#   odd WHAT FIX      bad, where the other nodes are better; else the profile says too much
#   wrong WHAT FIX    the job cannot start, and no other node would help
#   warn WHAT FIX     it may be slow, or fail later
#   skip WHAT         could not be looked at
#   end SECONDS       how long it took
set -uo pipefail
export LC_ALL=C

here=${BASH_SOURCE[0]%/*}
[[ $here != "${BASH_SOURCE[0]}" ]] || here=.
node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
root=${PREFLIGHT_ROOT:-} # the tests have a /sys of their own
declare -A expect=()
for word in "$@"; do expect[${word%%=*}]=${word#*=}; done

tell() {
    local line=$node word
    for word in "$@"; do
        # srun cuts lines at 1024 bytes, and another node's may come between
        word=${word:0:300}
        word=${word//[^[:print:]]/ }
        line+=$'\t'${word:--}
    done
    printf '%s\n' "$line"
}

# limited SECONDS COMMAND...: a command that may hang; 124 or 137 where it did
limited() { timeout -k 1 "$@" </dev/null; }
hung() { (($1 == 124 || $1 == 137)); }

# value FILE: its first line; nothing where it cannot be read
value() {
    local line=
    [[ -r $1 ]] && IFS= read -r line <"$1"
    printf '%s' "$line"
} 2>/dev/null

# ---- Network ---------------------------------------------------------------------------------------
# chosen NAME[:PORT] LIST: whether NCCL would take it. =a,b are whole names, a,b are beginnings, ^a,b
# all others.
chosen() {
    local list=$2 part not='' exact='' hit=''
    [[ -n $list ]] || return 0
    if [[ $list == ^* ]]; then not=1 list=${list#^}; fi
    if [[ $list == =* ]]; then exact=1 list=${list#=}; fi
    for part in ${list//,/ }; do
        if [[ $part == *:* ]]; then
            [[ $1 != "$part" ]] || hit=1
        elif [[ ${1%%:*} == "$part" || (-z $exact && ${1%%:*} == "$part"*) ]]; then
            hit=1
        fi
    done
    [[ -n $hit && -z $not || -z $hit && -n $not ]]
}

cards() {
    [[ -n ${expect[cards]:-} ]] || return 0
    tell look 'network cards'
    local port name state rate ready=0 poor=() list=${expect[hca]:-}
    if [[ ! -d $root/sys/class/infiniband ]]; then
        tell odd 'no RDMA card is there' 'have the driver loaded (ibstat), or the node drained'
        return
    fi
    for port in "$root"/sys/class/infiniband/*/ports/*; do
        [[ -d $port ]] || continue
        name=${port#"$root/sys/class/infiniband/"}
        name=${name%%/*}:${port##*/}
        chosen "$name" "$list" || continue
        [[ -z ${expect[layer]:-} || $(value "$port/link_layer") == "${expect[layer]}" ]] || continue
        state=$(value "$port/state") rate=$(value "$port/rate")
        rate=${rate%% *} rate=${rate%%.*}
        if [[ $state != *ACTIVE ]]; then
            poor+=("$name is ${state#*: }")
        elif ((${rate:-0} < ${expect[gbps]:-0})); then
            poor+=("$name runs at $rate Gb/s instead of ${expect[gbps]}")
        else
            ready=$((ready + 1))
        fi
    done
    if ((ready < expect[cards])); then
        local what="$ready of ${expect[cards]} network cards are ready" IFS=';'
        tell odd "$what${poor:+: ${poor[*]}}" 'have cable, switch port and driver looked at (ibstat)'
    fi
}

# The interface on which the nodes meet: up, with a link, with an address.
interfaces() {
    [[ -n ${expect[ifname]:-} ]] || return 0
    tell look 'network interfaces'
    local path name state ready='' down=() list=${expect[ifname]}
    for path in "$root"/sys/class/net/*; do
        name=${path##*/}
        # loopback only where it is named, and never as one of all the others
        if [[ $name == lo && $list == ^* ]] || ! chosen "$name" "$list"; then continue; fi
        state=$(value "$path/operstate")
        if [[ $state =~ ^(down|lowerlayerdown|notpresent|dormant)$ || $(value "$path/carrier") == 0 ]]; then
            down+=("$name is down")
        elif ! addressed "$name"; then
            down+=("$name has no address")
        else
            ready=$name
        fi
    done
    local IFS=';' fix='have its cable and its configuration looked at (ip addr)'
    if [[ -n $ready ]]; then
        ((${#down[@]} == 0)) || tell warn "${down[*]}" "$fix"
    else
        tell bad "no interface of ${list#[=^]} is ready${down:+: ${down[*]}}" "$fix"
    fi
}

addressed() {
    local told
    told=$(limited 5 ip -o addr show dev "$1" 2>/dev/null) || return 0 # not looked at
    grep -Eq ' inet6? ' <<<"$told"
}

memlock() {
    [[ -n ${expect[memlock]:-} ]] || return 0
    local here
    here=$(ulimit -l)
    if [[ $here != unlimited ]] && ((here < expect[memlock])); then
        tell odd "only $here KiB of memory may be locked (ulimit -l), and RDMA needs all of it" \
            'LimitMEMLOCK=infinity for slurmd; where your shell limits it, slurm: {propagate: NONE}'
    fi
}

# The head listens for a moment on the port of the rendezvous. Bash cannot, so python3 does.
LISTEN='
import socket, struct, sys
node, port, others = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
except OSError:
    server = socket.socket(socket.AF_INET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    server.bind(("", port))
    server.listen(1024)
except OSError as error:
    fix = "submit it again: the port follows from the job id"
    sys.exit(print(node, "wrong", "port %d: %s" % (port, error.strerror), fix, sep="\t"))
print(node, "listens", "python3", sep="\t", flush=True)
seen = set()
while len(seen) < others:
    link, _ = server.accept()
    # the port is free at once: a reset leaves no connection behind
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.settimeout(2)
    try:
        seen.add(link.recv(256))
    except OSError:
        pass
    link.close()
    seen.discard(b"")  # somebody else, who looks for open ports
'

way() {
    local name=${expect[head]:-} port=${expect[port]:-} address said code patience=0
    [[ -n $name && $node != "${expect[first]:-}" ]] || return 0
    tell look "the way to $name"
    if command -v getent >/dev/null; then
        address=$(limited 5 getent hosts "$name")
        code=$?
        # 2: it is not there. Whoever is slow to say so is tried all the same.
        if ((code == 2)) && [[ ! $name =~ ^[0-9.]+$ && $name != *:* ]]; then
            tell bad "the name of the head, $name, is not known here" 'have the name service or /etc/hosts corrected'
            return
        elif [[ $address =~ ^(127\.|::1\ ) && ${expect[local]:-} != yes ]]; then
            tell bad "the head, $name, is ${address%% *} here: this node itself" 'have /etc/hosts corrected'
            return
        fi
    fi
    # who is refused comes again: the head may be a little later. Without python3 nobody listens.
    ! command -v python3 >/dev/null || patience=$((SECONDS + 10))
    while true; do
        # shellcheck disable=SC2016  # the inner shell's own words
        said=$(limited 5 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "%s\n" "$3" >&3' - "$name" "$port" "$node" 2>&1)
        code=$?
        if [[ $said != *refused* ]] || ((SECONDS >= patience)); then break; fi
        sleep 0.1
    done
    if ((code == 0)); then
        tell reached "$name"
    elif [[ $said == *refused* ]]; then
        tell refused "$name:$port"
    else
        said=${said##*: }
        hung "$code" && said='no answer in 5 s'
        tell lost "$name:$port: ${said:-no connection}"
    fi
}

# ---- Room, and what earlier jobs left ---------------------------------------------------------------
# left_in FOLDER: MiB that are free and MiB in all
left_in() {
    local told
    told=$(limited 5 df -Pk "$1" 2>/dev/null) || return
    [[ ${told##*$'\n'} =~ \ ([0-9]+)\ +[0-9]+\ +([0-9]+)\ +[0-9]+%\  ]] &&
        printf '%s %s' "$((BASH_REMATCH[2] / 1024))" "$((BASH_REMATCH[1] / 1024))"
}

room() {
    local kind=$1 folder=$2 least=$3 enough=$4 fix=$5 left all
    tell look "room in $folder"
    read -r left all < <(left_in "$folder")
    if [[ -z ${left:-} ]]; then
        tell skip "room in $folder: df does not tell"
    elif ((left < least)); then
        # what a site makes so small is no node's fault, unless others are better
        if [[ $kind == bad ]] && ((all < least)); then
            kind=odd
            ((${expect[others]:-0} > 0)) || kind=warn
        fi
        tell "$kind" "$folder has $left MiB free of $all, and needs $least" "$fix"
    elif ((left < enough)); then
        tell warn "$folder has only $left MiB free of $all" "$fix"
    fi
}

stale() {
    local count=0 file
    for file in "$root"/dev/shm/nccl-* "$root"/dev/shm/torch_* "$root"/dev/shm/psm*_shm.*; do
        [[ -O $file ]] && count=$((count + 1))
    done
    ((count == 0)) || tell warn "$count files of earlier programs of yours are in /dev/shm" \
        'where no job of yours runs on this node: rm /dev/shm/nccl-* /dev/shm/torch_*'
}

left_over() {
    local name known=,${expect[env]:-},
    tell look 'the home folder'
    for name in $(compgen -e); do
        [[ $known != *",$name,"* ]] || continue
        case $name in
            PET_* | TORCHELASTIC_* | RANK | LOCAL_RANK | GROUP_RANK | WORLD_SIZE | LOCAL_WORLD_SIZE | NCCL_*)
                tell warn "$name=${!name} is set, and not by this job" 'unset it under setup:, or say it under env:' ;;
        esac
    done
    if [[ -s ${HOME:-}/.nccl.conf ]]; then
        tell warn "NCCL reads ~/.nccl.conf" 'remove it, and say what it sets under nccl: {env: …}'
    fi
}

begun=${EPOCHREALTIME:-$SECONDS}
tell clock "$(date +%s)"
listener=
if [[ $node == "${expect[first]:-}" ]] && ((${expect[others]:-0} > 0)); then
    if command -v python3 >/dev/null; then
        timeout -k 1 "${expect[patience]:-30}" python3 -c "$LISTEN" \
            "$node" "${expect[port]}" "${expect[others]}" </dev/null &
        listener=$!
        trap 'kill "$listener" 2>/dev/null' TERM
    else
        tell skip 'whether the port is open: no python3 here to listen on it'
    fi
fi
tell fact kernel "$(uname -r)"
left_over
memlock
cards
interfaces
room bad "$root/dev/shm" "${expect[shm]:-64}" 1024 'rm what earlier jobs left there, or have the node drained'
room bad "${TMPDIR:-/tmp}" 16 1024 'rm what earlier jobs left there, or have the node drained'
if [[ -n ${JOBGEN_RUN_DIR:-} && $node == "${expect[first]:-$node}" ]]; then
    room wrong "$JOBGEN_RUN_DIR" 16 1024 'make room on this disk: the logs are written there'
fi
stale
way
if ((${expect[gpus]:-0} > 0)); then
    # shellcheck source=/dev/null
    source "$here/preflight_gpus.sh"
    gpus
fi
took=$(awk -v a="$begun" -v b="${EPOCHREALTIME:-$SECONDS}" 'BEGIN { printf "%.2f", b - a }')
tell end "$took"
[[ -z $listener ]] || wait "$listener"
