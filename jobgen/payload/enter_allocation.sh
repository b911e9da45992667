#!/bin/sh
# enter_allocation.sh JOB SRUN...: start the batch script as a step of the allocation of JOB, and print its id when the
# script has claimed the run. srun goes on in a session of its own.
job=$1
shift
setsid "$@" </dev/null >/dev/null 2>submit/step.err &
step=$!
while kill -0 "$step" 2>/dev/null && ! [ -L state/0/claim ]; do
    sleep 0.1 2>/dev/null || sleep 1
done
if [ -L state/0/claim ]; then
    printf '%s\n' "$job"
    exit 0
fi
cat submit/step.err >&2
tail -n 5 "logs/job-$job.out" >&2 2>/dev/null
exit 1
