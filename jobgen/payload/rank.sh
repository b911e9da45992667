#!/bin/bash
# rank.sh PROGRAM [WORD...]: run one rank, with any launcher: check the world size, redirect the program's
# output to the rank's log files, record its start and end, and exit with its code.
set -uo pipefail
node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
#if pdsh
if [[ -z ${SLURMD_NODENAME:-} && -n ${CROSS_RANK:-} ]]; then
    # started by DeepSpeed over ssh: CROSS_RANK is this node's line in the hostfile
    node=$(sed -n "$((CROSS_RANK + 1))s/ .*//p" "$JOBGEN_STATE_DIR/hostfile")
fi
#fi
#if plain
# launcher: plain: one rank per node, without torch's variables
#fi
rank=${JOBGEN_NODE_RANK:-${RANK:-}} recording='' early=''

# record KIND KEY=VALUE...: append a line to this rank's file of the event record.
record() {
    local time=${EPOCHREALTIME:-$(date +%s.%N)} words=("${@:2}")
#if steps
    words+=("step=$JOBGEN_STEP") # one of several
#fi
    words=("${words[@]//%/%25}")
    printf 'v=1 time=%s kind=%s node=%s rank=%s %s\n' "${time/,/.}" "$1" "$node" "$rank" "${words[*]// /%20}" \
        >>"$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART.$node.${rank/#-/node0}"
}
die() {
    printf 'jobgen: rank %s on %s: %s\n' "${rank:-?}" "$node" "$2" >&2
    rank=${rank:--} record exit "code=$1" signal=0 "why=$2" # -: of the node
    exit "$1"
}
mkdir -p "$JOBGEN_LOG_DIR" "$JOBGEN_STATE_DIR"/{pids,events} || die 96 "cannot create $JOBGEN_LOG_DIR"
#if mpirun
[[ -n ${OMPI_COMM_WORLD_RANK:-} ]] || die 97 "this mpirun is not Open MPI's"
export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_LOCAL_SIZE
rank=$RANK
#fi
if [[ -z ${JOBGEN_NODE_RANK:-} ]]; then
    [[ -n $rank && -n ${WORLD_SIZE:-} ]] || die 97 'the launcher did not set RANK and WORLD_SIZE'
    ((WORLD_SIZE >= ${JOBGEN_MIN_WORLD_SIZE:-JOBGEN_WORLD_SIZE} && WORLD_SIZE <= JOBGEN_WORLD_SIZE)) ||
        die 97 "world size is $WORLD_SIZE, but the job has $JOBGEN_WORLD_SIZE ranks"
    export LOCAL_WORLD_SIZE=${LOCAL_WORLD_SIZE:-$JOBGEN_RANKS_PER_NODE}
fi
#if deepspeed
# DeepSpeed's launcher numbers GPUs from 0: restore the ones that Slurm assigned.
if [[ ${JOBGEN_VISIBLE_DEVICES-} == unset ]]; then
    unset CUDA_VISIBLE_DEVICES
elif [[ -n ${JOBGEN_VISIBLE_DEVICES+set} ]]; then
    export CUDA_VISIBLE_DEVICES=$JOBGEN_VISIBLE_DEVICES
