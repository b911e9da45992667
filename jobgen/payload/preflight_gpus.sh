# shellcheck shell=bash disable=SC2154  # expect and root are preflight.sh's
# What preflight.sh looks at where the job asked for GPUs: that they are there, healthy and free.

gpus() {
    tell look GPUs
    if command -v nvidia-smi >/dev/null; then
        nvidia "${expect[gpus]}"
    elif [[ -d $root/sys/class/kfd/kfd/topology/nodes ]]; then
        amd "${expect[gpus]}"
    else
        tell skip 'GPUs: neither nvidia-smi nor the amdgpu driver is here'
    fi
}

too_few() {
    local what="$1 of $2 GPUs are there"
    [[ -z ${3-} ]] || what+=" ($3)"
    tell bad "$what" 'have the node drained: a GPU is off the bus, or its driver is not loaded'
}

nvidia() {
    local asked=$1 listed code seen inside took=$SECONDS
    listed=$(limited 20 nvidia-smi -L 2>&1)
    code=$?
    if hung "$code"; then
        tell bad 'nvidia-smi does not answer in 20 s' 'have the node drained: a GPU or its driver hangs'
        return
    fi
    if ((code == 126 || code == 127)); then
        tell skip 'GPUs: nvidia-smi cannot be run'
        return
    fi
    seen=$(grep -c '^GPU [0-9]' <<<"$listed")
    inside=$(grep -c '^ *MIG ' <<<"$listed")
    ((seen >= inside)) || seen=$inside
    if ((seen < asked)); then
        if ((seen)); then too_few "$seen" "$asked"; else too_few 0 "$asked" "${listed%%$'\n'*}"; fi
    fi
    xids
    ((seen > 0)) || return 0
    smi=(nvidia-smi)
    # where Slurm does not hide the GPUs of other jobs, only ours are looked at
    if ((seen > asked)); then
        if [[ -z ${CUDA_VISIBLE_DEVICES:-} ]]; then
            tell skip "GPUs: which $asked of the $seen are this job's"
            return
        fi
        smi+=(-i "$CUDA_VISIBLE_DEVICES")
    fi
    # without persistence the driver is loaded anew for each question
    took=$((SECONDS - took))
    if ((took >= 5)); then
        tell warn "nvidia-smi takes $took s" 'have persistence turned on (nvidia-persistenced)'
        tell skip 'the health of the GPUs: nvidia-smi is slow'
        return
    fi
    health
    rows
    throttled
    in_use
}

# csv OPTION FIELDS: a line a GPU, without blanks around commas; nothing where a field is not known
csv() { limited 10 "${smi[@]}" "--query-$1=$2" --format=csv,noheader,nounits 2>/dev/null | sed 's/ *, */,/g'; }

health() {
    local index errors pending driver clock power name
    local -A told=()
    while IFS=, read -r index errors pending driver clock power name; do
        [[ $index =~ ^[0-9]+$ && -n $name ]] || continue
        if [[ $errors =~ ^[0-9]+$ ]] && ((errors > 0)); then
            tell bad "GPU $index has $errors uncorrected ECC errors" 'have the GPU reset, or the node drained'
        fi
        if [[ $pending == Yes ]]; then
            tell bad "GPU $index waits to retire pages of its memory" 'have the GPU reset'
        fi
        each 'NVIDIA driver' "$driver"
        each GPU "$name"
        each 'highest GPU clock' "$clock MHz"
        each 'GPU power limit' "$power W"
    done < <(csv gpu index,ecc.errors.uncorrected.volatile.total,retired_pages.pending,driver_version,clocks.max.sm,power.limit,name)
    for name in "${!told[@]}"; do tell fact "$name" "${told[$name]}"; done
}

# each NAME VALUE: a fact of one GPU. Its node's is all that its GPUs have.
each() {
    [[ ", ${told[$1]:-}, " == *", $2, "* ]] || told[$1]+=${told[$1]:+, }$2
}

