#!/bin/bash
# What a node says of itself. Run by `jobgen cluster add` with leave, as a job of two minutes; it
# changes nothing. Each answer is a frame "KEY LENGTH\nTEXT\n"; a tool that is not there says so by
# exit code 127.
LC_ALL=C
export LC_ALL
# fi_info and rocm-smi are installed where login shells alone look
PATH=$PATH:/usr/sbin:/sbin:/opt/amazon/efa/bin:/opt/rocm/bin

emit() {
    printf '%s %s\n%s\n' "$1" "${#2}" "$2"
}

# ask KEY COMMAND…: its output and its exit code; ten seconds, then code 124.
ask() {
    local out code
    if command -v "$2" >/dev/null 2>&1; then
        out=$(timeout 10 "${@:2}" 2>&1 </dev/null)
        code=$?
    else
        out="$2 is not there" code=127
    fi
    emit "$1.out" "${out:0:200000}"
    emit "$1.code" "$code"
}

# reached HOST: whether a connection to its port 443 opens, directly or through the proxy that the
# environment names.
reached() {
    if [[ -n ${https_proxy:-${HTTPS_PROXY:-}} ]] && command -v curl >/dev/null 2>&1; then
        timeout 5 curl -sI -o /dev/null "https://$1" </dev/null 2>/dev/null
    else
        timeout 5 bash -c "exec 3<>/dev/tcp/$1/443" </dev/null 2>/dev/null
    fi
}

# interface HOST: the interface on which HOST is reached.
interface() {
    local address
    address=$(timeout 5 getent ahostsv4 "$1" 2>/dev/null | awk 'NR == 1 {print $1}')
    [[ -z $address ]] || timeout 5 ip -o route get "$address" 2>&1
}

# ports: "DEVICE PORT|LAYER|STATE|RATE" of every RDMA port, as /sys tells it.
ports() {
    local port device
    for port in /sys/class/infiniband/*/ports/*; do
        [[ -d $port ]] || continue
        device=${port%/ports/*}
        printf '%s %s|%s|%s|%s\n' "${device##*/}" "${port##*/}" "$(cat "$port/link_layer")" \
            "$(cat "$port/state")" "$(cat "$port/rate")"
    done 2>/dev/null
}

# peer HOST…: the first that is another machine than this one.
peer() {
    local name
    for name in "$@"; do
        [[ $name == "${SLURMD_NODENAME-}" || $name == "$(hostname)" ]] || break
    done
    printf '%s' "$name"
}

# probe DIRECTORY HOST…: all answers; HOSTs are other nodes, or the login host.
probe() {
    emit host "$(hostname)"
    [[ -n ${SLURMD_NODENAME-} ]] && emit node "$SLURMD_NODENAME"
    ask gpu nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits
    ask smi nvidia-smi
    ask topo nvidia-smi topo -m
    ask amd rocm-smi --showproductname --showmeminfo vram --csv
    ask ibstat ibstat
    ask ibv ibv_devinfo -v
    ask netdev ibdev2netdev
    ask efa fi_info -p efa -t FI_EP_RDM
    emit rdma "$(ports)"
    emit links "$(cd /sys/class/net 2>/dev/null && printf '%s\n' *)"
    ask ip ip -o addr
    emit route "$(interface "$(peer "${@:2}")")"
    ask default ip -o -4 route show default
    local name
    for name in /sys/class/net/*; do
        emit speed "${name##*/} $(cat "$name/speed" 2>/dev/null)"
    done
    ask lscpu lscpu
    emit shm "$(timeout 5 df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $2, $4}')"
    emit memlock "$(ulimit -l)"
    local host answered=no
    for host in huggingface.co github.com; do
        if reached "$host"; then
            answered=$host
            break
        fi
    done
    emit internet "$answered"
    emit end "$(hostname)"
}

# In one move, so that what is read is whole.
probe "$@" >"$1/answer.part" && mv "$1/answer.part" "$1/answer"
