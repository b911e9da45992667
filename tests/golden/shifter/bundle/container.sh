#!/bin/bash
# Runs on every node, outside the container: enters it and starts node.sh inside.
# shellcheck disable=SC1090,SC1091,SC2016  # the cluster's files are not available here
# Set again inside, because the image's own variables would win.
JOBGEN_ENV="$(declare -p CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
    MASTER_ADDR MASTER_PORT RDZV_ID JOBGEN_CHECKPOINT_DIR \
    OMP_NUM_THREADS NCCL_DEBUG PYTHONFAULTHANDLER TORCH_FR_DUMP_TEMP_FILE \
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE NCCL_NET NCCL_IB_HCA \
    2>/dev/null)" \
    exec shifter --image=docker:nvcr.io/nvidia/pytorch:25.09-py3 --module=gpu,nccl-plugin \
    --volume="${SCRATCH}/data:/data:ro" \
    bash -c 'eval "$JOBGEN_ENV"; unset JOBGEN_ENV; exec bash "$0"' "$JOBGEN_BUNDLE_DIR/node.sh"