rows() {
    local gpu pending failure
    while IFS=, read -r gpu pending failure; do
        if [[ $failure =~ ^(Yes|1)$ ]]; then
            tell bad "GPU $gpu has no spare memory rows left" 'have the GPU replaced'
        elif [[ $pending =~ ^(Yes|1)$ ]]; then
            tell bad "GPU $gpu waits to remap rows of its memory" 'have the GPU reset'
        fi
    done < <(csv remapped-rows gpu_bus_id,remapped_rows.pending,remapped_rows.failure)
}

# Until release 535 of the driver the reasons had another name. hw_slowdown alone may be a change of
# the clock (nvidia-smi's manual), so it does not stop the job.
throttled() {
    local index thermal brake slow soft lines why
    why='have the cooling and the power supply of the node looked at'
    for prefix in clocks_event_reasons clocks_throttle_reasons; do
        lines=$(csv gpu "index,$prefix.hw_thermal_slowdown,$prefix.hw_power_brake_slowdown,$prefix.hw_slowdown,$prefix.sw_thermal_slowdown")
        [[ $lines != *Active* ]] || break
    done
    while IFS=, read -r index thermal brake slow soft; do
        [[ $index =~ ^[0-9]+$ ]] || continue
        if [[ $thermal == Active ]]; then
            tell bad "GPU $index is slowed down: too hot" "$why"
        elif [[ $brake == Active ]]; then
            tell bad "GPU $index is slowed down: power brake" "$why"
        elif [[ $slow == Active || $soft == Active ]]; then
            tell warn "GPU $index is slowed down before it has anything to do" "$why"
        fi
    done <<<"$lines"
}

in_use() {
    local gpu pid memory name fix='end it, or have the node drained'
    while IFS=, read -r gpu pid memory name; do
        [[ $gpu == GPU-* || $gpu == MIG-* ]] || continue
        if [[ $memory =~ ^[0-9]+$ ]] && ((memory >= 1024)); then
            tell bad "process $pid ($name) holds $memory MiB of a GPU of this job" "$fix"
        else
            tell warn "process $pid ($name) is on a GPU of this job" "$fix"
        fi
    done < <(csv compute-apps gpu_uuid,pid,used_gpu_memory,process_name)
}

# Xids of the hardware in the last hour, where the kernel's log may be read. The list: NVIDIA, "Xid
# Errors": memory (48, 64, 94, 95, 140), NVLink (74), off the bus (79), firmware (119, 120).
xids() {
    local found
    found=$(limited 5 dmesg 2>/dev/null | awk -v up="$(value "$root/proc/uptime")" '
        BEGIN { split(up, word, " ") }
        match($0, /NVRM: Xid [^:]*[^,]*: *(48|64|74|79|94|95|119|120|140),/) {
            time = $0; sub(/^\[ */, "", time)
            if (time + 0 > word[1] - 3600) last = substr($0, RSTART)
        }
        END { if (last != "") print last }')
    [[ -z $found ]] || tell warn "the kernel says: ${found:0:160}" 'have the node looked at if the job fails there'
}

amd() {
    local seen=0 id file line
    for file in "$root"/sys/class/kfd/kfd/topology/nodes/*/gpu_id; do
        id=$(value "$file")
        [[ ${id:-0} == 0 ]] || seen=$((seen + 1))
    done
    ((seen >= $1)) || too_few "$seen" "$1"
    for file in "$root"/sys/class/drm/card*/device/ras/*_err_count; do
        line=$(value "$file")
        if [[ $line =~ ^ue:\ *([0-9]+) ]] && ((BASH_REMATCH[1] > 0)); then
            tell bad "${BASH_REMATCH[1]} uncorrected errors in ${file#"$root/sys/class/drm/"}" 'have the GPU reset'
        fi
    done
    line=$(value "$root/sys/module/amdgpu/version")
    [[ -z $line ]] || tell fact 'amdgpu driver' "$line"
}
