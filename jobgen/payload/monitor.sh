#!/bin/bash
# monitor.sh SECONDS FOLDER [BYTES [ROOT]]: sample this node and its GPUs at this interval, and
# append whole lines to FOLDER/<node>.csv. One runs on each node, in a separate step next to the
# program and outside its container; nothing waits for it. A file that would exceed BYTES keeps every
# second sample, and the interval doubles.
# shellcheck disable=SC2317,SC2329  # functions called by the name in look
set -uf
every=$1 folder=$2 most=${3:-2097152} root=${4:-}
node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
file=$folder/$node.csv
export LC_ALL=C
parent=$PPID

columns='time,gpu,util_pct,mem_mib,mem_total_mib,temp_c,power_w,power_limit_w,sm_mhz,sm_max_mhz'
columns+=',mem_mhz,throttle,load,cpu_pct,host_mib,host_total_mib,rx_bytes,tx_bytes'
columns+=',rdma_rx_bytes,rdma_tx_bytes'

# forwarded by srun: the batch shell sends USR2, and creates the file over, when the program has ended
idle='' asked=''
trap '[[ ! -e $folder/over ]] || exit 0' USR2
trap 'exit 0' TERM INT
trap '' HUP USR1
trap 'kill $idle $asked 2>/dev/null' EXIT

say() { printf 'jobgen: %s: %s\n' "$node" "$*" >&2; }

# ---- NVIDIA GPUs -------------------------------------------------------------------------------
fields=index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,power.limit
fields+=,clocks.sm,clocks.max.sm,clocks.mem
format='--format=csv,noheader,nounits'
# drivers before 535 use an older name for the reasons; very old ones have none
reasons=(',clocks_event_reasons.active' ',clocks_throttle_reasons.active' '')
number='^[0-9]{1,9}(\.[0-9]{1,6})?$'
# a process in a hanging driver cannot even be killed: do not wait for it, and start no other
patience=10

