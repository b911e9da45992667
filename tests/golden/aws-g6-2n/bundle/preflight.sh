#!/bin/bash
# preflight.sh [HOST...] -- [WHAT=VALUE...]: check all nodes of the job at once; each problem becomes a line
# LEVEL NODE WHAT FIX of the file findings. Without HOST: check this node, and print what it reports.
# shellcheck disable=SC1091,SC2016,SC2206
set -uo pipefail
export LC_ALL=C
declare -A expect=() left=() skew=() lost=() odd=() found=()
hosts=() checks=(ports shm host gpus) node=${SLURMD_NODENAME:-${HOSTNAME%%.*}} root=${PREFLIGHT_ROOT:-}
while [[ $1 != -- ]]; do hosts+=("$1") left[$1]='' && shift; done
for word in "${@:2}"; do expect[${word%%=*}]=${word#*=}; done
# ---- On each node: print lines NODE KIND WHAT FIX; odd means bad if other nodes are better --------------
tell() { printf '%s\n' "$node$(printf '\t%.300s' "$@" | tr -c '[:print:]\t' ' ')"; } # srun cuts at 1024 bytes
check_ports() {
    local port name state rate ready=0 poor=''
    for port in "$root"/sys/class/{infiniband/*/ports,net}/*; do
        name="${port#"$root"/sys/class/*/} $(cat "$port/link_layer" 2>/dev/null)" name=${name/\/ports\//:}
        [[ $name =~ ${expect[named]} && ! $name =~ ${expect[but]:-^$} ]] || continue
        state=$(cat "$port"/{operstate,state} 2>/dev/null) rate=$(cat "$port/rate" 2>/dev/null)
        if [[ ! $state =~ (ACTIVE|up|unknown)$ ]] || ((${rate%%[. ]*} + 0 < ${expect[gbps]:-0})); then
            poor+=", ${name% *} is ${state#*: }${rate:+ at $rate}"
        else
            ready=$((ready + 1))
        fi
    done
    ((ready >= $1)) || tell odd "$ready of $1 network ports are ready$poor" 'check cable, switch port and driver'
}
check_shm() { # a df that hangs must not hold stderr: srun would wait for that a minute after a cancel
    local free size kind
    read -r kind free size < <(exec 2>/dev/null && df -Pk "$root/dev/shm" |
        awk -v need="$1" 'END { print $2 < need * 1024 ? "odd" : "bad", int($4 / 1024), int($2 / 1024) }')
    ((free >= $1)) || tell "$kind" "/dev/shm has $free MiB free of $size, but $1 are needed" 'remove old files there'
}
check_host() { # nothing listens there yet: a refusal is an answer
    local answer
    [[ $node != "${expect[first]:-}" ]] || return 0
    answer=$(timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2" && echo refused' - "$1" "${expect[port]}" 2>&1)
    answer=${answer##*: }
    if [[ $answer =~ refused ]]; then tell reached; else tell lost "$1: ${answer:-no answer in 5 s}"; fi
}
check_gpus() {
    local text count problem
    text=$(nvidia-smi -q 2>&1)
    (($? != 127)) || { tell skip 'GPUs: nvidia-smi not found' 'not checked' && return; }
    count=$(grep -Ec '^GPU [0-9A-F]|^ +MIG Device' <<<"$text")
    ((count >= $1)) || tell bad "$count of $1 GPUs found$( ((count)) || printf ' (%s)' "${text%%$'\n'*}")" \
        'have the node drained: a GPU is off the bus, or its driver is not loaded'
    ((count <= $1)) || return 0 # also lists GPUs of other jobs
    awk -F ' *: *' '
        { key = $1; sub(/^ +/, "", key); if ($2 == "") part[length($1) - length(key)] = key }
        /^GPU / { gpu = "GPU " n++ ": " }
        /_err_count:/ || $2 == "Yes" && (part[4] == "Remapped Rows" || key ~ /^Pending Page/) ||
        $2 == "Active" && key ~ /^HW (Thermal|Power)/ || part[8] == "Volatile" && $2 + 0 &&
        (key ~ /Uncorrectable/ || part[12] == "Double Bit" && key == "Total") { print gpu part[4] ": " key ": " $2 }
    ' <<<"$text" | while read -r problem; do tell bad "${problem#: }" 'have the GPU reset, or the node drained'; done
}
if ((${#hosts[@]} == 0)); then
    tell clock "$(date +%s)"
    for check in "${checks[@]}"; do
        [[ -z ${expect[$check]:-} ]] || { tell at "$check" && "check_$check" "${expect[$check]}"; }
    done
    tell end; exit
fi
# ---- In the batch shell: start the checks and evaluate them ---------------------------------------------
dir=$JOBGEN_STATE_DIR/preflight.$JOBGEN_RESTART n=${#hosts[@]} begun=0 reached='' level=bad
mkdir -p "$dir" && exec {answers}>"$dir/answers" || exit
step=(bash "$0" -- "first=${hosts[0]}" "others=$((n - 1))" "host=$MASTER_ADDR" "port=$MASTER_PORT" "${@:2}")
((n == 1)) || step=(srun --overlap --nodes="$n" --ntasks="$n" --ntasks-per-node=1 --cpu-bind=none --mpi=none
    --kill-on-bad-exit=0 --wait=0 --no-kill --job-name=preflight ${expect[srun]:-} "${step[@]}")
add() { found["$1"$'\t'"$3"$'\t'"$4"]+=" $2"; } # LEVEL NODE WHAT FIX
# The site's prolog may delay the first line of a node; its last line comes soon after.
printf -v from '%(%s)T' -1
end=$((SECONDS + ${PREFLIGHT_SECONDS:-120 + n / 10}))
exec {lines}< <(printf '%s\n' "$BASHPID" && exec "${step[@]}" 2>"$dir/errors" </dev/null) && read -r -u "$lines" pid
while ((${#left[@]} && end > SECONDS)) && IFS=$'\t' read -r -t $((end - SECONDS)) -u "$lines" host kind what fix; do
    [[ -n ${host:+${left[$host]+known}} ]] || continue
    printf -v now '%(%s)T' -1
    what=${what//[^[:print:]]/ } fix=${fix//[^[:print:]]/ }
    printf '%s\t%s\t%s\t%s\t%s\n' "$now" "$host" "$kind" "$what" "$fix" >&"$answers"
    case $kind in
        clock) # read between the start of the step and its line
            [[ $what =~ ^[1-9][0-9]{0,11}$ ]] || continue
            ((what - now <= 5 && from - what <= 6)) || skew[$host]="off by $((what - now)) s"
            ((++begun < n)) || end=$((SECONDS + ${PREFLIGHT_SECONDS:-30})) ;;
        at) left[$host]=", at the check of $what" ;;
        end) unset "left[$host]" ;;
        reached) reached=1 ;;
        lost) lost[$host]=$what ;;
        odd) odd[$host]=$what$'\t'$fix ;;
        bad | wrong | warn | skip) add "$kind" "$host" "$what" "$fix" ;;
    esac
done
((begun)) || left=() # the step did not start: Slurm may not reach a node
for host in $( ((begun)) || scontrol show node -o "$SLURM_JOB_NODELIST" 2>&1 |
    sed -nE 's/^NodeName=([^ ]+) .* State=[^ ]*(\*|RESPOND|DOWN|FAIL).*/\1/p'); do left[$host]=', nor to Slurm'; done
for host in "${!left[@]}"; do
    error=$(sed -n "/\b$host\b/{s/[^[:print:]]//g;s/\(.\{,120\}\).*/ (\1)/p;q}" "$dir/errors")
    add bad "$host" "no answer in $SECONDS s${left[$host]}$error" 'have it drained'
done
((2 * ${#skew[@]} <= n)) || skew=(["${hosts[0]}"]="different from ${#skew[@]} other nodes")
for host in "${!skew[@]}"; do add bad "$host" "its clock is ${skew[$host]}" 'have the clock set'; done
[[ -n $reached ]] || ((${#lost[@]} < 2)) || lost=(["${hosts[0]}"]="${lost[*]}")
for host in "${!lost[@]}"; do add bad "$host" "cannot reach the rendezvous host, ${lost[$host]}" 'check its link'; done
((${#odd[@]} < n - ${#left[@]})) || level=warn # the same on all nodes: normal at this site, or a wrong profile
for host in "${!odd[@]}"; do add "$level" "$host" "${odd[$host]%$'\t'*}" "${odd[$host]#*$'\t'}"; done
for key in "${!found[@]}"; do
    IFS=$'\t' read -r level what fix <<<"$key"
    printf 'jobgen: preflight: %s: %s: %s\njobgen: preflight:   %s\n' "$level" "${found[$key]# }" "$what" "$fix" >&2
    for host in ${found[$key]}; do printf '%s\t%s\t%s\t%s\n' "$level" "$host" "$what" "$fix"; done
done >"$dir/.findings" && mv -f "$dir/.findings" "$dir/findings"
printf 'jobgen: preflight: %s of %s nodes answered in %s s\n' "$begun" "$n" "$SECONDS" >&2
((begun)) || head -n 1 "$dir/errors" >&2
for signal in 0 0 0 TERM KILL; do ! kill -s "$signal" "$pid" 2>/dev/null || sleep 0.2; done
