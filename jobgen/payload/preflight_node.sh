# shellcheck shell=bash disable=SC2154  # expect, node, root and checks are preflight.sh's
# Further checks of a node for preflight: full, sourced by preflight.sh. Further kinds of lines, evaluated by
# preflight_full.sh: fact NAME VALUE, compared between nodes; listens and refused, for the rendezvous port.
checks=(left memlock "${checks[@]}" interface room stale xids inside)
expect[left]=1 expect[room]=1 expect[stale]=1
((${expect[gpus]:-0} == 0)) || expect[xids]=${expect[gpus]} expect[inside]=${expect[gpus]}

# limited SECONDS COMMAND...: run a command that may hang; 124 or 137 on timeout
limited() { timeout -k 1 "$@" </dev/null; }

# ---- The rendezvous host listens on its port for a moment, with python3: bash cannot ---------------------
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
    fix = "submit again: the port depends on the job ID"
    sys.exit(print(node, "wrong", "port %d: %s" % (port, error.strerror), fix, sep="\t"))
print(node, "listens", "python3", sep="\t", flush=True)
seen = set()
while len(seen) < others:
    link, _ = server.accept()
    # a reset frees the port immediately
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.settimeout(2)
    try:
        seen.add(link.recv(256))
    except OSError:
        pass
    link.close()
    seen.discard(b"")  # a port scan
'
if [[ $node == "${expect[first]:-}" ]] && ((${expect[others]:-0} > 0)); then
    if command -v python3 >/dev/null; then
        timeout -k 1 "${expect[patience]:-180}" python3 -c "$LISTEN" \
            "$node" "${expect[port]}" "${expect[others]}" </dev/null &
        listener=$!
        trap 'kill "$listener" 2>/dev/null' TERM
        trap 'wait "$listener"' EXIT
    else
        tell skip 'rendezvous port: no python3 here to listen on it' 'not checked'
    fi
