# shellcheck shell=sh
# before_submit.sh SCRIPT ACCOUNT QOS MODEL OPTION...: when sbatch expects SCRIPT to start, what its account (the
# user's default if empty) and QOS may use, and the Hugging Face cache if MODEL is not in it. The variables hub_NAME
# hold what the job sets of the variable NAME. Nothing is submitted. Needs common.sh and account_limits.sh before it.
clean_environment
script=$1 account=$2 qos=$3 model=$4
shift 4
emit now "$(date +%Y-%m-%dT%H:%M:%S)"
emit test "$(printf '%s' "$script" | timeout 10 sbatch --test-only "$@" 2>&1)"
emit_limits "$account" "$qos"
if [ -n "$model" ]; then
    cache=${hub_HF_HOME:-${hub_XDG_CACHE_HOME:-$HOME/.cache}/huggingface}
    cache=${hub_HF_HUB_CACHE:-${hub_HUGGINGFACE_HUB_CACHE:-$cache/hub}}
    name=$(printf '%s' "$model" | sed 's,/,--,')
    set -- "$cache/models--$name/snapshots"/*/*
    [ -e "$1" ] || emit hub "$cache"
fi
