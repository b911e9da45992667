#!/bin/bash
# Runs once per node: setup, then the launcher, which starts the node's ranks.
# shellcheck disable=SC1090,SC1091  # the cluster's files are not available here
node=${SLURMD_NODENAME:-$HOSTNAME}
die() { printf 'jobgen: %s: %s\n' "$node" "$2" >&2; record_end "$1" "$2"; exit "$1"; } # CODE TEXT
# record_end CODE TEXT: record why no rank starts, like the exit of a rank: srun may drop a node's last output.
record_end() {
    local record=$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART.$node.node${SLURM_LOCALID:-0} why=${2%%$'\n'*}
    (($1)) && mkdir -p "${record%/*}" && [[ ! -e $record ]] || return # the first failure counts
    why=${why//[[:cntrl:]]/ } why=${why//%/%25} why=${why// /%20}" step=watch"
    printf '%s\n' "v=1 time=$(date +%s.%N) kind=exit node=$node rank=- code=$1 signal=0 why=$why" >"$record"
}
trap 'record_end "$?" ""' EXIT
cd "$JOBGEN_WORK_DIR" || die 96 'the working directory does not exist on this node'
# ---- Setup: a failing line ends the job, unless it ends in || true -----------------------------
setup_failed() {
    local code=$?
    # ignore failures inside the site's own files
    [[ ${#BASH_SOURCE[@]} -gt 2 ]] || die "$code" "setup failed: $1"
}
trap 'setup_failed "$BASH_COMMAND"' ERR
# job.yaml:5
source .venv/bin/activate
trap - ERR
# ---- Launch ------------------------------------------------------------------------------------
set -uo pipefail
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1
exec bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
