#!/bin/bash
# Runs on every node, outside: enters the container and starts node.sh in it.
exec apptainer exec --nv \
    --bind="$JOBGEN_RUN_DIR" \
    --bind=/data:/data \
    /shared/images/torch.sif \
    bash "$JOBGEN_BUNDLE_DIR/node.sh"
