#!/bin/bash
# preflight_full.sh [busbw=GB/S] [of=WHOSE] -- COMMAND...: an all-reduce over all ranks of the job, started
# by COMMAND as the program will be: the same launcher, setup and container, with another program.
# Adds what it finds, and what the nodes' answers differ in, to preflight.sh's findings.
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

# facts that differ between nodes; and who is refused where the rendezvous host has listened for seconds
while IFS=$'\t' read -r level node what fix; do
    finding "$level" "$what" "$fix" "$node"
done < <(awk -F '\t' '
    $3 == "fact" { value[$4, $2] = $5; nodes[$2]; names[$4]; n[$4, $5]++ }
    $3 == "listens" { since = $1 }
    $3 == "refused" && since && $1 >= since + 3 {
        print "bad\t" $2 "\tis refused by " $4 ", which listens there\tcheck link and firewall"
    }
    END {
        for (name in names) {
            most = ""
            for (node in nodes) if ((name, node) in value)
                if (most == "" || n[name, value[name, node]] > n[name, most]) most = value[name, node]
            for (node in nodes) if ((name, node) in value && value[name, node] != most)
                print "warn\t" node "\t" name " is " value[name, node] ", and " most " on most nodes\tthe job is as fast as its slowest node"
        }
    }' "$dir/answers" 2>/dev/null)
# no all-reduce beside a node that is not fit: it would only hang
! grep -Eqs '^(bad|wrong)' "$dir/findings" || exit 0
patience=${PREFLIGHT_FULL_SECONDS:-180} # with the setup and the import of torch

# A bundle that differs in the program, and places of its own for what the ranks leave.
rm -rf "$trial"
mkdir -p "$trial/state" "$trial/bundle" || exit 0
# where it is too slow, neighbours are measured too
printf '%s\n' "${expect[busbw]:-0}" >"$trial/state/below"
ln -s "$JOBGEN_BUNDLE_DIR"/* "$trial/bundle/"
ln -sfn "$JOBGEN_BUNDLE_DIR/preflight_program.sh" "$trial/bundle/program.sh"
export JOBGEN_BUNDLE_DIR=$trial/bundle JOBGEN_LOG_DIR=$trial JOBGEN_STATE_DIR=$trial/state JOBGEN_SECRETS=
# what is left of this rendezvous must not be in the way of the program's
export MASTER_PORT=$((20000 + (MASTER_PORT + 5003) % 10000)) RDZV_ID=${RDZV_ID}_preflight

timeout -k 5 "$patience" "$@" >"$trial/log" 2>&1 </dev/null &
step=$!
trap 'kill -TERM "$step" 2>/dev/null' TERM
wait "$step"
code=$?
told=$JOBGEN_STATE_DIR/bench.jsonl

# other versions than on most nodes
while IFS=$'\t' read -r node name here most; do
    finding bad "$name is $here, and $most on the other nodes" 'have the same software on all nodes' "$node"
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
    # the step's own words come last, and say only which ranks ended because another one had
    said=$(cat "$trial"/*.err "$trial/log" 2>/dev/null | grep -E 'Error|error' |
        grep -Ev '^(srun|slurmstepd): ' | tail -n 1 | tr -cd '[:print:]')
    absent='No module named .?torch|is not on PATH here|exit code 127$|python: .*not found'
    if ((code == 127)) || grep -Eqs "$absent" "$trial"/*.err "$trial/log"; then
        finding skip 'not measured: no python with torch where the program runs' "its log is in $trial"
    elif ((code == 124 || code == 137)); then
        finding wrong "it did not finish in $patience s" "the logs of the ranks are in $trial"
    else
        finding wrong "exit code $code${said:+: ${said:0:160}}" "the logs of the ranks are in $trial"
    fi
    exit 0
fi

# a number and a word of a line of JSON, by its key
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
    finding skip 'nothing was measured between ranks' "the logs of the ranks are in $trial"
    exit 0
fi
printf '%s\n' "$reached" >"$dir/busbw"
printf 'jobgen: preflight: all-reduce over %s ranks: %s GB/s bus bandwidth\n' "$ranks" "$reached" >&2
[[ -n ${expect[busbw]:-} ]] || exit 0
awk -v reached="$reached" -v wanted="${expect[busbw]}" 'BEGIN { exit !(reached < wanted) }' || exit 0

# A node that is slow with its better neighbour too is slow itself: as jobgen bench allreduce --pairs
# judges, by 85 % of what is usual.
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
# what is expected is known of few ranks; of very many, a quarter GiB is too little to reach it
((ranks <= 64)) || half=
whose="${expect[busbw]} are expected (${expect[of]:-the profile})"
while IFS=$'\t' read -r node here usual; do
    [[ -z $node ]] || finding "$([[ -n $half ]] && echo bad || echo warn)" \
        "$here GB/s with its better neighbour, and $usual is usual here" \
        'check its HCAs, cables and switch port: ibstat, ethtool' "$node"
done <<<"$slow"
if [[ -z $half ]]; then
    finding warn "$reached GB/s, and $whose" 'jobgen bench allreduce --pairs measures each pair of nodes'
elif [[ -n $slow ]]; then
    finding warn "less than half of what is expected: $reached GB/s, and $whose" 'the nodes named above are slow'
else
    finding wrong "less than half of what is expected: $reached GB/s, and $whose" \
        'no node is slower than the others. NCCL_DEBUG: INFO under nccl: shows the network that it takes'
fi
