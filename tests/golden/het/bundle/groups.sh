#!/bin/bash
# Starts groups and waits for their ends: job.sbatch sources this file, which uses its variables.
# shellcheck disable=SC2034,SC2154,SC2317,SC2329  # job.sbatch sets and uses these
declare -A running=() stopping=() # group → process of its srun; → when its end is forced
ignored=(-e '^$') failed_group=''  # whose events are not failures; the first that failed
events=$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART
# Each rank has its own log files. When run by hand, the job's log also shows rank 0.
echo_rank_0() {
    local file=$JOBGEN_LOG_DIR/rank0.$1
    [[ ! -d $JOBGEN_RUN_DIR/bundle ]] || return
    until [[ -e $file ]] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    [[ ! -e $file ]] || tail --pid="$pid" -n +1 -F "$file" 2>/dev/null
}

record_group() { # GROUP KEY=VALUE...: append a line about this group to the job's events
    printf 'v=1 time=%s kind=step step=%s %s\n' "$(date +%s.%N)" "$1" "${*:2}" >>"$record"
}
read_group_events() { cat "$events".*[0-9] | grep -v "${ignored[@]}"; }
# The job exits with the code of the rank that failed first, not of ranks that got SIGTERM after it.
# Clocks of nodes may differ by a second: failures on other nodes in the same second are recorded, too.
first_failure() {
    read_group_events 2>/dev/null | LC_ALL=C sort -t= -k3,3n | LC_ALL=C awk -F '[ =]' -v record="$record" '
        $6 == "start" && starts[$8, $12, $NF]++ { n = 0; split("", nodes) } # all ranks were restarted
        $6 == "exit" && $12 && $14 != 15 && !($8 in nodes) && (!n || $4 <= first + 1) {
            if (!n) first = $4
            nodes[$8]; failure[n++] = $0
        }
        END {
            for (i = 0; i < n; i++) if (sub(/kind=exit/, "kind=failed", failure[i])) print failure[i] >>record
            if (n) print failure[0]
        }'
}
# has_lasting: whether a group runs that the job waits for
has_lasting() {
    local group
    for group in "${lasting[@]}"; do
        if [[ -n ${running[$group]:-} ]] && kill -0 "${running[$group]}" 2>/dev/null; then return 0; fi
    done
    return 1
}
# stop_group GROUP: its ranks send SIGTERM to the program, and SIGKILL 30 seconds later
stop_group() {
    [[ -n ${running[$1]:-} && -z ${stopping[$1]:-} ]] || return 0
    stopping[$1]=$((SECONDS + 45))
    say "stopping group $1"
    : >"$JOBGEN_STATE_DIR/over.$JOBGEN_RESTART.$1"
    # no rank of another group looks for that: srun ends it at once
    [[ -n ${ends_with[$1]:-} ]] || kill -TERM "${running[$1]}" 2>/dev/null
}
# fail_job CODE TEXT: the first failure ends all groups
fail_job() {
    local group
    ((rc == 0)) || return 0
    rc=$1
    [[ $end != finished ]] || say "$2"
    for group in "${!stopping[@]}"; do ignored+=(-e " step=$group\$"); done
    for group in "${!running[@]}"; do stop_group "$group"; done
}
# end_group GROUP CODE: what follows from its end
end_group() {
    local group=$1 code=$2 other
    if [[ -n ${stopping[$group]:-} ]]; then
        record_group "$group" code=0 stopped=1
    elif ((code)); then
        record_group "$group" "code=$code"
        ((rc)) || failed_group=$group
        fail_job "$code" "group $group failed with exit code $code"
    elif [[ -n ${ends_with[$group]:-} ]]; then
        record_group "$group" code=1
        fail_job 1 "group $group ended before ${ends_with[$group]}, with exit code 0: its program must stay in the foreground"
    else
        record_group "$group" code=0
        say "group $group has ended"
    fi
    for other in "${!running[@]}"; do
        [[ ${ends_with[$other]:-} != "$group" ]] || stop_group "$other"
    done
}
# collect_ends: read the exit codes of groups that have ended, and force those that do not stop
collect_ends() {
    local group code last
    for group in "${!running[@]}"; do
        if kill -0 "${running[$group]}" 2>/dev/null; then
            [[ -z ${stopping[$group]:-} ]] || ((SECONDS < ${stopping[$group]})) || kill -TERM "${running[$group]}"
            continue
        fi
        code=127
        # a signal interrupts wait; 127: exit code already read
        for _ in 1 2 3; do
            wait "${running[$group]}"; last=$?
            ((last == 127)) && break
            code=$last
        done
        unset "running[$group]"
        end_group "$group" "$code"
    done
}
# start_group NODES: start the group $JOBGEN_STEP by start_step
start_group() {
    step_index=$((step_index + 1))
    if ((rc)) || [[ $end != finished ]]; then return; fi
    if [[ -e $JOBGEN_STOP_FILE ]]; then unfinished=1; return; fi
    export JOBGEN_LOG_DIR=$logs/$JOBGEN_STEP RDZV_ID=${SLURM_JOB_ID}_${JOBGEN_RESTART}_$JOBGEN_STEP
    export MASTER_PORT=$((20000 + (SLURM_JOB_ID + 1009 * JOBGEN_RESTART + 101 * step_index) % 10000))
    mkdir -p "$JOBGEN_LOG_DIR" "$JOBGEN_STATE_DIR/events" || leave 96 "cannot create $JOBGEN_LOG_DIR"
    say "group $JOBGEN_STEP starts"
    record_group "$JOBGEN_STEP" "nodes=$1" "world=$JOBGEN_WORLD_SIZE"
    await_slurmctld
    start_step &
    pid=$! running[$JOBGEN_STEP]=$!
    echo_rank_0 out & echoes+=("$!"); echo_rank_0 err >&2 & echoes+=("$!")
}
# await_ready SECONDS WHAT: until is_ready succeeds; not after a failure or a request to stop
await_ready() {
    local group=$JOBGEN_STEP limit=$((SECONDS + $1))
    [[ -z ${running[$group]:-} ]] || say "waiting until group $group is ready: $2"
    while [[ -n ${running[$group]:-} && $end == finished ]] && ((rc == 0)); do
        [[ ! -e $JOBGEN_STOP_FILE ]] || return
        if is_ready 2>/dev/null; then say "group $group is ready"; return; fi
        if ((SECONDS >= limit)); then
            record_group "$group" code=124
            fail_job 124 "group $group is not ready after $1 s: $2; its log: ${JOBGEN_LOG_DIR#"$PWD"/}"
            return
        fi
        sleep 1
        collect_ends
    done
}
# await_groups: until all have ended; those that the job does not wait for are stopped after the others
await_groups() {
    local group waits
    while ((${#running[@]} > 0)) && [[ -z $grace_over ]]; do
        waits=''
        for group in "${lasting[@]}"; do waits+=${running[$group]:-}; done
        [[ -n $waits ]] || for group in "${!running[@]}"; do stop_group "$group"; done
        sleep 1
        collect_ends
    done
    # a group may fail because of another one whose srun ends later
    if [[ -n $failed_group && $end == finished ]] && read -r _ _ _ node rank code _ group < <(first_failure); then
        group=${group##*step=} rc=${code#code=}
        [[ $group == "$failed_group" ]] || record_group "$group" "code=$rc"
        who="rank ${rank#rank=} of group $group on ${node#node=} exited first"
        [[ $rank != rank=- ]] || who="${node#node=} failed before its ranks started"
        say "$who, with exit code $rc"
    fi
}
