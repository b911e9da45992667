#!/bin/bash
# Runs on every node, outside the container: enters it and starts node.sh inside.
# shellcheck disable=SC1090,SC1091,SC2016  # the cluster's files are not available here
JOBGEN_GUARD=1 exec docker run --rm --init \
    --gpus=all --device=/dev/infiniband --cap-add=IPC_LOCK \
    --user="$(id -u):$(id -g)" --network=host --ipc=host \
    --ulimit=memlock=-1 --ulimit=stack=67108864 \
    --volume="$JOBGEN_RUN_DIR:$JOBGEN_RUN_DIR" \
    --env=SLURM_JOB_ID --env=SLURM_NNODES --env=SLURM_NTASKS --env=SLURM_NODEID \
    --env=SLURM_PROCID --env=SLURM_LOCALID --env=SLURMD_NODENAME --env=CUDA_VISIBLE_DEVICES \
    --env=JOBGEN_GUARD --env=JOBGEN_NAME --env=JOBGEN_RUN_DIR --env=JOBGEN_TOKEN \
    --env=JOBGEN_BUNDLE_DIR --env=JOBGEN_WORK_DIR --env=JOBGEN_STATE_DIR --env=JOBGEN_LOG_DIR \
    --env=JOBGEN_STOP_FILE --env=JOBGEN_STOPPED_FILE --env=JOBGEN_REPORT_FILE --env=JOBGEN_RESTART \
    --env=JOBGEN_WORLD_SIZE --env=JOBGEN_MIN_WORLD_SIZE --env=JOBGEN_RANKS_PER_NODE --env=JOBGEN_CPUS_PER_RANK \
    --env=JOBGEN_SECRETS --env=MASTER_ADDR --env=MASTER_PORT --env=RDZV_ID \
    --env=JOBGEN_CHECKPOINT_DIR --env=OMP_NUM_THREADS --env=NCCL_DEBUG --env=PYTHONFAULTHANDLER \
    --env=TORCH_FR_DUMP_TEMP_FILE --env=TORCH_NCCL_DEBUG_INFO_TEMP_FILE --env=NCCL_NET --env=NCCL_IB_HCA \
    --env=NCCL_IB_TC --env=NCCL_SOCKET_IFNAME --env=GLOO_SOCKET_IFNAME --env=NCCL_IB_TIMEOUT \
    --env=NCCL_IGNORE_CPU_AFFINITY \
    ghcr.io/example/train:1.2 \
    bash "$JOBGEN_BUNDLE_DIR/node.sh"
