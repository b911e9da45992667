#!/bin/bash
# The program of one rank: run: in job.yaml:14.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # unchanged from run:
die() { printf 'jobgen: rank %s on %s: %s\n' "${RANK:-${JOBGEN_NODE_RANK:-?}}" "${SLURMD_NODENAME:-$HOSTNAME}" "$2" >&2; exit "$1"; } # CODE TEXT
# ---- Setup: a failing line ends the job, unless it ends in || true -----------------------------
setup_failed() {
    local code=$?
    # ignore failures inside the site's own files
    [[ ${#BASH_SOURCE[@]} -gt 2 ]] || die "$code" "setup failed: $1"
}
trap 'setup_failed "$BASH_COMMAND"' ERR
# job.yaml:11
export CACHE_DIR=/tmp/cache-$LOCAL_RANK
trap - ERR
# ---- Program -----------------------------------------------------------------------------------
exec python -u train.py --data $SLURM_TMPDIR/corpus
