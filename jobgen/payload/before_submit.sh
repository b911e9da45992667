# shellcheck shell=sh
# before_submit.sh SCRIPT ACCOUNT QOS OPTION...: when sbatch expects SCRIPT to start, and what its account (the
# user's default if empty) and QOS may use. Nothing is submitted. Needs common.sh and account_limits.sh before it.
clean_environment
script=$1 account=$2 qos=$3
shift 3
emit now "$(date +%Y-%m-%dT%H:%M:%S)"
emit test "$(printf '%s' "$script" | timeout 10 sbatch --test-only "$@" 2>&1)"
emit_limits "$account" "$qos"
