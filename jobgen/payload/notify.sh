#!/bin/bash
# notify.sh EVENT STATE CODE SECONDS JOB WHO [COMMAND...]: send one message about this job. The URL of the
# webhook is read from standard input, so that it is in no process list; WHO is "RANK NODE" of the rank that
# failed first. It ends within 11 seconds and always succeeds.
set -uf -m
LC_ALL=C
event=$1 state=$2 code=$3 seconds=$4 job=$5 who=$6 node=${SLURMD_NODENAME:-${HOSTNAME%%.*}}
shift 6
IFS= read -r url || true
say() { printf 'jobgen: notify: %s\n' "$*" >&2; }
# quoted TEXT: as a string of JSON, and of a configuration of curl
quoted() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//[[:cntrl:]]/ }"
}

first=null rank=${who%% *}
text="$JOBGEN_NAME (job $job on $node): $state"
[[ $state != failed ]] || text+=", exit code $code"
[[ $event == start ]] || text+=" after $((seconds / 3600))h $((seconds / 60 % 60))m $((seconds % 60))s"
if [[ -n $who ]]; then
    if [[ $rank == *[!0-9]* ]]; then
        rank=null text+=", ${who#* } failed before its ranks started"
    else
        text+=", rank $rank on ${who#* } failed first"
    fi
    first="{\"rank\": $rank, \"node\": $(quoted "${who#* }")}"
fi
body="{\"text\": $(quoted "$text"), \"event\": \"$event\", \"state\": \"$state\", \"name\": $(quoted "$JOBGEN_NAME"),"
body+=" \"job_id\": $(quoted "$job"), \"node\": $(quoted "$node"), \"exit_code\": ${code:-null},"
body+=" \"elapsed_seconds\": $seconds, \"restart\": ${JOBGEN_RESTART:-0}, \"first_failure\": $first}"

# post: the URL and the body are given to curl as its configuration; its messages could show the URL
post() {
    printf '%s\n' "url = $(quoted "$url")" 'proto = "=http,https"' 'request = "POST"' \
        'header = "Content-Type: application/json"' "data-raw = $(quoted "$body")" |
        curl -q --silent --fail --output /dev/null --connect-timeout 3 --max-time 5 --config -
}
names=() pids=()
if [[ -n $url ]]; then
    post &
    pids+=("$!") names+=(webhook)
fi
if (($#)); then
    (cd "$JOBGEN_WORK_DIR" && exec "$@" <<<"$body") >&2 &
    pids+=("$!") names+=(command)
fi
# each is a process group of its own (set -m), so that all of it can be killed
left=100
for i in "${!pids[@]}"; do
    while ((left-- > 0)) && kill -0 "${pids[i]}" 2>/dev/null; do sleep 0.1; done
    if kill -0 "${pids[i]}" 2>/dev/null; then
        kill -KILL -- "-${pids[i]}" 2>/dev/null
        say "the ${names[i]} took more than 10 seconds"
        continue
    fi
    wait "${pids[i]}" 2>/dev/null
    ended=$?
    ((ended == 0)) || say "the ${names[i]} failed with exit code $ended"
done
exit 0
