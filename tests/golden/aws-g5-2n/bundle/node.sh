#!/bin/bash
# Runs once per node: setup, then the launcher, which starts the node's ranks.
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
# ---- Compiler caches: node-local, because ranks race for them in a shared home directory ---------
all_caches=${TMPDIR:-/tmp}/jobgen-$UID-$SLURM_JOB_ID-$SLURMD_NODENAME-01ba4719
caches=$all_caches.$JOBGEN_RESTART
mkdir -m 700 "$caches" 2>/dev/null
[[ -d $caches && -O $caches && ! -L $caches ]] ||
    caches=$(mktemp -d "$all_caches-XXXXXXXX") || die 96 'cannot create a directory for caches'
find "${TMPDIR:-/tmp}" -maxdepth 1 -user "$UID" -name "jobgen-$UID-*" -mtime +30 \
    ! -name "*-$SLURM_JOB_ID-*" -exec rm -rf {} + # of other jobs, older than a month
[[ $SLURM_LOCALID != 0 || $(stat -f -c %T "$caches") != tmpfs ]] ||
    printf 'jobgen: %s: %s is in memory, so caches use memory\n' "$SLURMD_NODENAME" "$caches" >&2
export TRITON_CACHE_DIR=$caches/triton TORCHINDUCTOR_CACHE_DIR=$caches/inductor \
    TORCH_EXTENSIONS_DIR=$caches/extensions
# ---- Launch ------------------------------------------------------------------------------------
set -uo pipefail
command -v torchrun >/dev/null || die 127 "torchrun is not on PATH; activate its environment in the job's setup key"
exec torchrun --nnodes=2 --nproc-per-node=8 \
  --rdzv-backend=c10d --rdzv-id="$RDZV_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
  --rdzv-conf="is_host=$((SLURM_NODEID == 0)),join_timeout=900,read_timeout=120" --local-addr="$SLURMD_NODENAME" \
  --max-restarts=0 --no-python bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