# ask WORD...: the output of nvidia-smi in the array lines, its exit code in code
ask() {
    local line got
    lines=() code=124
    if [[ -n $asked ]] && kill -0 "$asked" 2>/dev/null; then return; fi
    exec {answer}< <(exec timeout -k 1 "$patience" nvidia-smi "$@" 2>/dev/null)
    asked=$!
    while ((${#lines[@]} < 256)); do
        IFS= read -r -t $((patience + 2)) -u "$answer" line
        got=$?
        ((got == 0)) || break
        lines+=("$line")
    done
    exec {answer}<&-
    ((got <= 128)) || return
    ((got > 0)) || kill "$asked"
    wait "$asked"
    code=$? asked=''
}

# Find a query that this driver supports. Only the GPUs that Slurm assigned, if it reports them.
choose() {
    local given=${CUDA_VISIBLE_DEVICES-} only reason
    for only in ${given:+"--id=$given"} ''; do
        for reason in "${reasons[@]}"; do
            question=("--query-gpu=$fields$reason" "$format" ${only:+"$only"})
            ask "${question[@]}"
            ((code == 0 && ${#lines[@]} > 0)) && return
            # it hangs now, but may answer later
            ((code != 124)) || return 0
        done
    done
    return 1
}

words=(idle app_clocks sw_power_cap hw_slowdown sync_boost sw_thermal hw_thermal hw_power_brake
    display_clocks)
# throttle MASK: the bits of nvmlClocksEventReasons in nvml.h, as words
throttle() {
    local bit mask
    throttled=''
    [[ $1 =~ ^0x[0-9a-fA-F]{1,16}$ ]] || return
    mask=$(($1))
    for bit in "${!words[@]}"; do
        if ((mask >> bit & 1)); then throttled+=${throttled:++}${words[bit]}; fi
    done
}

silent='nvidia-smi tells of no GPU'
nvidia() {
    local line values value row told='' IFS=,
    ask "${question[@]}"
    for line in "${lines[@]}"; do
        # shellcheck disable=SC2206  # split at the commas; set -f expands nothing
        values=(${line// /})
        [[ ${#values[@]} -ge 10 && ${values[0]} =~ ^[0-9]{1,4}$ ]] || continue
        row=$now,${values[0]}
        for value in "${values[@]:1:9}"; do
            # [N/A], [Not Supported], ERR! and others are not numbers
            [[ $value =~ $number ]] || value=''
            row+=,$value
        done
        throttle "${values[10]:-}"
        rows+=$row,$throttled,,,,,,,,$'\n' told=1
    done
    [[ -n $told ]] || once "$silent"
}

# ---- AMD GPUs: the driver's files, which rocm-smi reads, too -------------------------------------
# scaled NAME DIVISOR FILE...: the number in the first readable file, divided; else nothing
scaled() {
    local path value=''
    printf -v "$1" ''
    for path in "${@:3}"; do
        if [[ -r $path ]] && read -r value 2>/dev/null <"$path" && [[ $value =~ ^[0-9]{1,18}$ ]]; then
            printf -v "$1" '%s' $((value / $2))
            return
        fi
    done
}

amd() {
    local at card sensors util used total temp power limit sm mem
    for at in "${!cards[@]}"; do
        card=${cards[at]} sensors=${hwmon[at]}
        scaled util 1 "$card/gpu_busy_percent"
        scaled used 1048576 "$card/mem_info_vram_used"
        scaled total 1048576 "$card/mem_info_vram_total"
        scaled temp 1000 "$sensors/temp2_input" "$sensors/temp1_input"
        scaled power 1000000 "$sensors/power1_average" "$sensors/power1_input"
        scaled limit 1000000 "$sensors/power1_cap"
        scaled sm 1000000 "$sensors/freq1_input"
        scaled mem 1000000 "$sensors/freq2_input"
        rows+=$now,$at,$util,$used,$total,$temp,$power,$limit,$sm,,$mem,,,,,,,,,$'\n'
    done
}

# ---- Node ----------------------------------------------------------------------------------------
# add NAME FACTOR FILE...: the sum of these counters. An unreadable one keeps its last value: left out,
# its whole count would appear as traffic when it is readable again.
declare -A counted=()
add() {
    local path value sum=0
    for path in "${@:3}"; do
        if read -r value 2>/dev/null <"$path" && [[ $value =~ ^[0-9]{1,19}$ ]]; then
            counted[$path]=$value
        fi
        sum=$((sum + ${counted[$path]:-0} * $2))
    done
    printf -v "$1" '%s' "$sum"
}

busy_before='' all_before=''
host() {
    local load='' key value total='' free='' cpu='' used='' times=() all=0 busy time
    local rx tx rdma_rx rdma_tx more
    read -r load _ 2>/dev/null <"$root/proc/loadavg"
    while read -r key value _; do
        case $key in MemTotal:) total=$((value / 1024)) ;; MemAvailable:) free=$((value / 1024)) ;; esac
    done 2>/dev/null <"$root/proc/meminfo"
    [[ -z $total || -z $free ]] || used=$((total - free))
    # user nice system idle iowait irq softirq steal
    read -r -a times 2>/dev/null <"$root/proc/stat"
    for time in "${times[@]:1:8}"; do all=$((all + time)); done
    busy=$((all - ${times[4]:-0} - ${times[5]:-0}))
    if [[ -n $all_before ]] && ((all > all_before)); then
        cpu=$((100 * (busy - busy_before) / (all - all_before)))
    fi
    busy_before=$busy all_before=$all
    add rx 1 "${net[@]/%//rx_bytes}"
    add tx 1 "${net[@]/%//tx_bytes}"
    # InfiniBand counts in units of four bytes, EFA in bytes
    add rdma_rx 4 "${ports[@]/%//port_rcv_data}"
    add rdma_tx 4 "${ports[@]/%//port_xmit_data}"
    add more 1 "${efa[@]/%//rx_bytes}"
    rdma_rx=$((rdma_rx + more))
    add more 1 "${efa[@]/%//tx_bytes}"
    rdma_tx=$((rdma_tx + more))
    ((${#ports[@]} + ${#efa[@]} > 0)) || rdma_rx='' rdma_tx=''
    ((${#net[@]} > 0)) || rx='' tx=''
    rows+=$now,host,,,,,,,,,,,$load,$cpu,$used,$total,$rx,$tx,$rdma_rx,$rdma_tx$'\n'
}

# Hardware interfaces; if there are none, all but loopback. Bridges would count bytes twice.
look_around() {
    local path sensor
    set +f
    shopt -s nullglob
    net=() ports=() efa=() cards=() hwmon=()
    for path in "$root"/sys/class/net/*/device; do net+=("${path%/device}/statistics"); done
    if ((${#net[@]} == 0)); then
        for path in "$root"/sys/class/net/*/statistics; do
            [[ $path == */lo/statistics ]] || net+=("$path")
        done
    fi
    for path in "$root"/sys/class/infiniband/*/ports/*/counters/port_rcv_data; do
        ports+=("${path%/*}")
    done
    for path in "$root"/sys/class/infiniband/efa*/ports/*/hw_counters/rx_bytes; do
        efa+=("${path%/*}")
    done
    for path in "$root"/sys/class/drm/card*/device/mem_info_vram_total; do
        cards+=("${path%/*}")
        sensor=''
        for sensor in "${path%/*}"/hwmon/hwmon*; do break; done
        hwmon+=("$sensor")
    done
    shopt -u nullglob
    set -f
}

# ---- Output file -----------------------------------------------------------------------------------
complaints=''
once() {
    [[ $complaints != *"|$*|"* ]] || return
    complaints+="|$*|"
    say "$*"
}

write() {
    if printf '%s' "$1" >>"$file"; then size=$((size + ${#1})); fi 2>/dev/null
    ((size > most)) || return
    thin
}

thin() {
    local line last='' keep=0 full=''
    size=0
    while IFS= read -r line; do
        if [[ ${line%%,*} != "$last" ]]; then last=${line%%,*} keep=$((1 - keep)); fi
        if ((keep)) || [[ $last == time ]]; then
            printf '%s\n' "$line" 2>/dev/null || full=1
            size=$((size + ${#line} + 1))
        fi
        # the header is not a sample
        [[ $last != time ]] || keep=0
    done <"$file" >"$folder/.$node.part"
    if [[ -n $full ]]; then
        rm -f "$folder/.$node.part"
        return
    fi
    mv -f "$folder/.$node.part" "$file"
    every=$((every * 2))
}

# The process that started this step is gone: nothing else would end it.
orphaned() {
    local stat=''
    read -r stat 2>/dev/null <"/proc/$$/stat"
    stat=${stat##*) }
    read -r _ stat _ <<<"$stat"
    [[ -n $stat && $stat != "$parent" ]]
}

mkdir -p "$folder" || exit 0
look_around
look=:
if command -v nvidia-smi >/dev/null; then
    # retried after a failure: a driver may need a moment
    look=nvidia
    choose || once "$silent"
elif ((${#cards[@]} > 0)); then
    look=amd
else
    say 'no nvidia-smi and no AMD GPU found: only the node is sampled'
fi
size=0
[[ -s $file ]] || write "$columns"$'\n'
next=$SECONDS
while ! orphaned; do
    printf -v now '%(%s)T' -1
    rows=''
    $look
    host
    write "$rows"
    next=$((next + every))
    ((next > SECONDS)) || next=$((SECONDS + 1))
    # SECONDS follows the clock, which may be set back
    ((next <= SECONDS + every)) || next=$((SECONDS + every))
    sleep $((next - SECONDS)) &
    idle=$!
    wait "$idle"
    idle=''
done
exit 0