fi
#fi
#if known
# ---- CPU binding: the CPUs that the cluster profile lists for this rank's GPU ---------------------------
files=(/proc/self/status)
#fi
#if search
# ---- CPU binding: each core goes to the rank whose GPU is nearest by NUMA distance ----------------------
# All ranks of a node compute the same division of the job's cores. If anything is unknown, none is bound.
files=(/proc/self/status /sys/devices/system/{node/node*/{cpulist,distance},cpu/cpu*/topology/thread_siblings_list})
#fi
#if nvidia
files+=(/proc/driver/nvidia/gpus/*/information)
visible=${CUDA_VISIBLE_DEVICES-$(seq -s, 0 63)}
#fi
#if amd
files+=(/sys/class/kfd/kfd/topology/nodes/*/properties)
visible=${HIP_VISIBLE_DEVICES-${CUDA_VISIBLE_DEVICES-$(seq -s, 0 63)}}
#fi
#if bind
cpus=$(grep -Hs . "${files[@]}" | awk -F '[: \t]+' -v visible="${visible:-}" -v slurm="${SLURM_CPUS_ON_NODE:-0}" '
    function expand(list, into, value,  i, spans, ends, cpu) { # 0-2,8 sets into[0], [1], [2] and [8]
        for (i = split(list, spans, ","); i > 0; i--) {
            split(spans[i] "-" spans[i], ends, "-")
            for (cpu = ends[1] + 0; cpu <= ends[2]; cpu++) into[cpu] = value
        }
    }
    /Cpus_allowed_list/ { expand($NF, allowed, 1) }
#fi
#if known
    END {
        split(ENVIRON["JOBGEN_GPU_CPUS"], table, " ")
        expand(table[ENVIRON["LOCAL_RANK"] + 1], near, 1)
        for (cpu in near) if (cpu in allowed) mine = mine "," cpu
        print substr(mine, 2)
    }
#fi
#if search
    { split($0, path, "/") }
    /cpulist:/ { expand($NF, node, substr(path[6], 5)) }
    /distance:/ { for (i = 2; i <= NF; i++) far[substr(path[6], 5), i - 1] = $i }
    /siblings_list:/ { core[substr(path[6], 4)] = $NF }
#fi
#if nvidia
    /Model:/ { model = substr($0, index($0, "Model:")) }
    /UUID:/ { uuid = $NF }
    /Device Minor:/ && !system("test -r /dev/nvidia" $NF) {
        address[uuid] = address[gpus++] = path[6]
        kinds += !models[model]++
    }
#fi
#if amd
    /:simd_count/ { simds = $NF } # 0: a CPU
    /:location_id/ && simds { slot[path[8]] = sprintf("%02x:%02x.%x", int($NF / 256), int($NF / 8) % 32, $NF % 8) }
    /:domain/ { domain[path[8]] = $NF }
#fi
#if search
    END {
        split(visible, gpu, ",")
#fi
#if nvidia
        # CUDA puts the fastest of several models first
        if (kinds > 1 && ENVIRON["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" && visible !~ /^GPU-/) exit
#fi
#if amd
        for (i = 0; i < 4096; i++) if (i in slot) address[gpus++] = sprintf("%04x:%s", domain[i], slot[i])
        rocr = "ROCR_VISIBLE_DEVICES" in ENVIRON
        split(ENVIRON["ROCR_VISIBLE_DEVICES"], outer, ",")
        for (i in gpu) if (rocr) gpu[i] = gpu[i] ~ /^[0-9]+$/ ? outer[gpu[i] + 1] : ""
#fi
#if search
        for (i = 0; i < 4096; i++) if ((i, 1) in far) name[++nodes] = i
        for (cpu = 0; cpu < 8192; cpu++) if (cpu in allowed && cpu in core) {
            if (!(core[cpu] in threads)) cores[node[cpu], size[node[cpu]]++] = core[cpu]
            threads[core[cpu]] = threads[core[cpu]] "," cpu
            online++
        }
        ranks = ENVIRON["LOCAL_WORLD_SIZE"]
        for (rank = 0; rank < ranks; rank++) {
#fi
#if separate
            getline numa[rank] < ("/sys/bus/pci/devices/" address[gpu[rank + 1]] "/numa_node")
#fi
#if neighbors
            file = "/sys/bus/pci/devices/" address[gpu[int(rank / ENVIRON["JOBGEN_RANKS_PER_GPU"]) + 1]] "/numa_node"
            getline numa[rank] < file
            close(file) # the next rank may have the same GPU
#fi
#if search
            if (!((numa[rank], 1) in far)) exit
            home = 0 # the nearest node with cores of the job
            for (i = nodes; i > 0; i--)
                if (size[name[i]] && (!home || far[numa[rank], i] <= far[numa[rank], home])) home = i
            for (n in size) {
                away = far[n, home]
                if (!(n in least) || away < least[n]) count[n] = 0
                if (!count[n]) least[n] = away
                if (away == least[n]) near[n, count[n]++] = rank
            }
        }
        for (n in size) for (i = 0; i < size[n]; i++) {
            rank = near[n, int(i * count[n] / size[n])]
            share[rank] = share[rank] threads[cores[n, i]]
            given[rank]++
            total++
        }
        # Slurm counts threads or cores; an unconfined task sees the CPUs of other jobs, too
        if (slurm && online > slurm && total != slurm) exit
        # a rank with less than half of an even share would slow down the others
        for (rank = 0; rank < ranks; rank++) if (2 * ranks * given[rank] < total) exit
        print substr(share[ENVIRON["LOCAL_RANK"]], 2)
    }
#fi
#if bind
' 2>/dev/null)
[[ -z $cpus ]] || taskset -pc "$cpus" $$ &>/dev/null
#fi
#if sharing
# ---- GPU: of the visible ones, the one that this rank shares with its neighbors -------------------------
#fi
#if sharing_nvidia
visible=${CUDA_VISIBLE_DEVICES-$(seq -s, 0 63)}
#fi
#if sharing_amd
visible=${HIP_VISIBLE_DEVICES-${CUDA_VISIBLE_DEVICES-$(seq -s, 0 63)}}
#fi
#if sharing
IFS=, read -ra gpus <<<"$visible"
gpu=$((LOCAL_RANK / JOBGEN_RANKS_PER_GPU))
[[ -n ${gpus[gpu]:-} ]] || die 97 "local rank $LOCAL_RANK needs GPU $((gpu + 1)) of its node, but sees ${#gpus[@]}"
#fi
#if sharing_nvidia
export CUDA_VISIBLE_DEVICES=${gpus[gpu]}
#fi
#if sharing_amd
export HIP_VISIBLE_DEVICES=${gpus[gpu]} # wins over CUDA_VISIBLE_DEVICES
#fi
#if secrets
if [[ -n ${JOBGEN_SECRETS:-} ]]; then
    # shellcheck source=/dev/null
    [[ ! -r $JOBGEN_RUN_DIR/secrets.env ]] || source "$JOBGEN_RUN_DIR/secrets.env"
    for name in $JOBGEN_SECRETS; do
        [[ -n ${!name+set} ]] || die 97 "secret $name is not set: add it to secrets.env"
    done
fi
#fi
#if hub
# find_model NAME: whether the model is in the Hugging Face cache, or is a directory; else print the cache.
find_model() {
    local home=${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface} cache file
    cache=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-$home/hub}}
    cache=${cache/#\~\//$HOME/}
    for file in "$1" "$cache/models--${1//\//--}/snapshots"/*/*; do [[ ! -e $file ]] || return 0; done
    printf '%s\n' "$cache"
    return 1
}
if [[ ${LOCAL_RANK:-0} == 0 && -n ${JOBGEN_HUB_MODEL:-} && ${HF_HUB_OFFLINE:-} == 1 ]]; then
    if ! cache=$(find_model "$JOBGEN_HUB_MODEL"); then
        printf -v why '%s is not in the Hugging Face cache; on a login node: HF_HUB_CACHE=%q hf download %s' \
            "$JOBGEN_HUB_MODEL" "$cache" "$JOBGEN_HUB_MODEL"
        [[ -z ${JOBGEN_HUB_REQUIRED:-} ]] || die 97 "$why"
        printf 'jobgen: rank %s on %s: warning: %s\n' "$rank" "$node" "$why" >&2
    fi
fi
#fi
# Directly to files, not through a pipe: no output is lost, even if the rank is killed.
log=$JOBGEN_LOG_DIR/$node.$rank
touch "$log.out" "$log.err" || die 96 "cannot write to $JOBGEN_LOG_DIR"
for stream in out err; do [[ $rank != 0 ]] || ln -sfn "$node.0.$stream" "$JOBGEN_LOG_DIR/rank0.$stream"; done
# ---- Program: in this process group, and killed with this shell -------------------------------------
program=("$@") id=$$.$RANDOM. signals=(TERM INT HUP QUIT USR1 USR2) recorder=$JOBGEN_RUN_DIR/submit/environment.sh
# setpriv (util-linux 2.33) makes the kernel kill it with this shell
if setpriv --pdeathsig KILL true 2>/dev/null; then program=(setpriv --pdeathsig KILL "$@"); fi
start_program() {
    trap - INT QUIT # bash ignores them in background processes
    [[ -z $early ]] || exit $((128 + $(kill -l "$early"))) # a signal came before there was a program
#if alone
    printf '%s\n' "$BASHPID" >"$JOBGEN_STATE_DIR/pids/$node.$rank"
#fi
#if steps
    printf '%s\n' "$BASHPID" >"$JOBGEN_STATE_DIR/pids/$JOBGEN_STEP@$node.$rank"
#fi
    JOBGEN_RANK_ID=$id exec "${program[@]}" >>"$log.out" 2>>"$log.err" {alive}>&-
}
# signal_all SIGNAL: to the program and its descendants; false if none is left.
signal_all() {
    local pids
    mapfile -t pids < <(grep -lsF "JOBGEN_RANK_ID=$id" /proc/[0-9]*/environ | cut -d/ -f3)
#if until
    # At the end of the group: a shell that SIGTERM ends does not wait for what it has started, and gets it only if alone.
    local pid others=() over=$JOBGEN_STATE_DIR/over.$JOBGEN_RESTART.$JOBGEN_STEP
    for pid in "${pids[@]}"; do grep -qsz '/program\.sh$' "/proc/$pid/cmdline" || others+=("$pid"); done
    [[ $1 != TERM || ! -e $over || ${#others[@]} == 0 ]] || pids=("${others[@]}")
#fi
    ((${#pids[@]} > 0)) || return
    kill -s "$1" "${pids[@]}" 2>/dev/null || true # some may have exited
}
#if guard
# Slurm does not kill processes started over ssh or by a daemon: with JOBGEN_GUARD, the rank checks for
# the end of the job, or the failure of another rank, itself.
is_over() {
    local state=$JOBGEN_STATE_DIR start=$JOBGEN_RESTART
#fi
#if until
    [[ ! -e $state/over.$start.$JOBGEN_STEP ]] || return 0 # with this group, another one ends it
#fi
#if guard
    [[ -e $JOBGEN_RUN_DIR/cancel || -e $state/failed.$start || -e $state/exit.$start ||
        -e $state/requeued.$start ]]
}
#fi
# Reads a pipe that closes when this shell exits or is killed, then kills what is left.
keep() {
    trap : "${signals[@]}"
#if guard
    while :; do
        read -r ${JOBGEN_GUARD:+-t 1} && return
        (($? > 128)) || break
        if is_over && signal_all TERM; then break; fi
    done
    read -r -t 30 && return # time to save after SIGTERM; none if this shell is gone
#fi
#if unguarded
    until read -r || (($? <= 128)); do :; done # a signal may interrupt read
    [[ -z $REPLY ]] || return 0
#fi
    while signal_all KILL; do sleep 0.2; done
}
exec {alive}> >(keep >/dev/null 2>&1)
record start "local=${LOCAL_RANK:-0}" "world=${WORLD_SIZE:-$JOBGEN_WORLD_SIZE}"
[[ $rank != 0 || ! -r $recorder ]] || { bash "$recorder" {alive}>&- & recording=$!; } # packages, modules
# Slurm and the launchers signal the program itself; this shell only waits for it
for name in "${signals[@]}"; do trap early="$name" "$name"; done
#if packed
trap 'early=TERM; record stopped signal=15' TERM # after this, also an exit with 0 is no success
#fi
run_program() { (start_program); } 2>/dev/null
#if forwards
forwards=''
#fi
#if container
# as PID 1 of a container, this shell is the only process to get signals
(($$ > 1 && PPID > 1)) || forwards=1
#fi
#if top
# with proctrack/cgroup, Slurm signals only the process that it has started, which is this shell
[[ $(cat "/proc/$PPID/comm" 2>/dev/null) != slurmstepd ]] || ! grep -qsE '^[0-9]+:(freezer)?:.*/step_' /proc/self/cgroup ||
    forwards=1
#fi
#if forwards
[[ -z $forwards ]] || run_program() {
    (start_program) 2>/dev/null &
    local child=$! rc=127 alive=1 code
    # shellcheck disable=SC2064  # expand now
    for name in "${signals[@]}"; do trap "signal_all $name || kill -s $name $child" "$name"; done
#fi
#if packed_forwards
    # shellcheck disable=SC2064
    trap "record stopped signal=15; signal_all TERM || kill -s TERM $child" TERM
#fi
#if forwards
    [[ -z $early ]] || signal_all "$early" || kill -s "$early" "$child"
    # a signal interrupts wait, and in bash sometimes the next wait too
    while ((alive)); do
        kill -0 "$child" 2>/dev/null || alive=0
        wait "$child"
        code=$?
        ((code == 127)) || rc=$code
    done
    return "$rc"
}
#fi
run_program
rc=$?
record exit "code=$rc" "signal=$((rc > 128 && rc < 193 ? rc - 128 : 0))"
((rc)) || { : >"$JOBGEN_STATE_DIR/left.$JOBGEN_RESTART"; [[ -z $recording ]] || wait "$recording"; }
#if until
# to be stopped is no failure
[[ ! -e $JOBGEN_STATE_DIR/over.$JOBGEN_RESTART.$JOBGEN_STEP ]] || { (echo over >&"$alive") 2>/dev/null; exit "$rc"; }
#fi
#if guard
# if torchrun may restart ranks, it stops them itself
((rc == 0 || ${TORCHELASTIC_MAX_RESTARTS:-0})) || : >"$JOBGEN_STATE_DIR/failed.$JOBGEN_RESTART"
#fi
(echo over >&"$alive") 2>/dev/null
exit "$rc"