fi
check_host() {
    local port=${expect[port]:-} address answer code patience=0
    [[ $node != "${expect[first]:-}" ]] || return 0
    if command -v getent >/dev/null; then
        address=$(limited 5 getent hosts "$1")
        code=$?
        # 2: unknown host. A slow name service is not an error.
        if ((code == 2)) && [[ ! $1 =~ ^[0-9.]+$ && $1 != *:* ]]; then
            tell bad "cannot resolve the rendezvous host, $1" 'have the name service or /etc/hosts corrected'
            return
        elif [[ $address =~ ^(127\.|::1\ ) && ${expect[local]:-} != yes ]]; then
            tell bad "the rendezvous host, $1, resolves to ${address%% *}, this node itself" 'have /etc/hosts corrected'
            return
        fi
    fi
    # Retry after a refusal: the host may start to listen later. Without python3 it does not listen.
    ! command -v python3 >/dev/null || patience=$((SECONDS + 10))
    while true; do
        # shellcheck disable=SC2016  # the inner shell's own words
        answer=$(limited 5 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "%s\n" "$3" >&3' - "$1" "$port" "$node" 2>&1)
        code=$?
        if [[ $answer != *refused* ]] || ((SECONDS >= patience)); then break; fi
        sleep 0.1
    done
    if ((code == 0)); then
        tell reached "$1"
    elif [[ $answer == *refused* ]]; then
        tell refused "$1:$port"
    else
        answer=${answer##*: }
        tell lost "$1: ${answer:-no answer in 5 s}"
    fi
}

# ---- Network ---------------------------------------------------------------------------------------------
# The bootstrap interfaces must be up, with a link and an address.
check_interface() {
    local path name state ready='' down=''
    for path in "$root"/sys/class/net/*; do
        name=${path##*/}
        [[ "$name " =~ $1 && ! "$name " =~ ${expect[no_interface]:-^$} ]] || continue
        state=$(cat "$path/operstate" 2>/dev/null)
        if [[ $state =~ ^(down|lowerlayerdown|notpresent|dormant)$ || $(cat "$path/carrier" 2>/dev/null) == 0 ]]; then
            down+=", $name is down"
        elif ! has_address "$name"; then
            down+=", $name has no address"
        else
            ready=$name
        fi
    done
    if [[ -z $ready ]]; then
        tell bad "no network interface of the job is ready$down" 'check its cable and configuration (ip addr)'
    elif [[ -n $down ]]; then
        tell warn "${down#, }" 'check its cable and configuration (ip addr)'
    fi
}
has_address() {
    local text
    text=$(limited 5 ip -o addr show dev "$1" 2>/dev/null) || return 0 # unknown
    grep -Eq ' inet6? ' <<<"$text"
}
check_memlock() {
    local limit
    limit=$(ulimit -l)
    if [[ $limit != unlimited ]] && ((limit < $1)); then
        tell odd "the locked-memory limit is $limit KiB (ulimit -l), but RDMA needs unlimited" \
            'set LimitMEMLOCK=infinity for slurmd; if your shell sets the limit, use slurm: {propagate: NONE}'
    fi
}

# ---- Free space, and leftovers of earlier jobs -----------------------------------------------------------
# check_folder KIND FOLDER LEAST: report KIND if fewer MiB are free, warn below 1 GiB
check_folder() {
    local text free size fix='remove leftovers of earlier jobs there, or have the node drained'
    text=$(limited 5 df -Pk "$2" 2>/dev/null)
    if [[ ! ${text##*$'\n'} =~ \ ([0-9]+)\ +[0-9]+\ +([0-9]+)\ +[0-9]+%\  ]]; then
        tell skip "free space in $2: df fails" 'not checked'
        return
    fi
    free=$((BASH_REMATCH[2] / 1024)) size=$((BASH_REMATCH[1] / 1024))
    if ((free < $3)); then
        tell "$1" "$2 has $free MiB free of $size, but $3 are needed" "$fix"
    elif ((free < 1024)); then
        tell warn "$2 has only $free MiB free of $size" "$fix"
    fi
}
check_room() {
    check_folder warn "$root/dev/shm" "${expect[shm]:-64}"
    check_folder bad "${TMPDIR:-/tmp}" 16
    if [[ -n ${JOBGEN_RUN_DIR:-} && $node == "${expect[first]:-$node}" ]]; then
        check_folder wrong "$JOBGEN_RUN_DIR" 16
    fi
}
check_stale() {
    local count=0 file
    for file in "$root"/dev/shm/nccl-* "$root"/dev/shm/torch_* "$root"/dev/shm/psm*_shm.*; do
        [[ -O $file ]] && count=$((count + 1))
    done
    ((count == 0)) || tell warn "$count files of your earlier programs are in /dev/shm" \
        'if none of your jobs runs on this node: rm /dev/shm/nccl-* /dev/shm/torch_*'
}
check_left() {
    local name known=,${expect[env]:-},
    tell fact kernel "$(uname -r)"
    for name in $(compgen -e); do
        [[ $known != *",$name,"* ]] || continue
        case $name in
            PET_* | TORCHELASTIC_* | RANK | LOCAL_RANK | GROUP_RANK | WORLD_SIZE | LOCAL_WORLD_SIZE | NCCL_*)
                tell warn "$name=${!name} is set, but not by this job" 'unset it under setup:, or set it under env:' ;;
        esac
    done
    if [[ -s ${HOME:-}/.nccl.conf ]]; then
        tell warn "NCCL also reads ~/.nccl.conf" 'move its settings to nccl: {env: …} and remove it'
    fi
}

# ---- GPUs ------------------------------------------------------------------------------------------------
# Hardware Xids of the last hour, if the kernel log is readable. From NVIDIA, "Xid
# Errors": memory (48, 64, 94, 95, 140), NVLink (74), off the bus (79), firmware (119, 120).
check_xids() {
    local line
    line=$(limited 5 dmesg 2>/dev/null | awk -v up="$(cat "$root/proc/uptime" 2>/dev/null)" '
        BEGIN { split(up, word, " ") }
        match($0, /NVRM: Xid [^:]*[^,]*: *(48|64|74|79|94|95|119|120|140),/) {
            time = $0; sub(/^\[ */, "", time)
            if (time + 0 > word[1] - 3600) last = substr($0, RSTART)
        }
        END { if (last != "") print last }')
    [[ -z $line ]] || tell warn "the kernel reports: ${line:0:160}" 'if the job fails there, have the node checked'
}
# Facts about the GPUs, processes on them, and throttling.
check_inside() {
    local line
    line=$(cat "$root/sys/module/amdgpu/version" 2>/dev/null) && tell fact 'amdgpu driver' "$line"
    command -v nvidia-smi >/dev/null || return 0
    smi=(nvidia-smi)
    # If Slurm does not hide the GPUs of other jobs, check only the job's own.
    if (($(limited 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU [0-9]') > $1)); then
        if [[ -z ${CUDA_VISIBLE_DEVICES:-} ]]; then
            tell skip "GPUs: cannot tell which $1 belong to this job" 'not checked'
            return
        fi
        smi+=(-i "$CUDA_VISIBLE_DEVICES")
    fi
    compare_gpus
    check_throttle
    check_processes
}
# query OPTION FIELDS: one line per GPU, without blanks around commas; nothing if a field is unknown
query() { limited 10 "${smi[@]}" "--query-$1=$2" --format=csv,noheader,nounits 2>/dev/null | sed 's/ *, */,/g'; }
compare_gpus() {
    local index driver clock power name
    local -A seen=()
    while IFS=, read -r index driver clock power name; do
        [[ $index =~ ^[0-9]+$ && -n $name ]] || continue
        collect 'NVIDIA driver' "$driver"
        collect GPU "$name"
        collect 'maximum GPU clock' "$clock MHz"
        collect 'GPU power limit' "$power W"
    done < <(query gpu index,driver_version,clocks.max.sm,power.limit,name)
    for name in "${!seen[@]}"; do tell fact "$name" "${seen[$name]}"; done
}
# collect NAME VALUE: add a fact of one GPU to those of its node.
collect() { [[ ", ${seen[$1]:-}, " == *", $2, "* ]] || seen[$1]+=${seen[$1]:+, }$2; }
# Drivers before 535 use another name for the reasons.
check_throttle() {
    local index slow soft lines prefix
    for prefix in clocks_event_reasons clocks_throttle_reasons; do
        lines=$(query gpu "index,$prefix.hw_slowdown,$prefix.sw_thermal_slowdown")
        [[ $lines != *Active* ]] || break
    done
    while IFS=, read -r index slow soft; do
        if [[ $slow == Active || $soft == Active ]]; then
            tell warn "GPU $index is throttled while idle" 'check cooling and power supply'
        fi
    done <<<"$lines"
}
check_processes() {
    local gpu pid memory name fix='kill it, or have the node drained'
    while IFS=, read -r gpu pid memory name; do
        [[ $gpu == GPU-* || $gpu == MIG-* ]] || continue
        if [[ $memory =~ ^[0-9]+$ ]] && ((memory >= 1024)); then
            tell bad "process $pid ($name) uses $memory MiB of a GPU of this job" "$fix"
        else
            tell warn "process $pid ($name) uses a GPU of this job" "$fix"
        fi
    done < <(query compute-apps gpu_uuid,pid,used_gpu_memory,process_name)
}
