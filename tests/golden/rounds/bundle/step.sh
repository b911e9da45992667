#!/bin/bash
# Runs one step and waits for its end: job.sbatch sources this file for each step, after it has defined start_step.
# shellcheck disable=SC2034,SC2154,SC2317,SC2329  # job.sbatch sets and uses these
step_index=$((step_index + 1))
if ((rc)) || [[ $end != finished ]]; then return; fi
if grep -qs " kind=step step=$JOBGEN_STEP code=0\$" "$JOBGEN_STATE_DIR"/events/*.job; then
    say "step $JOBGEN_STEP has succeeded in an earlier start: not run again"
    return
fi
export JOBGEN_LOG_DIR=$logs/$JOBGEN_STEP RDZV_ID=${SLURM_JOB_ID}_${JOBGEN_RESTART}_$JOBGEN_STEP
export MASTER_PORT=$((20000 + (SLURM_JOB_ID + 1009 * JOBGEN_RESTART + 101 * step_index) % 10000))
mkdir -p "$JOBGEN_LOG_DIR" "$JOBGEN_STATE_DIR/events" || leave 96 "cannot create $JOBGEN_LOG_DIR"
rm -f "$JOBGEN_STATE_DIR"/{left,failed,signaled}."$JOBGEN_RESTART" # of the step before
record_step() { # KEY=VALUE...: append a line about this step to the job's events
    printf 'v=1 time=%s kind=step step=%s %s\n' "$(date +%s.%N)" "$JOBGEN_STEP" "$*" >>"$record"
}
say "step $JOBGEN_STEP starts"
record_step "nodes=$step_nodes" "world=$JOBGEN_WORLD_SIZE"
# ---- Start -------------------------------------------------------------------------------------
await_slurmctld
start_step &
pid=$!
# Each rank has its own log files. When run by hand, the job's log also shows rank 0.
echo_rank_0() {
    local file=$JOBGEN_LOG_DIR/rank0.$1
    [[ ! -d $JOBGEN_RUN_DIR/bundle ]] || return
    until [[ -e $file ]] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    [[ ! -e $file ]] || tail --pid="$pid" -n +1 -F "$file" 2>/dev/null
}
echo_rank_0 out & echoes=("$!"); echo_rank_0 err >&2 & echoes+=("$!")
events=$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART record=$events.${SLURMD_NODENAME:-}.job
# After a rank has exited with 0, others may wait for it: report if no file grows for this many seconds.
silence=600
{
    before='' since=$SECONDS
    exec {nothing}<> <(:) # waits without sleep, which would outlive the job
    until read -r -t "$((silence / 20 + 1))" -u "$nothing"; do
        [[ -e $JOBGEN_STATE_DIR/left.$JOBGEN_RESTART ]] || continue
        sizes=$(find "$JOBGEN_STATE_DIR/events" "$JOBGEN_LOG_DIR" -printf '%s\n' | cksum)
        [[ $sizes == "$before" ]] || { before=$sizes since=$SECONDS; }
        ((SECONDS - since >= silence)) || continue
        read -r node rank < <(grep -h " step=$JOBGEN_STEP\$" "$events".*[0-9] | awk -F '[ =]' '{ left[$8 " " $10] = $6 == "exit" && !$12 }
            END { for (i in left) if (left[i]) { n++; who = i }; if (n < ENVIRON["JOBGEN_WORLD_SIZE"]) print who }')
        [[ -n $node ]] || continue
        say "rank $rank on $node exited with 0, but then no rank wrote anything for $((silence / 60)) minutes:" \
            "the others may be waiting for it"
        printf 'v=1 time=%s kind=silent node=%s rank=%s seconds=%s\n' \
            "$(date +%s)" "$node" "$rank" "$silence" >>"$record"
        break
    done
} &
reporter=$!
# A signal interrupts wait, and in bash sometimes the next wait, too; 127: exit code already read.
rc=127 alive=1
while [[ -n $alive ]]; do
    kill -0 "$pid" 2>/dev/null || alive=
    wait "$pid"; code=$?
    ((code == 127)) || rc=$code
done
{ kill "$reporter" && wait "$reporter"; } 2>/dev/null
# The job exits with the code of the rank that failed first, not of ranks that got SIGTERM after it.
# Clocks of nodes may differ by a second: failures on other nodes in the same second are recorded, too.
first_failure() {
    grep -h " step=$JOBGEN_STEP\$" "$events".*[0-9] 2>/dev/null | LC_ALL=C sort -t= -k3,3n | LC_ALL=C awk -F '[ =]' -v record="$record" '
        $6 == "start" && starts[$8, $12]++ { n = 0; split("", nodes) } # all ranks were restarted
        $6 == "exit" && $12 && $14 != 15 && !($8 in nodes) && (!n || $4 <= first + 1) {
            if (!n) first = $4
            nodes[$8]; failure[n++] = $0
        }
        END {
            for (i = 0; i < n; i++) if (sub(/kind=exit/, "kind=failed", failure[i])) print failure[i] >>record
            if (n) print failure[0]
        }'
}
if ((rc)) && [[ $end == finished ]] && read -r _ _ _ node rank code _ < <(first_failure); then
    rc=${code#code=} who="rank ${rank#rank=} on ${node#node=} exited first"
    [[ $rank != rank=- ]] || who="${node#node=} failed before its ranks started"
    say "$who, with exit code $rc"
fi
# ---- End ---------------------------------------------------------------------------------------
wait "${echoes[@]}"
code=$rc
record_step "code=$code"
