#!/bin/bash
# bind.sh PID: keep this rank on the CPUs near its GPU. All ranks of a node divide the job's CPUs there
# in the same way, so that each CPU has a rank. Where something is not known, nothing is bound.
declare -A address models may threads
list_cpus() { # 0-2,8 as 0 1 2 8
    local span
    for span in ${1//,/ }; do seq "${span%-*}" "${span#*-}"; done
}
bind_rank() { # PID CPUS: to those of them that the job may use
    local cpu cpus=
    for cpu in $(list_cpus "$2"); do cpus+=${may[$cpu]}; done
    [[ -z $cpus ]] || taskset -pc "${cpus#,}" "$1" &>/dev/null
    exit 0
}
for cpu in $(list_cpus "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"); do
    may[$cpu]=,$cpu
done
read -ra known <<<"$JOBGEN_GPU_CPUS" # the cluster's profile
[[ -z ${known[LOCAL_RANK]} ]] || bind_rank "$1" "${known[LOCAL_RANK]}"

# The GPUs that the job may open, as PCI addresses in the order of CUDA or of HIP.
gpus=() names=(CUDA_VISIBLE_DEVICES)
about=$'Model:[ \t]*([^\n]*).*UUID:[ \t]*([^ \n]*).*Minor:[ \t]*([0-9]+)'
for file in /proc/driver/nvidia/gpus/*/information; do
    [[ $(cat "$file") =~ $about && -r /dev/nvidia${BASH_REMATCH[3]} ]] || continue
    pci=${file%/*} && pci=${pci##*/} && gpus+=("$pci")
    models[${BASH_REMATCH[1]}]=1 address[${BASH_REMATCH[2]}]=$pci
done
about='simd_count [1-9].*location_id ([0-9]+)(.*domain ([0-9]+))?'
if [[ -d /sys/class/kfd/kfd && -z ${gpus[0]} ]]; then
    names=(ROCR_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES)
    [[ -z ${HIP_VISIBLE_DEVICES+set} ]] || names[1]=HIP_VISIBLE_DEVICES
    for file in $(printf '%s\n' /sys/class/kfd/kfd/topology/nodes/*/properties | sort -V); do
        [[ $(cat "$file") =~ $about ]] || continue # a CPU, or a GPU of another job
        at=${BASH_REMATCH[1]}
        printf -v pci '%04x:%02x:%02x.%x' "${BASH_REMATCH[3]}" $((at >> 8)) $((at >> 3 & 31)) $((at & 7))
        gpus+=("$pci")
    done
fi
# CUDA puts the fastest of several models first
((${#models[@]} < 2)) || [[ $CUDA_DEVICE_ORDER == PCI_BUS_ID || $CUDA_VISIBLE_DEVICES == GPU-* ]] || exit
for name in "${names[@]}"; do
    [[ -n ${!name+set} ]] || continue
    all=("${gpus[@]}") gpus=()
    for word in ${!name//,/ }; do
        if [[ $word == *[!0-9]* ]]; then gpus+=("${address[$word]}"); else gpus+=("${all[word]}"); fi
    done
done

# The cores of each NUMA node go to the ranks whose GPUs are nearest to it.
mapfile -t nodes < <(list_cpus "$(cat /sys/devices/system/node/online)")
cores=() homes=() share=() count=() total=0
for i in "${!nodes[@]}"; do
    for cpu in $(list_cpus "$(cat "/sys/devices/system/node/node${nodes[i]}/cpulist")"); do
        read -r core <"/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list" || exit
        [[ -n ${may[$cpu]} ]] || continue
        [[ -n ${threads[$core]} ]] || { cores[i]+=" $core" && ((++total)); }
        threads[$core]+=,$cpu
    done
done
# a task that is not confined sees the CPUs of other jobs, too; Slurm counts threads or cores
((${#may[@]} <= ${SLURM_CPUS_ON_NODE:=$total} || total == SLURM_CPUS_ON_NODE)) || exit
for ((rank = 0; rank < LOCAL_WORLD_SIZE; rank++)); do
    read -r numa <"/sys/bus/pci/devices/${gpus[rank]}/numa_node" && ((numa >= 0)) || exit
    read -ra far <"/sys/devices/system/node/node$numa/distance"
    for i in "${!cores[@]}"; do
        home=${homes[rank]:-$i} && homes[rank]=$((far[i] < far[home] ? i : home))
    done
done
for i in "${!cores[@]}"; do
    read -ra far <"/sys/devices/system/node/node${nodes[i]}/distance"
    near=() least=
    for rank in "${!homes[@]}"; do
        away=${far[homes[rank]]}
        ((away >= ${least:=$away})) || near=()
        ((away > least)) || { near+=("$rank") && least=$away; }
    done
    read -ra here <<<"${cores[i]}"
    for j in "${!here[@]}"; do
        rank=${near[j * ${#near[@]} / ${#here[@]}]}
        share[rank]+=${threads[${here[j]}]} && ((++count[rank]))
    done
done
# the others would wait for a rank with less than half of an even share
for rank in "${!homes[@]}"; do ((2 * LOCAL_WORLD_SIZE * count[rank] >= total)) || exit; done
bind_rank "$1" "${share[LOCAL_RANK]#,}"
