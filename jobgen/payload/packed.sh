# shellcheck shell=bash
# packed.sh: the workers of a packed sweep, sourced by job.sbatch. Each runs one element after the other, each in a
# step of its own. An element is taken again only if Slurm reports that its last step has ended.

# run_workers WORKERS RANKS INDEXES [DIGEST]: run these elements, of so many ranks each, with so many workers per node.
# Fails if an element has not succeeded.
run_workers() {
    local workers=$1 ranks=$2 digest=("${@:4}") todo=() slots=() next=0 part host number slot element ended pid
    local bundle=${BASH_SOURCE[0]%/*}
    local -A running=() holds=()
    # when run by hand, several jobs may share the directory
    local state=$PWD/state
    ((${#digest[@]})) || state+=/$SLURM_JOB_ID
    for part in ${3//,/ }; do mapfile -t -O "${#todo[@]}" todo < <(seq "${part%-*}" "${part#*-}"); done
    # elements one by one fill all nodes evenly
    for ((number = 0; number < workers; number++)); do
        for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do slots+=("$host.$number"); done
    done
    mkdir -p logs "$state" || return 96
    # defaults of srun that belong to the whole job
    unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE
    await_no_step '.*' # of an earlier start of this job
    trap stop_workers TERM INT HUP
    exec {ended}<> <(:)
    while ((next < ${#todo[@]} || ${#running[@]})); do
        for slot in "${slots[@]}"; do
            if [[ -n ${running[$slot]:-} ]]; then
                ! kill -0 "${running[$slot]}" 2>/dev/null || continue
                if wait "${running[$slot]}"; then
                    unset "running[$slot]"
                else
                    echo "jobgen: the worker of element ${holds[$slot]} was killed: another one takes over" >&2
                    work "$slot" "${holds[$slot]}"
                    continue
                fi
            fi
            ((next < ${#todo[@]})) || continue
            holds[$slot]=${todo[next++]}
            work "$slot" "${holds[$slot]}"
        done
        # each worker writes a line at its end, unless it was killed
        if read -r -t 5 -u "$ended" slot pid && [[ ${running[$slot]:-} == "$pid" ]]; then unset "running[$slot]"; fi
    done
    for element in "${todo[@]}"; do
        [[ $(get_code "$element") == 0 ]] || return 1
    done
}

# work SLOT ELEMENT: start the worker that brings this element to its end.
work() {
    finish_element "$1" "$2" &
    running[$1]=$!
}

# finish_element SLOT ELEMENT: run attempts until one has finished, or the element or job is cancelled.
finish_element() {
    local stopping='' element=$2
    trap 'stopping=1' TERM INT HUP
    until [[ -n $stopping || -e $state/$element/cancel || -n $(get_code "$element") ]]; do run_attempt "$1" || break; done
    echo "$1 $BASHPID" >&"$ended"
}

# get_code ELEMENT: the exit code with which it has finished; nothing if it has not.
get_code() {
    sed -n '/^rc=/h; /^end=finished$/{g;s/^rc=//p}' "$state/$1"/exit.* 2>/dev/null
}

# run_attempt SLOT: the next attempt of $element, after the last one has ended. Fails if it left no word of its end
# and was not killed: with a full disk, another attempt would leave none either.
run_attempt() {
    local tries=("$state/$element"/started.*) attempt code
    [[ -L ${tries[0]} ]] || tries=()
    attempt=${#tries[@]}
    if ((attempt)); then
        # the shell of that attempt, or its srun, may have outlived the worker
        while [[ -n $(list_processes "e$element.$((attempt - 1))") ]]; do sleep 0.5; done
        await_no_step "e$element\..*"
        adopt_end $((attempt - 1))
        [[ -z $stopping && -z $(get_code "$element") ]] || return 0
    fi
    SLURM_ARRAY_TASK_ID=$element SLURM_RESTART_COUNT=$attempt JOBGEN_STEP=e$element.$attempt \
        JOBGEN_WORKER=${1##*.} SLURM_JOB_NODELIST=${1%.*} SLURM_NODELIST=${1%.*} SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1 \
        bash "$bundle/element.sh" "${digest[@]}" </dev/null >>"logs/job-${SLURM_JOB_ID}_$element.out" 2>&1 {ended}>&-
    code=$?
    [[ ! -e $state/$element/exit.$attempt ]] || return 0
    # the shell of a worker that was killed may run this attempt
    [[ -z $(list_processes "e$element.$attempt") ]] || return 0
    [[ -e $state/$element/.exit ]] || ((code < 128)) || return 0
    echo "jobgen: element $element has not recorded its end: see logs/job-${SLURM_JOB_ID}_$element.out" >&2
    return 1
}

# list_processes STEP: what runs on this node for this step of this job; it has the step in its environment.
list_processes() {
    grep -lsz "^JOBGEN_STEP=$1\$" /proc/[0-9]*/environ | xargs -r grep -lsz "^SLURM_JOB_ID=$SLURM_JOB_ID\$"
}

# await_no_step PATTERN: wait until Slurm reports that no step with such a name runs in this job.
await_no_step() {
    local steps
    until steps=$(squeue --steps --noheader --jobs="$SLURM_JOB_ID" --format='%i %j') &&
        ! grep -qxE "[0-9]+\.[0-9]+ $1" <<<"$steps"; do sleep 1; done
}

# adopt_end ATTEMPT: if all ranks of this attempt have exited by themselves, or after one of them failed, the element has
# finished, although its shell was killed before it could record that.
adopt_end() {
    local exit=$state/$element/exit.$1
    cat "$state/$element/events/$1".*[0-9] 2>/dev/null | awk -F '[ =]' -v job="$SLURM_JOB_ID" -v ranks="$ranks" '
        $6 == "start" { delete code[$10]; delete stopped[$10] }
        $6 == "stopped" && !($10 in code) { stopped[$10] }
        $6 == "exit" { code[$10] = $12; if ($14) stopped[$10]; node = $8; time = int($4) }
        END {
            for (rank in code) {
                count++
                if (rank in stopped) stops++
                else if (!rc) rc = code[rank]
            }
            if (count != ranks || (stops && !rc)) exit 1
            printf "rc=%d\nnode=%s\ntime=%d\njob=%s\nend=finished\n", rc, node, time, job
        }' >"$state/$element/.adopted" && mv -f "$state/$element/.adopted" "$exit"
}

# stop_workers: the job is cancelled, requeued, preempted or out of time: elements record that they were killed.
stop_workers() {
    trap '' TERM INT HUP
    kill -TERM 0
    wait
    # a job that ends within the grace period of its preemption would not be requeued
    [[ ! $(scontrol show job -o "$SLURM_JOB_ID") =~ ' JobState=RUNNING '.*' PreemptTime='[0-9] ]] ||
        scontrol requeue "$SLURM_JOB_ID"
    exit 143
}
