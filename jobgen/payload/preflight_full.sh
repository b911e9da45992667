#!/bin/bash
# preflight_full.sh [busbw=GB/S] [of=WHOSE] -- COMMAND...: run an all-reduce over all ranks of the job,
# started by COMMAND with the launcher, setup and container of the program. Adds problems, and differences
# between the nodes, to the findings of preflight.sh.
set -uo pipefail
export LC_ALL=C

declare -A expect=()
while (($#)) && [[ $1 != -- ]]; do
    expect[${1%%=*}]=${1#*=}
    shift
done
shift
dir=$JOBGEN_STATE_DIR/preflight.$JOBGEN_RESTART
trial=$dir/all-reduce
# finding LEVEL WHAT FIX [NODE]
finding() {
    printf '%s\t%s\t%s\t%s\n' "$1" "${4:-all-reduce}" "$2" "$3" >>"$dir/findings"
    printf 'jobgen: preflight: %s: %s\njobgen: preflight:   %s\n' "${4:-all-reduce}" "$2" "$3" >&2
}

# Facts that differ between nodes; and nodes refused after the rendezvous host has listened for seconds.
while IFS=$'\t' read -r level node what fix; do
    finding "$level" "$what" "$fix" "$node"
done < <(awk -F '\t' '
    $3 == "fact" { value[$4, $2] = $5; nodes[$2]; names[$4]; n[$4, $5]++ }
    $3 == "listens" { since = $1 }
    $3 == "refused" && since && $1 >= since + 3 {
        print "bad\t" $2 "\tis refused by " $4 ", although it listens there\tcheck link and firewall"
    }
    END {
        for (name in names) {
            most = ""
            for (node in nodes) if ((name, node) in value)
                if (most == "" || n[name, value[name, node]] > n[name, most]) most = value[name, node]
            for (node in nodes) if ((name, node) in value && value[name, node] != most)
                print "warn\t" node "\t" name " is " value[name, node] ", but " most " on most nodes\tthe slowest node slows down the whole job"
        }
    }' "$dir/answers" 2>/dev/null)
# No all-reduce with an unfit node: it would only hang.
! grep -Eqs '^(bad|wrong)' "$dir/findings" || exit 0
patience=${PREFLIGHT_FULL_SECONDS:-180} # includes setup and the import of torch

# A bundle with another program, and separate directories for its logs and state.
rm -rf "$trial"
mkdir -p "$trial/state" "$trial/bundle" || exit 0
# below this bandwidth, pairs of neighbors are measured, too
printf '%s\n' "${expect[busbw]:-0}" >"$trial/state/below"
ln -s "$JOBGEN_BUNDLE_DIR"/* "$trial/bundle/"
ln -sfn "$JOBGEN_BUNDLE_DIR/preflight_program.sh" "$trial/bundle/program.sh"
export JOBGEN_BUNDLE_DIR=$trial/bundle JOBGEN_LOG_DIR=$trial JOBGEN_STATE_DIR=$trial/state JOBGEN_SECRETS=
# another rendezvous than the program's
export MASTER_PORT=$((20000 + (MASTER_PORT + 5003) % 10000)) RDZV_ID=${RDZV_ID}_preflight

timeout -k 5 "$patience" "$@" >"$trial/log" 2>&1 </dev/null &
step=$!
trap 'kill -TERM "$step" 2>/dev/null' TERM
wait "$step"
code=$?
told=$JOBGEN_STATE_DIR/bench.jsonl

# Versions that differ from most nodes.
while IFS=$'\t' read -r node name here most; do
    finding bad "$name is $here, but $most on the other nodes" 'install the same software on all nodes' "$node"
done < <(awk -F '\t' '
    { node = FILENAME; sub(/.*versions\./, "", node); has[$1, node] = $2; n[$1, $2]++; nodes[node]; names[$1] }
    END {
        for (name in names) {
            most = ""
            for (node in nodes) if (most == "" || n[name, has[name, node]] > n[name, most]) most = has[name, node]
            for (node in nodes) if (has[name, node] != most) print node "\t" name "\t" has[name, node] "\t" most
        }
    }' "$JOBGEN_STATE_DIR"/versions.* 2>/dev/null)
! grep -q '^bad' "$dir/findings" || exit 0
if ((code != 0)); then
    # why a node or rank did not start: srun may drop what it wrote last
    said=$(sort -t= -k3,3n "$JOBGEN_STATE_DIR"/events/* 2>/dev/null |
        sed -n '/ why=[^ ]/{s/.* node=\([^ ]*\) .* why=\([^ ]*\).*/\1: \2/p;q}')
    said=${said//%20/ } said=${said//%25/%}
    # srun's own messages come last and list only ranks that were killed because of another one
    [[ -n $said ]] || said=$(cat "$trial"/*.err "$trial/log" 2>/dev/null | grep -E 'Error|error' |
        grep -Ev '^(srun|slurmstepd): ' | tail -n 1 | tr -cd '[:print:]')
    absent='No module named .?torch|is not on PATH|exit code 127$|python: .*not found'
    if ((code == 127)) || grep -Eqs "$absent" "$trial"/*.err "$trial/log" - <<<"$said"; then
        finding skip 'not measured: no python with torch in the job'\''s environment' "see the log in $trial"
    elif ((code == 124 || code == 137)); then
        finding wrong "not finished after $patience s" "see the logs of the ranks in $trial"
    else
        finding wrong "exit code $code${said:+: ${said:0:160}}" "see the logs of the ranks in $trial"
    fi
    exit 0
fi

# Reads a number or a word from a line of JSON by its key.
# shellcheck disable=SC2016  # awk's own $0
json='
    function number(key) { return match($0, "\"" key "\": *[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3) + 0 : 0 }
    function word(key) { return match($0, "\"" key "\": \"[^\"]+") ? substr($0, RSTART + length(key) + 5, RLENGTH - length(key) - 5) : "" }
'
# busbw = bytes / time x 2(n-1)/n, as nccl-tests counts it
read -r reached ranks < <(awk "$json"'
    /"kind": *"world"/ { n = number("ranks") }
    /"kind": *"point"/ { time = number("median"); if (time > 0) rate = number("bytes") / time * 2 * (n - 1) / n / 1e9 }
    END { printf "%.2f %d\n", rate, n }' "$told" 2>/dev/null)
if ((${ranks:-0} < 2)); then
    finding skip 'no measurement between ranks' "see the logs of the ranks in $trial"
    exit 0
fi
printf '%s\n' "$reached" >"$dir/busbw"
printf 'jobgen: preflight: all-reduce over %s ranks: %s GB/s bus bandwidth\n' "$ranks" "$reached" >&2
[[ -n ${expect[busbw]:-} ]] || exit 0
awk -v reached="$reached" -v wanted="${expect[busbw]}" 'BEGIN { exit !(reached < wanted) }' || exit 0

# A node that is slow even with its better neighbor is slow itself: below 85 % of the usual rate, as in
# jobgen bench allreduce --pairs.
slow=$(awk "$json"'
    function met(node, rate) { if (rate > best[node]) best[node] = rate }
    /"kind": *"pair"/ {
        n = number("ranks"); time = number("median")
        rate = time > 0 ? number("bytes") / time * 2 * (n - 1) / n / 1e9 : 0
        met(word("a"), rate); met(word("b"), rate)
    }
    END { for (node in best) printf "%.9g\t%s\n", best[node], node }' "$told" | sort -g | awk -F '\t' '
    { best[NR] = $1; node[NR] = $2 }
    END {
        usual = best[int((NR + 1) / 2)]
        for (at = 1; NR > 2 && at <= NR && best[at] < 0.85 * usual; at++)
            printf "%s\t%.2f\t%.2f\n", node[at], best[at], usual
    }')
half=$(awk -v reached="$reached" -v wanted="${expect[busbw]}" 'BEGIN { print 2 * reached < wanted ? "below" : "" }')
# With very many ranks, a quarter GiB is too little to reach the expected rate.
((ranks <= 64)) || half=
whose="expected ${expect[busbw]} (${expect[of]:-the profile})"
while IFS=$'\t' read -r node here usual; do
    [[ -z $node ]] || finding "$([[ -n $half ]] && echo bad || echo warn)" \
        "$here GB/s with its better neighbor, but usually $usual" \
        'check its HCAs, cables and switch port: ibstat, ethtool' "$node"
done <<<"$slow"
if [[ -z $half ]]; then
    finding warn "$reached GB/s, $whose" 'to measure each pair of nodes: jobgen bench allreduce --pairs'
elif [[ -n $slow ]]; then
    finding warn "less than half the expected rate: $reached GB/s, $whose" 'exclude the slow nodes listed above'
else
    finding wrong "less than half the expected rate: $reached GB/s, $whose" \
        'all nodes are equally slow: set nccl: {debug: INFO} to see which network NCCL uses'
fi
