#!/bin/bash
# preflight_all.sh NODE... -- [WHAT=VALUE...]: look at all nodes of the job at once, compare them, and
# name those that are not fit. Called by job.sbatch before the program starts; what is looked at on a
# node stands in preflight.sh. Leaves in $JOBGEN_STATE_DIR/preflight.<restart>:
#   NODE       what each node said
#   findings   LEVEL NODE WHAT FIX, with tabs between; LEVEL is bad, wrong or warn
#   seconds    how long it took
# Ends with 0 also where nodes are bad; job.sbatch reads what follows from findings.
set -uo pipefail
export LC_ALL=C

hosts=()
while (($#)) && [[ $1 != -- ]]; do
    hosts+=("$1")
    shift
done
shift
dir=$JOBGEN_STATE_DIR/preflight.$JOBGEN_RESTART
mkdir -p "$dir" && rm -f "$dir"/* || exit
# Seconds in which a node must say its first word, and then its last. Slurm may run the site's prolog
# on a node before its first step. A job may say both: env: {PREFLIGHT_SECONDS: 60}
patience=${PREFLIGHT_SECONDS:-}
if [[ $patience =~ ^[0-9]{1,4}$ ]]; then
    patience=$((10#$patience)) first=$((10#$patience))
else
    patience=30 first=$((120 + ${#hosts[@]} / 10))
fi

say() { printf 'jobgen: preflight: %s\n' "$*" >&2; }
now() { if [[ -n ${EPOCHREALTIME:-} ]]; then printf '%s' "$EPOCHREALTIME"; else date +%s; fi; }
seconds() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }

# ---- Ask --------------------------------------------------------------------------------------------
declare -A at=() begun_on=() ended=() skew=() fact=() reach=() lines=()
declare -a found=()
finding() { found+=("$1"$'\t'"$2"$'\t'"$3"$'\t'"$4"); }

begun=$(now)
look=(bash "$JOBGEN_BUNDLE_DIR/preflight.sh" "first=${hosts[0]}" "others=$((${#hosts[@]} - 1))"
    "patience=$((first + patience))" "head=${MASTER_ADDR:-}" "port=${MASTER_PORT:-}" "$@")
if ((${#hosts[@]} > 1)); then
    gpus=()
    for word in "$@"; do [[ $word != srun=* ]] || read -ra gpus <<<"${word#srun=}"; done
    look=(srun --overlap --nodes="${#hosts[@]}" --ntasks="${#hosts[@]}" --ntasks-per-node=1
        --cpu-bind=none --kill-on-bad-exit=0 --wait=0 --no-kill --mpi=none
        --job-name=preflight ${gpus[@]+"${gpus[@]}"} "${look[@]}")
fi
exec {told}< <(printf '%s\n' "$BASHPID" && exec "${look[@]}" 2>"$dir/.errors" </dev/null)
read -r -u "$told" step

# answer NODE KIND WORDS...: take in one line of a node.
answer() {
    local host=$1 kind=$2 what=$3 fix=$4
    case $kind in
        clock)
            begun_on[$host]=1
            clock "$host" "$what"
            ;;
        look) at[$host]=$what ;;
        fact) fact["$what"$'\t'"$host"]=$fix ;;
        listens)
            listens=$SECONDS
            reach["$kind"$'\t'"$host"]=${what:--}
            ;;
        # who was refused before the head listened was early
        refused) ((SECONDS < ${listens:-$SECONDS} + 3)) || reach["$kind"$'\t'"$host"]=${what:--} ;;
        reached | lost) reach["$kind"$'\t'"$host"]=${what:--} ;;
        bad | odd | wrong | warn) finding "$kind" "$host" "$what" "$fix" ;;
        skip) finding skip "$host" "$what" - ;;
        end) ended[$host]=$what ;;
    esac
}

# A node's clock is off by at least: it was read after the step had begun and before its line came.
clock() {
    [[ $2 =~ ^[0-9]{1,12}(\.[0-9]+)?$ ]] || return
    skew[$1]=$(awk -v said="$2" -v from="$begun" -v to="$(now)" 'BEGIN {
        # date +%s leaves up to a second off
        if (said - to > 0) print int(said - to)
        else if (from - (said + 1) > 0) print -int(from - (said + 1))
        else print 0 }')
}

known=" ${hosts[*]} "
# take SECONDS: the next line, if it comes in time
take() {
    local host kind what fix
    (($1 > 0)) || return
    IFS=$'\t' read -r -t "$1" -u "$told" host kind what fix || return
    [[ $known == *" $host "* ]] || return 0
    what=${what//[[:cntrl:]]/ } fix=${fix//[[:cntrl:]]/ }
    lines[$host]+=$kind$'\t'$what$'\t'$fix$'\n'
    # a shared file system is slow to open files: twice for a node, not once for a line
    [[ $kind != clock && $kind != end ]] || keep "$host"
    answer "$host" "$kind" "$what" "$fix"
    return 0
}
keep() {
    printf '%s' "${lines[$1]:-}" >>"$dir/$1"
    lines[$1]=
}
end=$((SECONDS + first)) all=
while ((${#ended[@]} < ${#hosts[@]})) && take "$((end - SECONDS))"; do
    [[ -z $all && ${#begun_on[@]} == "${#hosts[@]}" ]] || continue
    all=1
    end=$((SECONDS + patience))
done
if ((${#ended[@]} == ${#hosts[@]})); then
    # the step's own end, and what was said beside
    end=$((SECONDS + 5))
    while take "$((end - SECONDS))"; do :; done
fi
for host in "${!lines[@]}"; do [[ -z ${lines[$host]} ]] || keep "$host"; done
waited=$(seconds "$begun")
waited=${waited%.*}
errors=$(tr -cd '[:print:]\n' <"$dir/.errors") # without what follows from the kill
if kill -TERM "$step" 2>/dev/null; then
    # a task that hangs in the kernel outlives its step; the program's step does not wait for it
    for _ in 1 2 3 4 5; do
        sleep 0.2
        kill -0 "$step" 2>/dev/null || break
    done
    kill -KILL "$step" 2>/dev/null
fi
exec {told}<&-

# ---- Judge ------------------------------------------------------------------------------------------
# Who has not answered. Where nobody has, Slurm may know a node that it does not reach.
silent() {
    local host said more fix='have the node drained, or looked at by the site'
    if ((${#ended[@]} == 0 && ${#at[@]} == 0)); then
        while read -r host; do
            finding bad "$host" 'does not answer Slurm' "$fix"
        done < <(unreached)
        return
    fi
    for host in "${hosts[@]}"; do
        [[ -z ${ended[$host]:-} ]] || continue
        said="does not answer in $waited s"
        [[ -z ${at[$host]:-} ]] || said="does not come to an end in $waited s, at ${at[$host]}"
        more=$(grep -m 1 -w -- "$host" <<<"$errors")
        [[ -z $more ]] || said+=" (${more:0:120})"
        finding bad "$host" "$said" "$fix"
    done
}

unreached() {
    timeout 10 scontrol show node -o "${SLURM_JOB_NODELIST:-}" 2>/dev/null |
        sed -nE 's/^NodeName=([^ ]+) .* State=([^ ]*(\*|NOT_RESPONDING|DOWN|FAIL|NO_RESPOND)[^ ]*) .*/\1/p'
}

# A clock more than five seconds off. Where most nodes seem to be, it is the one they are compared to.
clocks() {
    local host off=() fix='have its clock set (chronyc tracking)'
    for host in "${!skew[@]}"; do
        ((skew[$host] <= 5 && skew[$host] >= -5)) || off+=("$host")
    done
    ((${#off[@]} > 0)) || return 0
    if ((2 * ${#off[@]} > ${#skew[@]} && ${#skew[@]} > 2)); then
        finding bad "${SLURMD_NODENAME:-${hosts[0]}}" "its clock differs from that of ${#off[@]} other nodes" "$fix"
        return
    fi
    for host in "${off[@]}"; do
        finding bad "$host" "its clock is off by ${skew[$host]} s" "$fix"
    done
}

# Who cannot reach the head. Where none of several can, the head is to blame.
ways() {
    local key host lost=() reached=0 fix='have the link and the firewall looked at'
    for key in "${!reach[@]}"; do
        host=${key#*$'\t'}
        case ${key%%$'\t'*} in
            reached) reached=1 ;;
            lost) lost+=("$host"$'\t'"cannot reach the head, ${reach[$key]}") ;;
            refused)
                # nobody listens there: the answer itself came back, which is all that can be known
                [[ -z ${reach["listens"$'\t'"${hosts[0]}"]:-} ]] ||
                    lost+=("$host"$'\t'"the head refuses ${reach[$key]}, on which it listens")
                ;;
        esac
    done
    ((${#lost[@]} > 0)) || return 0
    if ((reached == 0 && ${#lost[@]} > 1)); then
        finding bad "${hosts[0]}" "none of ${#lost[@]} nodes reaches it: ${lost[0]#*$'\t'}" "$fix"
        return
    fi
    for host in "${lost[@]}"; do finding bad "${host%%$'\t'*}" "${host#*$'\t'}" "$fix"; done
}

# What most nodes have, and who has something else.
differences() {
    local name line
    while IFS= read -r line; do
        name=${line%%$'\t'*} line=${line#*$'\t'}
        finding warn "${line%%$'\t'*}" "$name is ${line#*$'\t'}" 'the job is as fast as its slowest node'
    done < <(for name in "${!fact[@]}"; do printf '%s\t%s\n' "$name" "${fact[$name]}"; done |
        sort | awk -F '\t' '
            { value[$1, $2] = $3; nodes[$2]; names[$1]; n[$1, $3]++ }
            END {
                for (name in names) {
                    most = ""
                    for (node in nodes) if ((name, node) in value)
                        if (most == "" || n[name, value[name, node]] > n[name, most]) most = value[name, node]
                    for (node in nodes) if ((name, node) in value && value[name, node] != most)
                        print name "\t" node "\t" value[name, node] ", and " most " on most nodes"
                }
            }')
}

# odd: bad, unless all nodes have it. And nothing twice.
settled() {
    printf '%s\n' ${found[@]+"${found[@]}"} | awk -F '\t' -v OFS='\t' -v all="${#ended[@]}" '
        NF == 4 && !seen[$0]++ { line[++n] = $0; if ($1 == "odd") odd[$2] }
        END {
            for (node in odd) count++
            for (i = 1; i <= n; i++) {
                split(line[i], word, FS)
                if (word[1] == "odd" && (count < all || all == 1)) word[1] = "bad"
                else if (word[1] == "odd") { word[1] = "warn"; word[3] = word[3] " (on all nodes: is it the profile?)" }
                print word[1], word[2], word[3], word[4]
            }
        }'
}

silent
clocks
ways
differences
settled >"$dir/.findings" && mv -f "$dir/.findings" "$dir/findings"

# ---- Tell -------------------------------------------------------------------------------------------
# The same of several nodes is said once.
told_of() {
    awk -F '\t' -v level="$1" -v word="$2" -v most=8 '
        $1 == level {
            key = $3 FS $4
            if (!(key in n)) order[++keys] = key
            if (++n[key] <= most) nodes[key] = nodes[key] (n[key] > 1 ? ", " : "") $2
        }
        END {
            for (i = 1; i <= keys; i++) {
                split(order[i], part, FS)
                more = n[order[i]] > most ? " and " n[order[i]] - most " more" : ""
                print "jobgen: preflight: " word nodes[order[i]] more ": " part[1]
                if (part[2] != "-") print "jobgen: preflight:   " part[2]
            }
        }' "$dir/findings" >&2
}
told_of bad ''
told_of wrong ''
told_of warn 'warning: '
told_of skip 'not looked at: '
seconds "$begun" >"$dir/seconds"
if ((${#ended[@]} == 0)) && ! grep -q '^bad' "$dir/findings"; then
    say "nothing was looked at: ${errors%%$'\n'*}"
    exit 0
fi
bad=$(awk -F '\t' '$1 == "bad" && !seen[$2]++' "$dir/findings" | wc -l)
if ((bad == 0)) && ! grep -q '^wrong' "$dir/findings"; then
    say "${#hosts[@]} nodes are fit, looked at in $(<"$dir/seconds") s"
else
    ((bad == 0)) || say "$bad of ${#hosts[@]} nodes are not fit"
fi
exit 0
