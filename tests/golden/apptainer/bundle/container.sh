#!/bin/bash
# Runs on every node, outside: enters the container and starts node.sh in it.
# shellcheck disable=SC1090,SC1091  # the cluster's files are not here to be read
die() {
    printf 'jobgen: %s: %s\n' "${SLURMD_NODENAME:-$HOSTNAME}" "$2" >&2
    exit "$1"
}

# ---- Setup: a line that fails ends the job, where nothing on it says || true -------------------
setup_failed() {
    local code=$?
    # the site's own files may fail inside as they like
    [[ ${#BASH_SOURCE[@]} -gt 2 ]] || die "$code" "setup failed: $1"
}
trap 'setup_failed "$BASH_COMMAND"' ERR
# cluster modules:6
module load apptainer/1.3
trap - ERR

# ---- Enter -------------------------------------------------------------------------------------
exec apptainer exec --nv \
    --bind="$JOBGEN_RUN_DIR" \
    --bind=/data:/data \
    /shared/images/torch.sif \
    bash "$JOBGEN_BUNDLE_DIR/node.sh"
