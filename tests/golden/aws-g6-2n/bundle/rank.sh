#!/bin/bash
# rank.sh PROGRAM [WORD...]: run one rank, with any launcher: check the world size, redirect the program's
# output to the rank's log files, record its start and end, and exit with its code.
set -uo pipefail
node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
rank=${JOBGEN_NODE_RANK:-${RANK:-}} recording='' early=''

# record KIND KEY=VALUE...: append a line to this rank's file of the event record.
record() {
    local time=${EPOCHREALTIME:-$(date +%s.%N)} words=("${@:2}")
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
if [[ -z ${JOBGEN_NODE_RANK:-} ]]; then
    [[ -n $rank && -n ${WORLD_SIZE:-} ]] || die 97 'the launcher did not set RANK and WORLD_SIZE'
    ((WORLD_SIZE >= ${JOBGEN_MIN_WORLD_SIZE:-JOBGEN_WORLD_SIZE} && WORLD_SIZE <= JOBGEN_WORLD_SIZE)) ||
        die 97 "world size is $WORLD_SIZE, but the job has $JOBGEN_WORLD_SIZE ranks"
    export LOCAL_WORLD_SIZE=${LOCAL_WORLD_SIZE:-$JOBGEN_RANKS_PER_NODE}
fi
# ---- CPU binding: each core goes to the rank whose GPU is nearest by NUMA distance ----------------------
# All ranks of a node compute the same division of the job's cores. If anything is unknown, none is bound.
files=(/proc/self/status /sys/devices/system/{node/node*/{cpulist,distance},cpu/cpu*/topology/thread_siblings_list})
files+=(/proc/driver/nvidia/gpus/*/information)
visible=${CUDA_VISIBLE_DEVICES-$(seq -s, 0 63)}
cpus=$(grep -Hs . "${files[@]}" | awk -F '[: \t]+' -v visible="${visible:-}" -v slurm="${SLURM_CPUS_ON_NODE:-0}" '
    function expand(list, into, value,  i, spans, ends, cpu) { # 0-2,8 sets into[0], [1], [2] and [8]
        for (i = split(list, spans, ","); i > 0; i--) {
            split(spans[i] "-" spans[i], ends, "-")
            for (cpu = ends[1] + 0; cpu <= ends[2]; cpu++) into[cpu] = value
        }
    }
    /Cpus_allowed_list/ { expand($NF, allowed, 1) }
    { split($0, path, "/") }
    /cpulist:/ { expand($NF, node, substr(path[6], 5)) }
    /distance:/ { for (i = 2; i <= NF; i++) far[substr(path[6], 5), i - 1] = $i }
    /siblings_list:/ { core[substr(path[6], 4)] = $NF }
    /Model:/ { model = substr($0, index($0, "Model:")) }
    /UUID:/ { uuid = $NF }
    /Device Minor:/ && !system("test -r /dev/nvidia" $NF) {
        address[uuid] = address[gpus++] = path[6]
        kinds += !models[model]++
    }
    END {
        split(visible, gpu, ",")
        # CUDA puts the fastest of several models first
        if (kinds > 1 && ENVIRON["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" && visible !~ /^GPU-/) exit
        for (i = 0; i < 4096; i++) if ((i, 1) in far) name[++nodes] = i
        for (cpu = 0; cpu < 8192; cpu++) if (cpu in allowed && cpu in core) {
            if (!(core[cpu] in threads)) cores[node[cpu], size[node[cpu]]++] = core[cpu]
            threads[core[cpu]] = threads[core[cpu]] "," cpu
            online++
        }
        ranks = ENVIRON["LOCAL_WORLD_SIZE"]
        for (rank = 0; rank < ranks; rank++) {
            getline numa[rank] < ("/sys/bus/pci/devices/" address[gpu[rank + 1]] "/numa_node")
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
' 2>/dev/null)
[[ -z $cpus ]] || taskset -pc "$cpus" $$ &>/dev/null
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
    printf '%s\n' "$BASHPID" >"$JOBGEN_STATE_DIR/pids/$node.$rank"
    JOBGEN_RANK_ID=$id exec "${program[@]}" >>"$log.out" 2>>"$log.err" {alive}>&-
}
# signal_all SIGNAL: to the program and its descendants; false if none is left.
signal_all() {
    local pids
    mapfile -t pids < <(grep -lsF "JOBGEN_RANK_ID=$id" /proc/[0-9]*/environ | cut -d/ -f3)
    ((${#pids[@]} > 0)) || return
    kill -s "$1" "${pids[@]}" 2>/dev/null || true # some may have exited
}
# Reads a pipe that closes when this shell exits or is killed, then kills what is left.
keep() {
    trap : "${signals[@]}"
    until read -r || (($? <= 128)); do :; done # a signal may interrupt read
    [[ -z $REPLY ]] || return 0
    while signal_all KILL; do sleep 0.2; done
}
exec {alive}> >(keep >/dev/null 2>&1)
record start "local=${LOCAL_RANK:-0}" "world=${WORLD_SIZE:-$JOBGEN_WORLD_SIZE}"
[[ $rank != 0 || ! -r $recorder ]] || { bash "$recorder" {alive}>&- & recording=$!; } # packages, modules
# Slurm and the launchers signal the program itself; this shell only waits for it
for name in "${signals[@]}"; do trap early="$name" "$name"; done
run_program() { (start_program); } 2>/dev/null
run_program
rc=$?
record exit "code=$rc" "signal=$((rc > 128 && rc < 193 ? rc - 128 : 0))"
((rc)) || { : >"$JOBGEN_STATE_DIR/left.$JOBGEN_RESTART"; [[ -z $recording ]] || wait "$recording"; }
(echo over >&"$alive") 2>/dev/null
exit "$rc"
