#!/bin/bash
# Runs on every node, outside the container: enters it and starts node.sh inside.
# shellcheck disable=SC1090,SC1091,SC2016  # the cluster's files are not available here
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
# ---- Setup: a failing line ends the job, unless it ends in || true -----------------------------
setup_failed() {
    local code=$?
    # ignore failures inside the site's own files
    [[ ${#BASH_SOURCE[@]} -gt 2 ]] || die "$code" "setup failed: $1"
}
trap 'setup_failed "$BASH_COMMAND"' ERR
# The lines before eval do not override variables of Slurm, jobgen and the job.
jobgen_env=$(declare -p CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL MASTER_ADDR \
    MASTER_PORT RDZV_ID JOBGEN_CHECKPOINT_DIR OMP_NUM_THREADS NCCL_DEBUG PYTHONFAULTHANDLER \
    TORCH_FR_DUMP_TEMP_FILE TORCH_NCCL_DEBUG_INFO_TEMP_FILE NCCL_NET NCCL_IB_HCA 2>/dev/null) || true
# cluster modules:6
module load apptainer/1.3
unset -v CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL
eval "$jobgen_env"
trap - ERR
# ---- Enter -------------------------------------------------------------------------------------
# Set again inside, because the image's own variables would win.
JOBGEN_ENV="$(declare -p CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
    MASTER_ADDR MASTER_PORT RDZV_ID JOBGEN_CHECKPOINT_DIR \
    OMP_NUM_THREADS NCCL_DEBUG PYTHONFAULTHANDLER TORCH_FR_DUMP_TEMP_FILE \
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE NCCL_NET NCCL_IB_HCA \
    2>/dev/null)" \
    exec apptainer exec --nv \
    --bind="$JOBGEN_RUN_DIR" \
    --bind=/data:/data \
    /shared/images/torch.sif \
    bash -c 'eval "$JOBGEN_ENV"; unset JOBGEN_ENV; exec bash "$0"' "$JOBGEN_BUNDLE_DIR/node.sh"
