#!/bin/bash
# Runs on the first node: setup, then the launcher, which starts the other nodes.
node=${SLURMD_NODENAME:-$HOSTNAME}
die() { printf 'jobgen: %s: %s\n' "$node" "$2" >&2; record_end "$1" "$2"; exit "$1"; } # CODE TEXT
# record_end CODE TEXT: record why no rank starts, like the exit of a rank: srun may drop a node's last output.
record_end() {
    local record=$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART.$node.node${SLURM_LOCALID:-0} why=${2%%$'\n'*}
    (($1)) && mkdir -p "${record%/*}" && [[ ! -e $record ]] || return # the first failure counts
    why=${why//[[:cntrl:]]/ } why=${why//%/%25} why=${why// /%20}
    printf '%s\n' "v=1 time=$(date +%s.%N) kind=exit node=$node rank=- code=$1 signal=0 why=$why" >"$record"
}
trap 'record_end "$?" ""' EXIT
cd "$JOBGEN_WORK_DIR" || die 96 'the working directory does not exist on this node'
# ---- Launch ------------------------------------------------------------------------------------
set -uo pipefail
command -v deepspeed >/dev/null || die 127 "deepspeed is not on PATH; activate its environment in the job's setup key"
command -v pdsh >/dev/null || die 127 "pdsh is not on PATH; activate its environment in the job's setup key"
# shellcheck source=/dev/null
source "$JOBGEN_BUNDLE_DIR/deepspeed_env.sh"
exec deepspeed --hostfile="$JOBGEN_STATE_DIR/hostfile" --launcher=pdsh \
  --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" \
  --no_python --no_local_rank bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
